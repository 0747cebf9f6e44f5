"""Every error code has a cause, an example that really gives it, and a remedy."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from shared import OWN, REPO

from mlftool.cli import COMMANDS, main
from mlftool.errors import CODES, MlfError
from mlftool.explain import EXPLANATIONS
from mlftool.manifest import read

MANIFESTS = {code: e.manifest for code, e in EXPLANATIONS.items() if e.manifest}
RUNNABLE = {code: e.command for code, e in EXPLANATIONS.items() if e.command}


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(words) == status
    out, err = capsys.readouterr()
    return out if status == 0 else err


def test_every_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert EXPLANATIONS.keys() == CODES.keys()
    for code, found in EXPLANATIONS.items():
        assert found.cause.endswith("."), code
        assert found.remedy.endswith("."), code
        assert [found.manifest, found.command, found.message].count("") == 2, code
        shown = said(capsys, "explain", code)
        for part in (CODES[code], found.cause, found.remedy):
            assert part in shown
        if found.message:
            assert re.search(rf"(error|warning)\[{code}\]: .", found.message), code


def test_remedies_say_more_than_the_message() -> None:
    """`explain` is asked for after the message was read, often where no page of docs/ is."""
    for code, found in EXPLANATIONS.items():
        refers = "message" in found.remedy or "docs/" in found.remedy
        assert not refers or "`" in found.remedy, code


@pytest.mark.parametrize("code", MANIFESTS)
def test_manifests_of_examples_have_the_error(code: str, folder: Path) -> None:
    file = folder / "models.yaml"
    file.write_text(MANIFESTS[code])
    try:
        found = read(file)[1]
    except MlfError as error:
        found = error.problems
    assert {p.code for p in found} == {code}, found


@pytest.mark.parametrize("code", RUNNABLE)
def test_commands_of_examples_fail_so(
    code: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    _, *words = shlex.split(RUNNABLE[code])
    assert main(words) in (1, 2)
    assert f"error[{code}]" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What examples name."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copy(OWN / "gesture_int8.onnx", folder / "model.onnx")
    vectors = dict(np.load(OWN / "gesture_int8.npz"))
    vectors = {name: array[:1] for name, array in vectors.items()}
    (name,) = vectors.keys() & {"acceleration"}
    np.savez(folder / "model.npz", **vectors)
    np.savez(folder / "other.npz", other=vectors[name])
    np.savez(folder / "wrong.npz", **{name: vectors[name].astype(np.float64)})
    np.savez(folder / "zeros.npz", probability=np.full((1, 1, 5), 99, np.int8))
    for file in ("notes.txt", "notes.tar", "notes.onnx", "notes.so"):
        (folder / file).write_text("to do: buy milk\n" * 100)
    assert main(["compile", str(folder / "model.onnx"), "-o", str(folder / "model.tar")]) == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "examples"))


def test_remedies_name_commands_that_exist() -> None:
    texts = " ".join(f"{e.cause} {e.remedy}" for e in EXPLANATIONS.values())
    named = set(re.findall(r"`mlftool ([a-z]+)", texts))
    assert len(named) > 5
    assert named <= COMMANDS.keys()


@pytest.mark.parametrize("word", ["MLF0301", "mlf0301", "0301", "301"])
def test_ways_to_write_a_code(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "explain", word).startswith("MLF0301: ")


@pytest.mark.parametrize("word", ["MLF0999", "E0308", "²", "", "MLF03011", "\x1b[2J"])
def test_what_is_no_code(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    err = said(capsys, "explain", word, status=2)
    assert "error[MLF0400]: no such error code" in err
    assert "\x1b" not in err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(said(capsys, "explain", "--json"))
    assert data["schema_version"] == 1
    assert [c["code"] for c in data["codes"]] == list(CODES)
    assert all(c["cause"] and c["example"] and c["remedy"] for c in data["codes"])
    listed = said(capsys, "explain").splitlines()
    assert [line.split()[0] for line in listed] == list(CODES)


PLACE = r"(?:(?:(?:node|input|output|tensor) '[^']+'(?: \(\w+\))?|[\w./\[\]-]+): )*"


def templates() -> Iterator[tuple[str, int]]:
    """Each text in the sources that a message may be, as a pattern with `.*?` for its values, and
    how many letters of it are fixed."""
    sources = [*(REPO / "mlftool").rglob("*.py"), *(REPO / "rules/private/tools").glob("*.py")]
    for path in sources:
        if path.parent.name == "explain":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [p.value if isinstance(p, ast.Constant) else None for p in parts]
            fixed = len("".join(t for t in texts if isinstance(t, str)).strip())
            if fixed >= 8:
                yield "".join(".*?" if t is None else re.escape(str(t)) for t in texts), fixed


def test_messages_of_examples_are_those_of_the_program() -> None:
    """Not words that it once had: a text of the sources, after a place and before details, is at
    least a third of each."""
    found = {text: fixed for text, fixed in templates()}
    known = [(re.compile(rf"{PLACE}({text})(?:[;,:' ].*)?"), n) for text, n in found.items()]
    unknown = []
    for code, explanation in EXPLANATIONS.items():
        body = explanation.message.partition("]: ")[2]
        if code == "MLF0900":  # the text is an exception's of Python
            continue
        matches = ((known.fullmatch(body), fixed) for known, fixed in known)
        if body and not any(m and 3 * fixed >= len(m[1]) for m, fixed in matches):
            unknown.append((code, body))
    assert unknown == []
