"""`mlftool graph FILE -o OUT.svg`: the model as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli.options import check_outputs
from mlftool.cli.subject import FILE, add_subject_options, one_subject
from mlftool.cli.terminal import as_json, printed
from mlftool.errors import MlfError, Problem

HELP = "draw a model as SVG: shapes, types, kernels, and what each layer costs"
GROUP = "see"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=FILE, type=Path)
    add("-o", "--output", metavar="OUT.svg", type=Path, help="write the picture")
    add("--before", action="store_true", help="draw the model before the passes")
    add("--count", action="store_true",
        help="colour by instructions, counted on a board, not by multiplications")  # fmt: skip
    add("--json", action="store_true", help="print boxes and edges as JSON")
    add_subject_options(parser)


def run(args: argparse.Namespace) -> int:
    if not (args.output or args.json):
        text = "expected -o OUT.svg, --json or both"
        raise MlfError(Problem("MLF0400", text, str(args.file)))
    if args.before and args.count:
        text = "--count: the model as it was read has no instructions"
        raise MlfError(Problem("MLF0405", text, str(args.file)))
    from mlftool.insight import graph
    from mlftool.insight.profile import profile
    from mlftool.mlf import write_atomically

    check_outputs(args, args.output)
    subject = one_subject(args, args.file)
    if args.before:
        found = graph.before(subject)
    else:
        found = graph.after(subject, profile(subject, estimate=False) if args.count else None)
    drawing = graph.drawing(found).encode() if args.output else b""
    if args.json:
        printed(as_json(**graph.to_json(found)))
    if args.output:
        write_atomically(args.output, drawing)
    return 0
