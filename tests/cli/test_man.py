"""Manual pages hold every option, as man shows them."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mlftool.cli import ABOUT, COMMANDS, main, parser_of


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["man", *words]) == 0
    return capsys.readouterr().out


def plain(troff: str) -> str:
    """The text, without requests and fonts."""
    text = re.sub(r"\\f[BIR]", "", troff).replace("\\-", "-").replace("\\(aq", "'")
    return text.replace("\\e", "\\").replace("\\&", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = plain(said(capsys, command))
    assert f"mlftool-{command} - {COMMANDS[command]}" in text
    for action in parser_of(command)._actions:
        for flag in action.option_strings if action.help != argparse.SUPPRESS else ():
            assert re.search(rf"^{re.escape(flag)}\b|, {re.escape(flag)}\b", text, re.MULTILINE), (
                flag
            )


def test_all_pages_and_the_overview(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said(capsys, "--all", str(tmp_path / "man1"))
    pages = {p.name: p.read_text() for p in (tmp_path / "man1").iterdir()}
    assert pages.keys() == {"mlftool.1", *(f"mlftool-{name}.1" for name in COMMANDS)}
    assert pages["mlftool.1"] == said(capsys)
    assert ABOUT in plain(pages["mlftool.1"])
    assert pages["mlftool-run.1"] == said(capsys, "run")
    monkeypatch.setenv("COLUMNS", "200")
    assert pages["mlftool-run.1"] == said(capsys, "run")
    for name in COMMANDS:
        assert f"mlftool-{name}" in plain(pages["mlftool.1"])


def test_lines_that_troff_would_take_for_requests(capsys: pytest.CaptureFixture[str]) -> None:
    requests = re.compile(r"^\.(TH|SH|SS|TP|B|nf|fi)\b")
    for command in COMMANDS:
        for line in said(capsys, command).splitlines():
            assert not line.startswith("'")
            assert not line.startswith(".") or requests.match(line), line


@pytest.mark.skipif(not shutil.which("groff"), reason="apt-get install groff")
def test_groff_has_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "--all", str(tmp_path))
    command = ["groff", "-man", "-Tutf8", "-ww", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_refusals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["man", "profle"]) == 2
    assert "did you mean 'profile'" in capsys.readouterr().err
    assert main(["man", "profile", "--all", str(tmp_path / "m")]) == 2
    assert not (tmp_path / "m").exists()
