"""docs/quantize.md shows what is printed, less its figures; MLFTOOL_WRITE_PAGES=1 writes it."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from shared import REPO

from mlftool.cli import main
from mlftool.options import METRICS

PAGE = REPO / "docs" / "quantize.md"
BLOCK = re.compile(r"^```sh\n\$ mlftool (.*)\n((?:.|\n)*?)^```$", re.MULTILINE)


def plain(text: str) -> list[list[str]]:
    """The words that do not depend on figures; how ranges were chosen and what helped may move."""
    lines = [line for line in text.strip().splitlines() if "least error" not in line]
    lines = [line for line in lines if not re.search(r"kept|no gain", line)]
    return [re.sub(r"[-\d,.+%]+", " ", line).split() for line in lines]


def test_the_page_shows_what_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(REPO)
    page = PAGE.read_text()
    ((command, shown),) = BLOCK.findall(page)
    assert main(shlex.split(command.replace("OUT", str(tmp_path)))) == 0
    got = capsys.readouterr().out.replace(str(tmp_path), "OUT")
    if os.environ.get("MLFTOOL_WRITE_PAGES"):
        PAGE.write_text(page.replace(f"{command}\n{shown}", f"{command}\n{got}"))
    else:
        assert plain(shown) == plain(got)


def test_the_page_has_every_metric() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert rows == list(METRICS)
