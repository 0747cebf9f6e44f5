"""`mlftool size FILE`: flash and RAM of a linked program as a tree, and against another."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.subject import FILE, add_subject_options, fitting, refusals, subjects
from mlftool.cli.terminal import as_json, put, said
from mlftool.errors import MlfError, Problem
from mlftool.files import read_plain

if TYPE_CHECKING:
    from mlftool.insight.size import Size

HELP = "show what takes flash and RAM: layers, kernels, weights, runtime, C library"
GROUP = "see"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=f"{FILE}|FIRMWARE.elf", type=Path)
    add("--against", metavar="FILE", type=Path,
        help="show the changes since FILE: any input as above, or output of --json")  # fmt: skip
    add("--depth", metavar="1..9", type=int, choices=range(1, 10), default=3,
        help="how many levels of the trees to print (3)")  # fmt: skip
    add("--on", metavar="BOARD", help="a board: its name or folder (the target's)")
    add("--json", action="store_true", help="print whole trees as JSON")
    add_subject_options(parser)


def run(args: argparse.Namespace) -> int:
    from mlftool.insight import size as sizes

    if args.against and args.json:
        hint = "mlftool diff --json has the differences of the sums"
        raise MlfError(Problem("MLF0405", "--against prints text; got --json", help=hint))
    with refusals() as refused:
        found = _sizes(args, args.file, args.against, refused)
        if args.against:
            pairs = _pairs(args, list(found), refused)
            said("\n\n".join(sizes.compared(old, new, args.depth) for old, new in pairs))
        elif args.json:
            put(as_json(sizes=[s.to_json() for s in found]))
        else:
            for k, size in enumerate(found):
                said(("\n" if k else "") + sizes.text(size, args.depth))
    return 0


def _sizes(
    args: argparse.Namespace, file: Path, beside: Path | None, refused: list[Problem]
) -> Iterator[Size]:
    from mlftool.insight import size as sizes

    if file.suffix == ".json":
        yield from sizes.read_sizes(file)
    elif _is_elf(file):
        yield sizes.measured(file, file.name)
    else:
        found = subjects(args, file, True, beside)
        yield from fitting(lambda subject: sizes.size_of(subject, args.on), found, refused)


def _is_elf(file: Path) -> bool:
    try:
        return read_plain(file, 4) == b"\x7fELF"
    except OSError:
        return False  # who reads it will say why


def _pairs(
    args: argparse.Namespace, new: list[Size], refused: list[Problem]
) -> list[tuple[Size, Size]]:
    """Each program with the one of the same name; two single ones whatever their names."""
    old = list(_sizes(args, args.against, args.file, refused))
    if len(old) == len(new) == 1 and not refused:
        return [(old[0], new[0])]
    named = {s.name: s for s in old}
    pairs = [(named[s.name], s) for s in new if s.name in named]
    if not pairs:
        text = f"has no program with a name of {args.file}: {', '.join(named)}"
        raise MlfError(Problem("MLF0405", text, str(args.against)))
    return pairs
