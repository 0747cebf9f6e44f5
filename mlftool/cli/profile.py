"""`mlftool profile FILE`: what each layer costs, counted on a simulated board."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.subject import FILE, add_subject_options, fitting, refusals, subjects
from mlftool.cli.terminal import as_json, put, said

if TYPE_CHECKING:
    from mlftool.insight import profile as profiles
    from mlftool.insight.subject import Subject

HELP = "show what each layer costs on a simulated board: instructions, weights, code"
GROUP = "see"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=FILE, type=Path)
    add("--on", metavar="BOARD", help="a board: its name or folder (the target's)")
    add(
        "--flags",
        choices=["-O2", "-O3", "-Os"],
        help="optimisation of the C compiler (-O2; -Os if the module is made for size)",
    )
    add("--inputs", metavar="IN.npz", type=Path, help="count on its first sample")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print CSV, a line for each layer")
    form.add_argument("--markdown", action="store_true", help="print a table for a web page")
    add_subject_options(parser)


def run(args: argparse.Namespace) -> int:
    from mlftool import table
    from mlftool.insight import profile as profiles

    def measure(subject: Subject) -> profiles.Profile:
        return profiles.profile(subject, args.on, args.flags or "", args.inputs)

    with refusals() as refused:
        found = fitting(measure, subjects(args, args.file, on_board=True), refused)
        if args.json:
            put(as_json(profiles=[profiles.to_json(p) for p in found]))
        elif args.csv:
            put(table.comma_separated(profiles.several(list(found))), end="")
        else:
            texts = (profiles.text(p, args.markdown) for p in found)
            for k, text in enumerate(texts):
                shown = ("\n" if k else "") + text
                put(shown) if args.markdown else said(shown)
    return 0
