"""docs/analysis.md shows what the commands really print.

Figures move with every better kernel: the test compares the lines without numbers and spaces.
MLFTOOL_WRITE_PAGES=1 writes today's output into the page.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from looks import needs_board
from shared import REPO

from mlftool.cli import main
from mlftool.insight import curve

PAGE = REPO / "docs" / "analysis.md"
BLOCK = re.compile(r"^```sh\n\$ mlftool (.*)\n((?:.|\n)*?)^```$", re.MULTILINE)


def plain(text: str) -> list[list[str]]:
    """What does not depend on figures."""
    lines = text.strip().splitlines()
    return [re.sub(r"[-\d,.+%#█░▏]+", " ", line).split() for line in lines]


@needs_board
def test_the_page_shows_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(REPO)
    page = PAGE.read_text()
    blocks = BLOCK.findall(page)
    assert blocks
    for command, shown in blocks:
        words = shlex.split(command.replace("OUT", str(tmp_path)))
        assert main(words) in (0, 1), capsys.readouterr().err
        got = capsys.readouterr().out.replace(str(tmp_path), "OUT")
        if os.environ.get("MLFTOOL_WRITE_PAGES"):
            page = page.replace(f"$ mlftool {command}\n{shown}", f"$ mlftool {command}\n{got}")
        else:
            assert plain(shown) == plain(got), command
    if os.environ.get("MLFTOOL_WRITE_PAGES"):
        PAGE.write_text(page)


def test_commands_of_the_page_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for command in re.findall(r"^## mlftool (\w+)", PAGE.read_text(), re.MULTILINE):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"mlftool {command}" in capsys.readouterr().out


def test_the_page_has_the_limits_of_the_curve() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"more than {curve.MOST_STEPS} steps" in text
    assert f"more than {curve.MOST_INSTRUCTIONS // 10**6} million" in text
