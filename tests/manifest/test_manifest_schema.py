"""The JSON Schema that editors use says the same as the validator, as far as a schema can tell."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from manifest_corpus import FUZZ, HERE, corpus

from mlftool.cli import main
from mlftool.manifest import read, schema
from mlftool.manifest.nodes import plain
from mlftool.manifest.reader import read_nodes

VALIDATOR = jsonschema.Draft7Validator(schema())
# What the validator alone knows: other places of the manifest, the files, and that 1.0 is no
# whole number (JSON has one kind of number).
MEANING = {"MLF0108", "MLF0109", "MLF0110", "MLF0111", "MLF0112", "MLF0114", "MLF0115", "MLF0116"}


def document(manifest: Path) -> Any:
    node = read_nodes(manifest.read_bytes(), lambda *_, **__: pytest.fail("not readable"))
    assert node is not None
    return plain(node)


def test_schema_is_valid_and_is_draft_7() -> None:
    jsonschema.Draft7Validator.check_schema(schema())
    assert schema()["$schema"] == "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize("manifest", corpus("good"))
def test_good_manifests_agree(manifest: Path) -> None:
    assert [e.message for e in VALIDATOR.iter_errors(document(manifest))] == []


@pytest.mark.parametrize("manifest", corpus("bad/structure"))
def test_structural_mistakes_agree(manifest: Path) -> None:
    assert not VALIDATOR.is_valid(document(manifest))


@pytest.mark.parametrize("manifest", corpus("bad/meaning"))
def test_mistakes_of_meaning_are_beyond_the_schema(manifest: Path) -> None:
    assert [e.message for e in VALIDATOR.iter_errors(document(manifest))] == []


def keys(part: Any) -> list[dict[str, Any]]:
    """Every `properties` entry in a schema, at any depth."""
    if isinstance(part, list):
        return [k for item in part for k in keys(item)]
    if not isinstance(part, dict):
        return []
    own = list(part["properties"].values()) if isinstance(part.get("properties"), dict) else []
    return own + [k for item in part.values() for k in keys(item)]


def test_every_key_has_hover_text_and_names_are_offered() -> None:
    found = keys(schema())
    assert len(found) >= 20
    assert all(k["description"].endswith(".") for k in found)
    assert "cortex-m4" in json.dumps(schema()["properties"]["models"])


def test_examples_are_values_of_their_keys() -> None:
    with_examples = [k for k in keys(schema()) if "examples" in k]
    assert len(with_examples) >= 15
    for about in with_examples:
        jsonschema.Draft7Validator(about).validate(about["examples"][0])


def test_schema_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == schema()
    assert captured.err == ""


SEEDS = [document(HERE / "good" / f"{name}.yaml") for name in ("everything", "limits", "flow")]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 1 << 41),
    st.floats(),
    st.sampled_from(["host", "aot", "kws", "kws.onnx", "kws.npz", "64KiB", "../a.onnx", "", "K s"]),
    st.text(max_size=6),
    st.just([]),
    st.just({}),
    st.just(["host", "host"]),
    st.just([1, 2]),
    st.just({"model": "kws.onnx"}),
)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything inside `value`."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    own = [(value, key) for key, _ in inside]
    nested = [
        child for _, child in (value.items() if isinstance(value, dict) else enumerate(value))
    ]
    return own + [s for child in nested if isinstance(child, dict | list) for s in spots(child)]


@st.composite
def mutants(draw: st.DrawFn) -> Any:
    """A good document with one to three values replaced, removed or renamed."""
    value = copy.deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 3))):
        places = spots(value)
        if not places:
            break
        container, key = places[draw(st.integers(0, len(places) - 1))]
        how = draw(st.sampled_from(["replace", "replace", "remove", "rename"]))
        if how == "replace":
            container[key] = copy.deepcopy(draw(VALUES))
        elif how == "rename" and isinstance(container, dict):
            container[draw(st.sampled_from(["test", "flash", "target", "Kws", "x y"]))] = container[
                key
            ]
        else:
            del container[key]
    return value


@FUZZ
@given(value=mutants())
def test_mutants_agree(value: Any, folder: Path) -> None:
    # JSON is YAML 1.2; NaN and infinities are spelt as JSON cannot.
    text = json.dumps(value).replace("-Infinity", "-.inf").replace("Infinity", ".inf")
    Path("m.yaml").write_text(text.replace("NaN", ".nan"))
    seen = document(Path("m.yaml"))
    _, problems = read("m.yaml")
    if VALIDATOR.is_valid(seen):
        assert {p.code for p in problems} <= MEANING, text
    else:
        assert problems, text


def test_plain_scalars_differ_from_yaml_1_1() -> None:
    """Why PyYAML's own loader is not used: these are what editors, which speak 1.2, say."""
    text = "[on, no, 010, 0o17, 1e-3, 1:30, 2001-01-01, 0b11, 1_000, ~, TRUE, .5, 0x1F]"
    node = read_nodes(text.encode(), lambda *_, **__: pytest.fail("not readable"))
    assert node is not None
    expected = [
        "on",
        "no",
        10,
        15,
        1e-3,
        "1:30",
        "2001-01-01",
        "0b11",
        "1_000",
        None,
        True,
        0.5,
        31,
    ]
    assert plain(node) == expected
    assert yaml.safe_load(text) != expected
