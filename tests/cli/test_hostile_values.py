"""Every option of every command with a value that nobody means: exit code 0 or 2, at most one line
and its help, which fit a screen; nothing written that the command did not say.

Options are found by asking the parsers, as in test_bad_input.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from test_bad_input import MANIFEST, MODEL, Case, call, parsers

from mlftool.cli import main
from mlftool.errors import MOST

VALUES = {
    "long": "n" * 10_240,
    "long-words": "evil " * 2048,
    "control": "a\x1b[31m\r\nb\x07\u202e",
    "huge": "9" * 400,
    "negative": "-1",
    "empty": "",
    "format": "%s%n{0}",
}
# Those that wait for files to change, or name no file, option or choice.
LEFT_OUT = {"watch", "doctor"}


def options() -> Iterator[tuple[Case, tuple[str, ...]]]:
    """Each option with its values: one where an earlier command has the same option."""
    seen = set[tuple[object, ...]]()
    for words, parser in parsers():
        for action in parser._actions:
            takes = action.nargs != 0 and not isinstance(action, argparse._SubParsersAction)
            if takes and words[0] not in LEFT_OUT:
                same = (action.dest, action.type, action.help)
                values = ("long",) if same in seen else tuple(VALUES)
                seen.add(same)
                yield Case(words, action, parser, "good.onnx"), values


@pytest.fixture(scope="module")
def goods(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("goods")
    onnx.save(onnx.parser.parse_model(MODEL), folder / "good.onnx")
    zeros = np.zeros((1, 4), np.float32)
    np.savez(folder / "good.npz", x=zeros, y=zeros)
    (folder / "good.yaml").write_text(MANIFEST)
    assert main(["compile", str(folder / "good.onnx"), "-o", str(folder / "good.tar")]) == 0
    return folder


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("case", "values"), [pytest.param(*option, id=option[0].name) for option in options()]
)
def test_hostile_values(
    case: Case,
    values: tuple[str, ...],
    goods: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for kind, value in ((kind, VALUES[kind]) for kind in values):
        folder = tmp_path / kind
        folder.mkdir()
        monkeypatch.chdir(folder)
        for file in goods.iterdir():
            Path(file.name).symlink_to(file)
        before = sorted(Path().rglob("*"))
        words = call(case, value)
        if case.action.option_strings and value.startswith("-"):
            at = words.index(value)
            words[at - 1 : at + 1] = [f"{words[at - 1]}={value}"]
        status = main(words)
        out, err = capsys.readouterr()
        assert status in (0, 2), (kind, err)
        hostile = set(out + err) & set(VALUES["control"]) - {"\n"}
        assert [c for c in hostile if not c.isprintable()] == [], (kind, out, err)
        if status == 2:
            _is_one_line(err, kind)
            assert sorted(Path().rglob("*")) == before, kind


def _is_one_line(err: str, kind: str) -> None:
    first, *rest = [line for line in err.splitlines() if not line.startswith("[1/1] ")]
    assert "error[MLF" in first, (kind, err)
    assert "MLF09" not in first, (kind, err)
    assert len(rest) <= 1, (kind, err)
    assert max(map(len, err.splitlines())) < 2 * MOST, kind
