"""Hints for misspelt words, and long lists cut to what somebody reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mlftool.cli import COMMANDS, GROUPED, GROUPS, main
from mlftool.errors import AT_MOST, MOST_LISTED, Problem, did_you_mean, shown


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("comple m.onnx", "compile"),
        ("chekc m.onnx", "check"),
        ("inspct m.tar", "inspect"),
        ("compile m.onnx -o m.tar --optimise size", "--optimize"),
        ("compile m.onnx -o m.tar --modul-nam x", "--module-name"),
        ("run m.onnx --inputs x.npz --exepct y.npz", "--expect"),
        ("check m.onnx --jsno", "--json"),
        ("compile m.onnx -o m.tar --optimize sise", "size"),
        ("--verson", "--version"),
        ("check --josn", "--json"),  # which says more than that a model is missing
        ("micro creat", "create"),
        ("run m.onnx --inputs x.npz --target cortex-m4", "--on"),
        ("profile m.onnx --board cortex-m4", "--on"),
        ("compile m.onnx --on cortex-m4 -o m.tar", "--target"),
        ("compile m.onnx -o m.tar --executor grap", "graph"),
        ("graph m.onnx --svg m.svg", "--output"),
        ("memmap m.onnx -o m.svg", "--svg"),
        ("extract m.tar -o folder", "--all"),
    ],
)
def test_did_you_mean(words: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    first, hint = capsys.readouterr().err.splitlines()
    assert first.startswith("mlftool: error[MLF0400]: ")
    assert hint.startswith(f"help: did you mean '{near}'? see 'mlftool")


@pytest.mark.parametrize(
    "words",
    [
        "xyzzy",
        "check m.onnx --xyzzy",
        "compile a b c -o d",
        # Near to what is in every option: its dashes.
        "extract m.tar --list",
        "profile m.onnx --by-kernel",
    ],
)
def test_far_words_have_no_hint(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_every_command_is_near_to_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert main([name + "x"]) == 2
        assert f"did you mean '{name}'" in capsys.readouterr().err


def test_help_has_every_command_in_the_order_of_a_project(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if re.match(r"  [a-z]+ {2,}\w", line)]
    assert listed == [name for group in GROUPED.values() for name in group]
    assert sorted(listed) == list(COMMANDS)
    assert [line[:-1] for line in lines if line.endswith(":")][2:] == list(GROUPS.values())
    assert max(map(len, lines)) < 80


def test_ten_of_a_kind_and_a_count() -> None:
    many = [Problem("MLF0301", f"no {k}", "m.onnx") for k in range(25)]
    other = [Problem("MLF0206", "shape", "m.onnx"), Problem("MLF0301", "no x", "n.onnx")]
    lines = shown([*many, *other]).splitlines()
    assert len(lines) == AT_MOST + 3
    assert lines[-3:] == [
        "m.onnx: error[MLF0206]: shape",
        "n.onnx: error[MLF0301]: no x",
        "m.onnx: error[MLF0301]: 15 more of this kind, 25 in all",
    ]
    assert shown(many[:10]).count("\n") == 9
    assert shown([]) == ""


def test_a_long_list_is_cut_for_people_and_whole_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(f"  k{i}: {i}\n" for i in range(30))
    (tmp_path / "m.yaml").write_text(
        "version: 1\nmodels:\n  m: {model: m.onnx}\ndefaults:\n" + lines
    )
    assert main(["check", str(tmp_path / "m.yaml")]) == 2
    text = capsys.readouterr().err
    assert text.count("error[MLF0106]") == AT_MOST + 1
    assert "20 more of this kind, 30 in all" in text
    assert main(["check", str(tmp_path / "m.yaml"), "--json"]) == 2
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert len([p for p in problems if p["code"] == "MLF0106"]) == 30


def test_no_hint_is_a_page() -> None:
    few, many = [f"name{k}" for k in range(MOST_LISTED)], [f"name{k}" for k in range(200)]
    assert did_you_mean("xyzzy", few).count("name") == MOST_LISTED
    assert did_you_mean("xyzzy", many) == ""
    assert did_you_mean("nam7", many) == "did you mean 'name7'?"
