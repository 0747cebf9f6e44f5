"""The commands of the tutorial and the migration page, run as a reader runs them.

A page's code blocks are read in order. After a line that is a file's name in backticks and a colon
a block is that file. `sh` is run, and `text` after it must be in what it printed: every line, with
spaces as they come, though in a line more may follow. A command whose text has an error must fail.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from nested import ROOT, WHEELS, count, make_workspace, programs

pytestmark = pytest.mark.sampled(4)

BLOCK = re.compile(r"(?:^`([\w./]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps(page: str) -> Iterator[tuple[str, str, str]]:
    """(kind, text, what must be printed): kind is `sh` or the name of a file."""
    blocks = [m.groups(default="") for m in BLOCK.finditer(page)]
    for i, (name, language, text) in enumerate(blocks):
        follows = blocks[i + 1][2] if i + 1 < len(blocks) and blocks[i + 1][1] == "text" else ""
        if name or language == "sh":
            yield name or "sh", text, follows if language == "sh" else ""


def words(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[[\d;]*m|\(cached\)", "", text).split())


# Each page goes on where the one before it ends.
@pytest.mark.sampled(4)
@pytest.mark.parametrize("names", [("tutorial", "boards", "rebuilds"), ("migration_genrules",)])
def test_every_command_of_the_pages_works(
    tmp_path: Path, cache: Path, names: tuple[str, ...]
) -> None:
    made = make_workspace(tmp_path, cache)
    project = tmp_path / "project"
    project.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{programs(tmp_path, made)}:{os.environ['PATH']}",
    }
    ran = 0
    pages = [(ROOT / "docs" / f"{name}.md").read_text() for name in names]
    for kind, text, printed in (step for page in pages for step in steps(page)):
        if kind != "sh":
            (project / kind).parent.mkdir(parents=True, exist_ok=True)
            (project / kind).write_text(text)
            continue
        run = subprocess.run(
            ["sh", "-ec", text], cwd=project, env=environment, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        talk = run.stdout + run.stderr
        assert (run.returncode != 0) == ("error[" in printed), f"{text}\n{talk}"
        seen = words(talk)
        assert [line for line in printed.splitlines() if words(line) not in seen] == [], talk
        ran += 1
    count(tmp_path / "server")
    subprocess.run(["bazel", "shutdown"], cwd=project, env=environment, check=True)
    assert ran >= 4 * len(names) - 1


def test_wheels_are_those_of_the_outer_build() -> None:
    """Under Bazel there is no index to install from, so the pages' workspaces must find them."""
    assert WHEELS.exists() or "TEST_SRCDIR" not in os.environ


def test_a_page_is_read_as_it_says() -> None:
    page = "`a/B`:\n\n```c\nx\n```\n\n```sh\nls\n```\n\n```text\nB\n```\n\n```yaml\nno\n```\n"
    assert list(steps(page)) == [("a/B", "x\n", ""), ("sh", "ls\n", "B\n")]
