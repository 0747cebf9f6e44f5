"""`mlftool ops [MODEL]`: which operators compile; of a model, which layers, and why."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import add_compile_options, compile_options
from mlftool.errors import CHECK_FAILED, MlfError, Problem, did_you_mean
from mlftool.files import MANIFEST_SUFFIXES, MODEL_SUFFIXES
from mlftool.options import EXECUTORS, OPTIONS
from mlftool.targets import TARGETS

HELP = "list the operators that compile; of a model, which kernels compute it, and why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="MODEL.onnx", type=Path, nargs="?", help="without one: the whole table")
    add("--target", metavar="T", action="append", default=[],
        help="what is said of kernels is for it (cortex-m4); repeatable")  # fmt: skip
    add("--type", metavar="T", help="of the table: only operators that take it, such as int8")
    add("--unsupported", action="store_true", help="of the table: only what does not compile")
    add("--json", action="store_true", help="print JSON")
    add("--executor", choices=EXECUTORS, help="for a model: the executor (aot)")
    add_inputs(parser, "for a model: ")
    add_compile_options(parser)


def run(args: argparse.Namespace) -> int:
    targets = list(dict.fromkeys(args.target)) or ["cortex-m4"]
    problems = [
        Problem("MLF0403", f"--target: got '{t}'", help=did_you_mean(t, TARGETS))
        for t in targets
        if t not in TARGETS
    ]
    if problems:
        raise MlfError(problems)
    return _table(args, targets) if args.file is None else _model(args, targets)


def _table(args: argparse.Namespace, targets: list[str]) -> int:
    from mlftool.insight import operators, table
    from mlftool.ir.dtype import BY_NAME

    given = compile_options(args) | {"executor": args.executor}
    given |= {"input-shape": args.input_shape, "input-value": args.input_value}
    if wrong := [name for name, value in given.items() if value]:
        flag = OPTIONS[wrong[0]].flag if wrong[0] in OPTIONS else f"--{wrong[0]}"
        raise MlfError(Problem("MLF0405", f"{flag.removesuffix('_files')} is for a model"))
    if args.type and args.type not in BY_NAME:
        hint = did_you_mean(args.type, BY_NAME)
        raise MlfError(Problem("MLF0400", f"--type: got '{args.type}'", help=hint))
    found = [
        s
        for s in operators.supports()
        if s.supported != args.unsupported and (not args.type or args.type in (s.types or ()))
    ]
    if args.json:
        listed = operators.to_json(found, targets)
        print(json.dumps({"schema_version": 1, "operators": listed}, indent=2))
    else:
        print(table.text(operators.tabled(found, targets)))
    return 0


def _model(args: argparse.Namespace, targets: list[str]) -> int:
    wrong = [flag for flag in ("type", "unsupported") if getattr(args, flag)]
    if wrong:
        raise MlfError(Problem("MLF0405", f"--{wrong[0]} is for the table", str(args.file)))
    if args.file.suffix not in MODEL_SUFFIXES:
        text = f"expected a model, {' or '.join(MODEL_SUFFIXES)}: "
        is_manifest = args.file.suffix in MANIFEST_SUFFIXES
        text += "name one of this manifest" if is_manifest else "an archive has no operators left"
        raise MlfError(Problem("MLF0405", text, str(args.file)))
    from mlftool.codegen.names import module_name_of
    from mlftool.insight import operators
    from mlftool.module import ModuleSpec

    spec = ModuleSpec(
        args.file,
        module_name_of(args.file),
        executor=args.executor or "aot",
        **given_inputs(args),
        **compile_options(args),
    )
    found = operators.judged(spec, args.file.name, targets)
    if args.json:
        data = {"schema_version": 1, **operators.judgement_json(found)}
        print(json.dumps(data, indent=2))
    else:
        print(operators.text(found))
    return CHECK_FAILED if found.problems else 0
