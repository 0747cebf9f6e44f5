"""`mlftool check --format`: each problem in every format, and text that stays in its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mlftool.cli import main
from mlftool.cli.formats import github, sarif
from mlftool.errors import Problem

BAD = "version: 1\nmodels:\n  a:\n    modle: x.onnx\n    executor: eot\n"


def checked(path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["check", str(path), *words]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_all_formats_have_the_same_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(BAD)
    problems = json.loads(checked(path, capsys, "--format", "json"))["problems"]
    assert problems == json.loads(checked(path, capsys, "--json"))["problems"]
    assert len(problems) >= 2
    (run,) = json.loads(checked(path, capsys, "--format", "sarif"))["runs"]
    lines = checked(path, capsys, "--format", "github").splitlines()
    assert len(run["results"]) == len(lines) == len(problems)
    for problem, result, line in zip(problems, run["results"], lines, strict=True):
        assert result["ruleId"] == problem["code"]
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"]) == (problem["line"], problem["column"])
        assert problem["message"] in result["message"]["text"]
        place = f"line={problem['line']},col={problem['column']}"
        assert re.match(rf"::error file=[^,]*,{place},title={problem['code']}::", line)
    rules = run["tool"]["driver"]["rules"]
    assert {r["id"] for r in rules} == {p["code"] for p in problems}
    # What GitHub's code scanning shows of a rule, besides its name.
    texts = ("shortDescription", "fullDescription", "help")
    assert all(r[key]["text"].endswith(".") for r in rules for key in texts)


def test_ten_of_a_kind_and_a_count() -> None:
    """Of each file and code, in a review as in text; a second kind is not cut."""
    many = [Problem("MLF0106", f"key {k}", "a.yaml", k + 1, 1) for k in range(25)]
    other = Problem("MLF0112", "a target", "a.yaml", 3, 3)
    lines = github([*many, other]).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "::error file=a.yaml,title=MLF0106::15 more of this kind, 25 in all"
    (run,) = json.loads(sarif([*many, other]))["runs"]
    assert [r["ruleId"] for r in run["results"]] == ["MLF0106"] * 10 + ["MLF0112", "MLF0106"]
    assert "region" not in run["results"][-1]["locations"][0]["physicalLocation"]
    assert github(many[:10]).count("\n") == 9


def test_nothing_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert sarif([]).count('"results": []') == 1
    assert github([]) == ""


@pytest.mark.parametrize("text", ["a\n::error::b", "a\r\nb", "100%0A", "::set-output x::y"])
def test_text_stays_in_its_line(text: str) -> None:
    """What stands behind a line break would be a command of its own to GitHub."""
    line = github([Problem("MLF0106", text, file=f"{text},line=1", path=text, help=text)])
    assert len(line.splitlines()) == 1
    assert line.startswith("::error file=")
    assert line.partition(" ")[2].count("title=") == 1
    data: Any = json.loads(sarif([Problem("MLF0106", text, file=text)]))
    assert text in data["runs"][0]["results"][0]["message"]["text"]


def test_formats_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "x.yaml", "--json", "--format", "sarif"]) == 2
    assert "MLF0405" in capsys.readouterr().err
