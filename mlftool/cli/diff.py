"""`mlftool diff A B`: what changed between two builds."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.options import check_outputs
from mlftool.cli.subject import FILE, add_subject_options, fitting, refusals, subjects
from mlftool.cli.terminal import as_json, printed
from mlftool.errors import BAD_INPUT, CHECK_FAILED, MlfError, Problem, builds_of
from mlftool.frozen import frozen
from mlftool.width import folded

if TYPE_CHECKING:
    from mlftool.insight.diff import Difference
    from mlftool.insight.facts import Facts
    from mlftool.insight.subject import Subject

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

    check_outputs(args, args.save)
    limits = [diff.limit(text) for text in args.fail_on]
    if args.after is None:
        if not args.save:
            raise MlfError(Problem("MLF0400", "nothing to compare with", help="give A and B"))
        with refusals() as problems:
            only = _facts(args, args.before, problems)
            if not only.misfits:
                save(args.save, only.fit)
        return 0
    with refusals(CHECK_FAILED if limits else BAD_INPUT) as problems:
        old = _facts(args, args.before, problems, args.after)
        new = _facts(args, args.after, problems, args.before)
        found, alone = diff.paired(old.fit, new.fit, {*old.misfits, *new.misfits})
        printed(_shown(args, found, alone))
        if args.save and not new.misfits:
            save(args.save, new.fit)
        problems += diff.all_exceeded(found, limits)
    return 0


@frozen
class _Built:
    """What a file's builds are compared by, and the names of those that their board has no room
    for."""

    fit: Sequence[Facts]
    misfits: Sequence[str] = ()


def _facts(
    args: argparse.Namespace, file: Path, refused: list[Problem], beside: Path | None = None
) -> _Built:
    from mlftool.insight.facts import facts, read_facts

    if file.suffix == ".json":
        return _Built(read_facts(file))
    tried: list[str] = []

    def measure(subject: Subject) -> Facts:
        tried.append(subject.name)
        with builds_of(file):
            return facts(subject, args.on, not args.no_run)

    fit = list(fitting(measure, subjects(args, file, beside=beside), refused))
    there = {f.name for f in fit}
    return _Built(fit, [name for name in tried if name not in there])


def _shown(args: argparse.Namespace, found: Sequence[Difference], alone: Sequence[str]) -> str:
    from mlftool.insight import diff

    if args.json:
        data = {"differences": [diff.to_json(d) for d in found], "unpaired": list(alone)}
        return as_json(**data)
    if args.markdown:
        return diff.markdown(found, alone)
    return folded("\n\n".join([*map(diff.text, found), *alone]))
