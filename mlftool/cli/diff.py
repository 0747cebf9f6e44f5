"""`mlftool diff A B`: what changed between two builds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.subject import FILE, add_subject_options, subjects
from mlftool.cli.terminal import as_json, printed
from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.width import folded

if TYPE_CHECKING:
    from mlftool.insight.diff import Difference
    from mlftool.insight.facts import Facts

HELP = "compare two builds: sizes, instructions, layers, results, interface"
GROUP = "run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("before", metavar="A", type=Path, help=f"{FILE}, or a file of --save")
    add("after", metavar="B", type=Path, nargs="?", help="the same; not needed with --save")
    add("--fail-on", metavar="LIMIT", action="append", default=[],
        help="exit with 1 if B exceeds it: 'flash>+2%%', 'ram>64KiB', 'instructions>+0'; "
        "repeatable")  # fmt: skip
    add("--save", metavar="FACTS.json", type=Path, help="write the figures of B, or of A without B")
    add("--no-run", action="store_true", help="compare only what is known without a board")
    add("--on", metavar="BOARD", help="a board: its name or folder (the target's)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print a table for a pull request")
    add_subject_options(parser)


def run(args: argparse.Namespace) -> int:
    from mlftool.insight import diff
    from mlftool.insight.facts import save
    from mlftool.mlf import check_writable

    check_writable(args.save)
    limits = [diff.limit(text) for text in args.fail_on]
    if args.after is None:
        if not args.save:
            raise MlfError(Problem("MLF0400", "nothing to compare with", help="give A and B"))
        save(args.save, _facts(args, args.before))
        return 0
    old, new = _facts(args, args.before, args.after), _facts(args, args.after, args.before)
    found, alone = diff.paired(old, new)
    printed(_shown(args, found, alone))
    if args.save:
        save(args.save, new)
    problems = list(diff.all_exceeded(found, limits))
    if problems:
        raise MlfError(problems, CHECK_FAILED)
    return 0


def _facts(args: argparse.Namespace, file: Path, beside: Path | None = None) -> Sequence[Facts]:
    from mlftool.insight.facts import facts, read_facts

    if file.suffix == ".json":
        return read_facts(file)
    return [facts(s, args.on, not args.no_run) for s in subjects(args, file, beside=beside)]


def _shown(args: argparse.Namespace, found: Sequence[Difference], alone: Sequence[str]) -> str:
    from mlftool.insight import diff

    if args.json:
        data = {"differences": [diff.to_json(d) for d in found], "unpaired": list(alone)}
        return as_json(**data)
    if args.markdown:
        return diff.markdown(found, alone)
    return folded("\n\n".join([*map(diff.text, found), *alone]))
