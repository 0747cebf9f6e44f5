"""`differences BASELINE PATH LABEL [OPTION].. FACTS.json.. [--update | --markdown[=FILE]]`

PATH is the baseline's path in the workspace; `bazel run LABEL -- --update` writes it there. With
`--markdown` the changes are a table for a review, whatever they are. FILE is in the user's folder,
and has nothing of what `bazel run` prints itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mlftool.errors import CHECK_FAILED, ENVIRONMENT, MlfError, Problem
from mlftool.insight import diff
from mlftool.insight.facts import Facts, read_facts, save
from mlftool.mlf import write_atomically


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="bazel run LABEL --", usage="%(prog)s [--update|--markdown[=FILE]]"
    )
    made.add_argument("baseline", type=Path, help=argparse.SUPPRESS)
    made.add_argument("path", type=Path, help=argparse.SUPPRESS)
    made.add_argument("label", help=argparse.SUPPRESS)
    made.add_argument("facts", nargs="+", type=Path, help=argparse.SUPPRESS)
    made.add_argument("--fail-on", action="append", default=[], help=argparse.SUPPRESS)
    form = made.add_mutually_exclusive_group()
    form.add_argument("--update", action="store_true", help="write the committed file")
    form.add_argument(
        "--markdown",
        nargs="?",
        const="",
        metavar="FILE",
        help="print a table for a pull request, or write it to a file",
    )
    return made


def committed(path: Path) -> tuple[Facts, ...]:
    """What the baseline holds; an empty file is how one begins. Raises MlfError."""
    return read_facts(path) if path.stat().st_size else ()


def update(path: Path, label: str, found: Sequence[Facts]) -> int:
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if not root:
        print(f"start it with: bazel run {label} -- --update", file=sys.stderr)
        return ENVIRONMENT
    save(Path(root) / path, found)
    print(f"{path} is written")
    return 0


def shown(file: str, table: str) -> int:
    """Prints the table, or writes it to a file. Raises MlfError."""
    if not file:
        print(table)
        return 0
    folder = os.environ.get("BUILD_WORKING_DIRECTORY", ".")
    write_atomically(Path(folder) / file, (table + "\n").encode())
    return 0


def judge(args: argparse.Namespace) -> int:
    """Prints what changed. Raises MlfError for each limit that is exceeded."""
    limits = [diff.limit(text) for text in args.fail_on]
    new = [one for file in args.facts for one in read_facts(file)]
    if twice := [name for name, count in Counter(one.name for one in new).items() if count > 1]:
        raise MlfError([Problem("MLF0405", "two modules have this name", name) for name in twice])
    if args.update:
        return update(args.path, args.label, new)
    found, alone = diff.paired_by_name(committed(args.baseline), new)
    if args.markdown is not None:
        return shown(args.markdown, diff.markdown(found, alone))
    for text in [*map(diff.text, filter(diff.is_change, found)), *alone]:
        print(text + "\n")
    if any(map(diff.is_change, found)) or alone:
        print(f"to accept this: bazel run {args.label} -- --update")
    problems = list(diff.all_exceeded(found, limits))
    if problems:
        raise MlfError(problems, CHECK_FAILED)
    return CHECK_FAILED if alone else 0


def main(arguments: list[str]) -> int:
    """Exit code as the command line's."""
    try:
        return judge(parser().parse_args(arguments))
    except MlfError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
