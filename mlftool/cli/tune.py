"""`mlftool tune MODEL.onnx --target T -o RECORD.json`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import add_data, add_option, check_outputs
from mlftool.cli.subject import DEFAULT_TARGET
from mlftool.cli.terminal import printed
from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.options import OPTIONS
from mlftool.width import folded, how_many

if TYPE_CHECKING:
    from mlftool.codegen.tuned import Tuned

HELP = "find a model's best kernels by counting instructions; writes a record to commit"
GROUP = "make"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL.onnx", type=Path)
    add("-o", "--output", metavar="RECORD.json", type=Path, required=True,
        help="the record; its other targets are kept")  # fmt: skip
    add("--target", metavar="T", action="append",
        help="a target with a simulated board (cortex-m4); repeatable")  # fmt: skip
    add_option(parser, OPTIONS["float_mode"])
    add("--flags", choices=["-O2", "-O3", "-Os"], default="-O2",
        help="optimisation of the C compiler (-O2, as in `mlftool run` and the rules)")  # fmt: skip
    add("--inputs", metavar="IN.npz", type=Path, help="count on its first sample")
    add_inputs(parser)
    add_data(parser)
    add("--check", action="store_true", help="write nothing; fail if the record would change")


def run(args: argparse.Namespace) -> int:
    from mlftool.codegen.tuned import read_record, record_text
    from mlftool.compile import ModuleSpec
    from mlftool.mlf import write_atomically
    from mlftool.tune import tune

    output = None if args.check else args.output
    check_outputs(args, output)  # before a search of minutes
    inputs = given_inputs(args)
    old = read_record(args.output) if os.path.exists(args.output) or args.check else {}
    new: dict[str, Tuned] = {}
    for target in args.target or (DEFAULT_TARGET,):
        spec = ModuleSpec(
            args.model,
            "tuned",
            target,
            **inputs,
            data_files=tuple(args.data),
            float_mode=args.float_mode or OPTIONS["float_mode"].default,
        )
        new[target] = tune(spec, args.flags, args.inputs)
        printed(folded(summary(target, new[target])))
    if args.check:
        _check(args.output, old, new)
    else:
        write_atomically(args.output, record_text({**old, **new}).encode())
    return 0


def summary(target: str, tuned: Tuned) -> str:
    """One line for people."""
    kinds = len(tuned.layers)
    kernels = sum(len(layer.instructions) for layer in tuned.layers)
    counted = f"{target}: {tuned.before:,} instructions"
    if not kinds:
        return f"{counted}; nothing to compare, each layer has one kernel"
    compared = f"{how_many(kernels, 'kernel')} compared for {how_many(kinds, 'kind')} of layers"
    if tuned.before == tuned.after:
        return f"{counted}; the usual kernels are the best, {compared}"
    gain = 100 * (tuned.before - tuned.after) / max(1, tuned.before)
    return f"{target}: {tuned.before:,} -> {tuned.after:,} instructions (-{gain:.1f} %), {compared}"


def _check(path: Path, old: Mapping[str, Tuned], new: Mapping[str, Tuned]) -> None:
    """Raises MlfError where the record differs from the new measurement."""
    problems = []
    for target, now in new.items():
        then = old.get(target)
        if then == now:
            continue
        what = "is not in the record" if then is None else "differs from a new measurement"
        if then is not None and then.compiler != now.compiler:
            what += f": '{now.compiler}' is not '{then.compiler}'"
        help = f"to accept this, run the same mlftool tune without --check (target {target})"
        problems.append(Problem("MLF0409", what, str(path), path=target, help=help))
    if problems:
        raise MlfError(problems, CHECK_FAILED)
