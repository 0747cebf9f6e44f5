#!/usr/bin/env python3
"""Says what a change touched: of each commit of a range, the source files that somebody edited.

    python tools/touches.py main..                  each commit, and its files
    python tools/touches.py -n 20 main -- mlftool   of the last 20 commits that touch mlftool

The arguments are those of git log. What adding a thing takes is measured so: an operator is one
file of its family and a template, a kernel of a target the same. Tests, documentation, benchmarks,
examples and what a tool writes are not counted; templates are told from the others. Merges are left
out.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).absolute().parent.parent
FOLDERS = ("mlftool", "crt", "rules", "tools")  # whose files are sources
WRITTEN = ("rules/private/options.bzl",)  # by a tool
PROSE = (".md", ".lock", ".in", ".txt")
TEMPLATE = ".j2"
_COMMIT = "\x1e"


@dataclass(frozen=True)
class Touch:
    """A commit, and its sources: those that it added, those that it edited."""

    commit: str
    subject: str
    added: tuple[str, ...]
    edited: tuple[str, ...]

    @property
    def templates(self) -> int:
        return sum(name.endswith(TEMPLATE) for name in (*self.added, *self.edited))

    @property
    def files(self) -> int:
        """Beside templates."""
        return len(self.added) + len(self.edited) - self.templates


def is_source(name: str) -> bool:
    """Whether a file of the repository is a source that is edited by hand."""
    path = PurePosixPath(name)
    return path.parts[0] in FOLDERS and name not in WRITTEN and path.suffix not in PROSE


def parsed(log: str) -> Iterator[Touch]:
    """From `git log --name-status` with a record separator before each commit; a file that moved
    counts as an edited one."""
    for block in log.split(_COMMIT)[1:]:
        head, *lines = block.splitlines()
        commit, _, subject = head.partition(" ")
        rows = [line.split("\t") for line in lines if line]
        sources = [(row[0], row[-1]) for row in rows if is_source(row[-1])]
        added = tuple(sorted(name for kind, name in sources if kind == "A"))
        edited = tuple(sorted(name for kind, name in sources if kind != "A"))
        yield Touch(commit, subject, added, edited)


def touches(revisions: Sequence[str], root: Path = ROOT) -> list[Touch]:
    """The commits of a range in which a source changed, the newest first. Raises
    CalledProcessError for what git does not know."""
    command = ["git", "-C", str(root), "log", "--no-merges", "--name-status", "-M"]
    command += ["--full-diff", f"--format={_COMMIT}%h %s", *revisions]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [t for t in parsed(log) if t.added or t.edited]


def main(arguments: Sequence[str]) -> int:
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__.strip())
        return 0
    try:
        found = touches(arguments)
    except (OSError, subprocess.CalledProcessError) as error:
        text = getattr(error, "stderr", "") or str(error)
        print(f"touches: {text.strip()}", file=sys.stderr)
        return 2
    for t in found:
        print(f"{t.commit} {t.files} + {t.templates} templates: {t.subject}")
        for sign, names in (("+", t.added), (" ", t.edited)):
            for name in names:
                print(f"    {sign} {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
