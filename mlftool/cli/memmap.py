"""`mlftool memmap FILE`: which tensor is where in the working memory, and when."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli.options import check_outputs
from mlftool.cli.subject import FILE, add_subject_options, one_subject, subjects
from mlftool.cli.terminal import as_json, put, said
from mlftool.errors import MlfError, Problem

HELP = "show which tensor is where in the working memory, the peak, and what lowers it"
GROUP = "see"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=FILE, type=Path)
    add("--svg", metavar="OUT.svg", type=Path, help="draw one module's map as a picture")
    add("--no-advice", action="store_true", help="do not try which options lower the peak")
    add("--json", action="store_true", help="print JSON")
    add_subject_options(parser)


def run(args: argparse.Namespace) -> int:
    from mlftool.insight import memmap
    from mlftool.mlf import write_atomically

    check_outputs(args, args.svg)
    if args.svg:
        one = memmap.memory_map(one_subject(args, args.file), False)
        if one.plan is None:
            text = "has no plan to draw: it does not tell who is where in its workspace"
            raise MlfError(Problem("MLF0607", text, str(args.file)))
        write_atomically(args.svg, memmap.drawing(one).encode())
        return 0
    found = (memmap.memory_map(s, not args.no_advice) for s in subjects(args, args.file))
    if args.json:
        maps = [memmap.to_json(m) for m in found]
        put(as_json(maps=maps))
    else:
        for k, one in enumerate(found):
            said(("\n" if k else "") + memmap.text(one))
    return 0
