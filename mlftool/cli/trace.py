"""`mlftool trace FILE`: from each node of a model to its lines of C, and back."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli.subject import FILE, add_subject_options, one_subject
from mlftool.cli.terminal import as_json, put, said

HELP = "show which lines of C belong to which node of the model, and the reverse"
GROUP = "see"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=FILE, type=Path)
    add("--line", metavar="FILE.c:N", help="only the nodes that this line of C belongs to")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print CSV, a line for each step")
    add_subject_options(parser)


def run(args: argparse.Namespace) -> int:
    from mlftool import table
    from mlftool.insight import source_map as maps

    found = maps.source_map(one_subject(args, args.file))
    steps = maps.of_line(found, args.line, "--line") if args.line else None
    if args.json:
        put(as_json(**maps.to_json(found, steps)))
    elif args.csv:
        put(table.comma_separated(maps.table(found, steps)), end="")
    else:
        said(maps.text(found, steps))
    return 0
