"""`mlftool bench FILE`: what an inference takes, here and on simulated boards."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.options import positive
from mlftool.cli.run import repetitions
from mlftool.cli.subject import FILE, add_subject_options, fitting, refusals, subjects
from mlftool.cli.terminal import as_json, put, said
from mlftool.errors import MlfError, Problem
from mlftool.files import MODEL_SUFFIXES

if TYPE_CHECKING:
    from mlftool.insight import bench
    from mlftool.insight.subject import Subject
    from mlftool.runtime.execute import Place

    _Job = tuple[Subject, Place]

HELP = "measure an inference: microseconds on this computer, instructions on boards"
GROUP = "run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=FILE, type=Path)
    add("--on", metavar="PLACE", action="append", default=[],
        help="host, a target, or a board: its name or folder; repeatable (a model: host and "
        "cortex-m4; else where it was compiled for)")  # fmt: skip
    add("--inputs", metavar="IN.npz", type=Path, help="measure its first sample (a pattern)")
    add("--runs", metavar="N", type=positive, default=5, help="runs on this computer (5)")
    add("--repetitions", metavar="N", type=repetitions,
        help="inferences of a run (here as many as take 0.2 s, on a board 1)")  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--csv", action="store_true", help="print CSV, a line for each place")
    form.add_argument("--markdown", action="store_true", help="print a table for a web page")
    add_subject_options(parser)


def run(args: argparse.Namespace) -> int:
    from mlftool import table
    from mlftool.insight import bench

    def measure(job: _Job) -> bench.Bench:
        subject, place = job
        return bench.bench(subject, place, args.inputs, args.runs, args.repetitions)

    with refusals() as refused:
        found = list(fitting(measure, _jobs(args), refused))
        if args.json:
            put(as_json(benches=[bench.to_json(one) for one in found]))
        elif args.csv:
            put(table.comma_separated(bench.tabled(found)), end="")
        elif args.markdown:
            put(table.markdown(bench.tabled(found)))
        else:
            said(bench.text(found))
    return 0


def _jobs(args: argparse.Namespace) -> Iterator[_Job]:
    """Each module with the place where it is measured."""
    from mlftool.insight.bench import place_of
    from mlftool.targets import TARGETS

    file = str(args.file)
    if args.file.suffix not in MODEL_SUFFIXES:
        for subject in subjects(args, args.file):
            for on in args.on or [None]:
                yield subject, place_of(subject.interface.target, on, file)
        return
    if args.target and args.on:
        text = "--target and --on: a model is compiled for the place where it runs"
        raise MlfError(Problem("MLF0405", text, file, help="leave out --target"))
    names = args.on or ([args.target] if args.target else ["host", "cortex-m4"])
    places = [(on, place_of("host", on, file)) for on in names]  # before anything is measured
    for on, place in places:
        target = on if on in TARGETS and TARGETS[on].is_host else place.target
        alone = argparse.Namespace(**{**vars(args), "target": target, "on": [on]})
        (subject,) = subjects(alone, args.file)
        yield subject, place
