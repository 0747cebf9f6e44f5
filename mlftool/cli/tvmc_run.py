"""`mlftool run` takes the options of `tvmc run`: those that are others here, and those that are not
for it, with a hint what to do instead."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, Problem

_REFUSED = {
    "--profile": "mlftool profile MODEL.onnx --on BOARD counts each layer; --driven --executor "
    "debug times each on a board that is driven",
    "--end-to-end": "the time is of the model; mlftool.micro's arrays can be timed in Python",
    "--rpc-key": "a board is driven by its project (--device micro DIR), or with --on and --driven",
    "--rpc-tracker": "a board is driven by its project (--device micro DIR), or with --on and "
    "--driven",
    "--list-options": "mlftool micro run DIR --list-options prints them",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--print-top", metavar="N", type=int, help="print the N largest of each output")
    add("--outputs", dest="output", type=Path, help=argparse.SUPPRESS)
    for flag in ("--repeat", "--number"):  # tvmc's product of two is --repetitions
        add(flag, metavar="N", type=int, help=argparse.SUPPRESS)
    for flag in ("--print-time", "--benchmark"):  # the time is always printed
        add(flag, action="store_true", help=argparse.SUPPRESS)
    for flag in _REFUSED:
        add(flag, nargs="?", const="", help=argparse.SUPPRESS)


def apply(args: argparse.Namespace) -> None:
    """Sets what tvmc's spelling means. Raises MlfError with every problem."""
    problems = [
        Problem("MLF0400", f"{flag} is not for mlftool run", help=remedy)
        for flag, remedy in _REFUSED.items()
        if getattr(args, flag[2:].replace("-", "_")) is not None
    ]
    counts = [1 if n is None else n for n in (args.repeat, args.number)]
    runs = counts[0] * counts[1]
    if min(counts) < 1 or runs >= 1_000_000:
        text = "--repeat times --number are the timed runs of a sample, 1 to 999,999"
        problems.append(Problem("MLF0400", text))
    if args.print_top is not None and args.print_top < 1:
        problems.append(Problem("MLF0400", f"--print-top is {args.print_top}, expected 1 or more"))
    if problems:
        raise MlfError(problems)
    args.repetitions = max(args.repetitions, runs)
    if args.device == "micro" and args.file and not args.project_dir:
        args.project_dir, args.file = args.file, None


def top_lines(outputs: Sequence[Mapping[str, Any]], count: int | None) -> Iterator[str]:
    """A line for each output of each sample: its largest elements, with their places."""
    for k, sample in enumerate(outputs if count else ()):
        for name, value in sample.items():
            place = f"sample {k}, {name}" if len(outputs) > 1 else name
            yield f"{place}: {largest(value, count)}"


def largest(value: Any, count: int | None) -> str:
    """The `count` largest elements, or without a count all."""
    import numpy as np

    flat = np.asarray(value).ravel()
    if not count:
        return " ".join(map(str, flat.tolist()))
    order = np.argsort(-flat.astype(np.float64), kind="stable")[:count]
    return ", ".join(f"[{i}] {flat[i]}" for i in order)
