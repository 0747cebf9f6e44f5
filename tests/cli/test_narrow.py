"""A narrow terminal: no line is wider, and nothing that a wide one shows is left out."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

import pytest
from shared import REPO

from mlftool import explain
from mlftool.cli import COMMANDS as COMMANDS_OF_CLI
from mlftool.cli import main, parser_of, terminal
from mlftool.table import Growth, Percent, Ratio, Table, shown, text
from mlftool.width import filled, folded, within

MODEL = str(REPO / "examples" / "models" / "gesture_int8.onnx")
COMMANDS = (
    ("ops",),
    ("ops", MODEL),
    ("explain",),
    ("explain", "MLF0312"),
    ("doctor",),
    ("inspect", "ARCHIVE"),
    ("memmap", "ARCHIVE"),
    ("trace", "ARCHIVE"),
    ("profile", MODEL),
    ("size", MODEL),
    ("bench", MODEL, "--on", "cortex-m4"),
    ("diff", "ARCHIVE", MODEL),
    ("compare", MODEL, "--on", "cortex-m4"),
    ("run", "ARCHIVE", "--on", "cortex-m4"),
    ("verify", "ARCHIVE"),
)
ON_BOARD = {"profile", "size", "bench", "diff", "compare", "run"}
needed = ("arm-none-eabi-gcc", "qemu-system-arm")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("narrow") / "m.tar")
    assert main(["compile", MODEL, "-o", out, "--target", "cortex-m4", "-q", "--verify"]) == 0
    return out


def parts(line: str) -> int:
    """How many pieces could stand in lines of their own."""
    return len(line.split())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(Path(w).name for w in c))
@pytest.mark.parametrize("columns", [40, 80])
def test_every_command_fits(
    command: tuple[str, ...],
    columns: int,
    archive: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if command[0] in ON_BOARD and not all(map(shutil.which, needed)):
        pytest.skip("apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm")
    words = [archive if w == "ARCHIVE" else w for w in command]
    status = main(words)
    wide = capsys.readouterr().out
    monkeypatch.setattr(terminal, "stdout_columns", lambda: columns)
    assert main(words) == status
    narrow = capsys.readouterr().out
    assert [n for n in narrow.splitlines() if len(n) > columns and parts(n) > 1] == []
    if command[0] != "memmap":  # whose chart has as many marks as there is room for
        assert sorted(bare(narrow)) == sorted(bare(wide))


@pytest.mark.parametrize(
    "words", [("check", MODEL), ("build", "m.yaml"), ("compile", MODEL, "-o", "m.tar")]
)
def test_what_is_said_at_the_end_fits(
    words: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On stderr, which the terminal shows with stdout."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODEL, tmp_path / "m.onnx")
    (tmp_path / "m.yaml").write_text("version: 1\nmodels: {m: {model: m.onnx}}\n")
    monkeypatch.setattr(terminal, "stdout_columns", lambda: 40)
    assert main(list(words)) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert [n for n in lines if len(n) > 40 and parts(n) > 1] == []


@pytest.mark.parametrize("command", COMMANDS_OF_CLI)
def test_help_fits(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usage says what has to be given and does not list every option twice. An option and its
    value stay together, and commands are whole, so that they can be copied."""
    monkeypatch.setenv("COLUMNS", "40")
    parser = parser_of(command)
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for leaf in (parser, *(leaf for action in inner for leaf in action.choices.values())):
        lines = leaf.format_help().splitlines()
        texts = f"{leaf.description}\n{leaf.epilog}".splitlines()
        whole = {n for n in texts if n.startswith(" ")}
        wide = [n for n in lines if len(n) > 40 and parts(n) > 1 and n not in whole]
        assert [n for n in wide if not re.match(r"  -|  \S+ {2,}\S+$", n)] == []
        assert len(leaf.format_usage().splitlines()) <= 5
        for action in leaf._actions:
            if action.required and action.metavar:
                assert str(action.metavar) in leaf.format_usage()


def bare(text: str) -> list[str]:
    """The words, without rules."""
    return [w for w in text.split() if set(w) != {"-"}]


@pytest.mark.parametrize("words", [("ops", MODEL, "--json"), ("explain", "--json")])
def test_json_stays_as_it_is(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    for columns in (0, 40):
        monkeypatch.setattr(terminal, "stdout_columns", lambda n=columns: n)
        assert main(list(words)) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_a_line_breaks_between_words() -> None:
    with within(20):
        assert folded("  one two three four five six") == "  one two three four\n      five six"
        assert folded("x" * 50) == "x" * 50  # a path can still be copied
        assert folded("a\n\nb") == "a\n\nb"
    assert folded("  one two three four five six") == "  one two three four five six"


def test_paragraphs_are_filled_and_not_indented() -> None:
    """A note that was broken at 80 columns was broken again, in the middle of its lines."""
    note = "one two three four five six"
    assert filled(note) == note
    assert filled(note, 14) == "one two three\nfour five six"
    with within(20):
        assert filled(note, 80) == "one two three four\nfive six"
        assert explain.text("MLF0206").splitlines()[:2] == [
            "MLF0206: A shape is",
            "unknown, negative,",
        ]


def test_what_rounds_to_zero_has_no_sign() -> None:
    for kind, wanted in ((Percent, "0.0 %"), (Growth, "+0.0 %"), (Ratio, "0.00")):
        assert shown(kind(-0.0003)) == shown(kind(0)) == wanted


def test_a_table_that_fits_is_a_table() -> None:
    table = Table(("name", "bytes"), (("first", 1), ("second", 20_000)), ("all", 20_001))
    wide = text(table)
    with within(len(wide.splitlines()[0])):
        assert text(table) == wide
    with within(20):
        assert text(Table(("name", "kernel"), (("a" * 12, "b" * 12),))).splitlines() == [
            "name",
            "    kernel",
            "a" * 12,
            "    " + "b" * 12,
        ]
