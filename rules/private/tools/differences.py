"""`differences BASELINE PATH LABEL [OPTION].. FACTS.json.. [--update | --markdown[=FILE]]`

PATH is the baseline's path in the workspace; `bazel run LABEL -- --update` writes it there. With
`--markdown` the changes are a table for a review, whatever they are. FILE is in the user's folder,
and has nothing of what `bazel run` prints itself.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from mlftool.errors import CHECK_FAILED, MlfError, Problem, exits
from mlftool.insight import diff
from mlftool.insight.facts import Facts, read_facts, to_bytes
from rules.private.tools import forms


def parser() -> argparse.ArgumentParser:
    made = forms.parser("baseline", "path", "label")
    made.add_argument("facts", nargs="+", type=Path, help=argparse.SUPPRESS)
    made.add_argument("--fail-on", action="append", default=[], help=argparse.SUPPRESS)
    return made


def committed(path: Path) -> tuple[Facts, ...]:
    """What the baseline holds; an empty file is how one begins. Raises MlfError."""
    return read_facts(path) if path.stat().st_size else ()


def judge(args: argparse.Namespace) -> int:
    """Prints what changed. Raises MlfError for each limit that is exceeded."""
    limits = [diff.limit(text) for text in args.fail_on]
    new = [one for file in args.facts for one in read_facts(file)]
    if twice := [name for name, count in Counter(one.name for one in new).items() if count > 1]:
        raise MlfError([Problem("MLF0405", "two modules have this name", name) for name in twice])
    if args.update:
        return forms.update(args.path, args.label, to_bytes(new))
    found, alone = diff.paired_by_name(committed(Path(args.baseline)), new)
    if args.markdown is not None:
        return forms.shown(args.markdown, diff.markdown(found, alone))
    for text in [*map(diff.text, filter(diff.is_change, found)), *alone]:
        print(text + "\n")
    if any(map(diff.is_change, found)) or alone:
        print(f"to accept this: bazel run {args.label} -- --update")
    problems = list(diff.all_exceeded(found, limits))
    if problems:
        raise MlfError(problems, CHECK_FAILED)
    return CHECK_FAILED if alone else 0


@exits
def main(arguments: list[str]) -> int:
    """Exit code as the command line's."""
    return judge(parser().parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
