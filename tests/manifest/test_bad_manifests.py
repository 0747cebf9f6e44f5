"""Every bad manifest gives exactly the lines beside it, and exit code 2.

`bad/syntax` is refused while reading YAML, `bad/structure` also by the JSON Schema, `bad/meaning`
by the validator alone. To add a case, write the manifest and the lines it must give; a changed
wording is taken over with `MLF_UPDATE_EXPECTED=1 pytest tests/manifest`, then read as a diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from manifest_corpus import HERE, Place, corpus

from mlftool.errors import BAD_INPUT, CODES, MlfError
from mlftool.manifest import load

ERROR = re.compile(r"[a-z0-9_]+\.yaml:[1-9]\d*:[1-9]\d*: error\[(MLF01\d\d)\]: .+")


@pytest.mark.parametrize("manifest", corpus("bad"))
def test_bad_manifest(manifest: Path, put: Place) -> None:
    with pytest.raises(MlfError) as caught:
        load(put(manifest))
    lines = str(caught.value) + "\n"
    expected = manifest.with_suffix(".expected")
    if os.environ.get("MLF_UPDATE_EXPECTED"):
        expected.write_text(lines, encoding="utf-8")
    assert lines == expected.read_text(encoding="utf-8")
    assert caught.value.exit_code == BAD_INPUT
    for problem in caught.value.problems:
        first, *rest = str(problem).split("\n")
        match = ERROR.fullmatch(first)
        assert match
        assert match[1] in CODES
        assert len(rest) <= 1
        # Elsewhere what is expected says what to do; of a parser's words it does not.
        assert rest or match[1] not in ("MLF0101", "MLF0102", "MLF0103"), first
        assert all(line.startswith("help: ") for line in rest)
        assert "; got " in first
        assert ", expected " in first


def test_corpus_is_large_and_has_no_twins() -> None:
    manifests = sorted((HERE / "bad").rglob("*.yaml"))
    assert len(manifests) >= 150
    texts = {m.read_bytes() for m in manifests}
    assert len(texts) == len(manifests)
    assert len({m.name for m in manifests}) == len(manifests)


def test_every_manifest_code_is_met() -> None:
    met = set()
    for expected in (HERE / "bad").rglob("*.expected"):
        met |= set(re.findall(r"error\[(MLF\d+)\]", expected.read_text(encoding="utf-8")))
    # 0100 needs a file that cannot be read, see below; 0119 a build; 0121 to 0123 a workspace.
    elsewhere = {"MLF0100", "MLF0119", "MLF0121", "MLF0122", "MLF0123"}
    assert met == {c for c in CODES if c.startswith("MLF01")} - elsewhere


def test_problems_come_in_the_files_order(put: Place) -> None:
    with pytest.raises(MlfError) as caught:
        load(put(HERE / "bad" / "structure" / "many_at_once.yaml"))
    places = [(p.line, p.column) for p in caught.value.problems]
    assert places == sorted(places)
    assert len(places) == 12


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none.yaml", "No such file or directory"), ("models", "Is a directory"), ("a\0", "embedded")],
)
def test_manifest_that_cannot_be_read(folder: Path, name: str, reason: str) -> None:
    with pytest.raises(MlfError, match=r"error\[MLF0100\]: cannot read .*" + reason):
        load(name)


def test_link_to_itself(folder: Path) -> None:
    (folder / "kws.yaml").symlink_to("kws.yaml")
    with pytest.raises(MlfError, match="MLF0100"):
        load("kws.yaml")


def test_missing_files_can_be_allowed(folder: Path) -> None:
    Path("m.yaml").write_text("version: 1\nmodels:\n  kws: {model: later.onnx}\n")
    with pytest.raises(MlfError, match="MLF0116"):
        load("m.yaml")
    assert load("m.yaml", check_files=False).models["kws"].model == "later.onnx"
