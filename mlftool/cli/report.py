"""`mlftool report FILE -o OUT.html`: one page with all that is known of a module."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlftool.cli.options import check_outputs, compile_options, flag_of
from mlftool.cli.subject import FILE, add_subject_options, one_subject
from mlftool.cli.terminal import as_json, printed
from mlftool.errors import MlfError, Problem
from mlftool.options import OPTIONS, Switch
from mlftool.progress import step

if TYPE_CHECKING:
    from mlftool.insight.subject import Subject

HELP = "write one HTML page about a module: figures, accuracy, layers, memory, drawing"
GROUP = "see"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=FILE, type=Path)
    add("-o", "--output", metavar="OUT.html", type=Path, required=True)
    add("--on", metavar="BOARD", help="a board: its name or folder (the target's)")
    add(
        "--inputs",
        metavar="IN.npz",
        type=Path,
        help="samples, for the accuracy (a manifest's test vectors)",
    )
    add("--expect", metavar="REF.npz", type=Path, help="the expected outputs of these samples")
    add("--no-curve", action="store_true", help="do not search for plans with less RAM")
    add("--json", action="store_true", help="print the figures as JSON")
    add_subject_options(parser)


def run(args: argparse.Namespace) -> int:
    check_outputs(args, args.output)
    if bool(args.inputs) != bool(args.expect):
        text = "--inputs and --expect belong together"
        raise MlfError(Problem("MLF0400", text, str(args.file)))
    from mlftool.insight import report
    from mlftool.mlf import write_atomically

    subject = one_subject(args, args.file)
    vectors, commands = _vectors(args, subject), [_command(args)]
    with step(f"reporting on {subject.name}"):
        found = report.report(subject, args.on, vectors, commands, search=not args.no_curve)
        page = report.page(found).encode()
    if args.json:
        printed(as_json(**report.to_json(found)))
    write_atomically(args.output, page)
    return 0


def _vectors(args: argparse.Namespace, subject: Subject) -> tuple[Any, Any] | None:
    """Inputs and expected outputs as samples. Raises MlfError."""
    inputs, expected = args.inputs or subject.vectors, args.expect or subject.vectors
    if not (inputs and expected):
        return None
    from mlftool.runtime.vectors import paired

    return paired(inputs, expected, subject.interface)


def _command(args: argparse.Namespace) -> str:
    """The command that makes the same page."""
    words = ["mlftool", "report", str(args.file), "-o", str(args.output)]
    named = {"target": args.target, "executor": args.executor, "module": args.module}
    named |= {"on": args.on, "inputs": args.inputs, "expect": args.expect}
    for name, value in named.items():
        words += [f"--{name}", str(value)] if value else []
    for name in ("entry", "input_shape", "input_value"):
        for value in getattr(args, name):
            words += [f"--{name.replace('_', '-')}", value]
    for name, value in compile_options(args).items():
        option, flag = OPTIONS.get(name), flag_of(name)
        for one in value if isinstance(value, tuple) else (value,):
            words += [flag] if option and isinstance(option.kind, Switch) else [flag, str(one)]
    words += ["--no-curve"] if args.no_curve else []
    return shlex.join(words)
