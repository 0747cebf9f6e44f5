"""`mlftool check FILE`: every problem of a manifest and its models, or of one model."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mlftool.builder import build, raise_problems
from mlftool.cli.build import add_jobs
from mlftool.cli.inputs import add_input_value, parse_shapes, parse_values
from mlftool.errors import MlfError, Problem
from mlftool.manifest import read
from mlftool.manifest.entries import entries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="MANIFEST.yaml|MODEL.onnx", type=Path)
    parser.add_argument("--json", action="store_true", help="print the problems as JSON on stdout")
    parser.add_argument(
        "--input-shape",
        action="append",
        default=[],
        metavar="NAME:1,3,32,32",
        help="for a model: bind an input's symbolic dimensions; repeatable",
    )
    add_input_value(parser)
    add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    is_model = args.file.suffix == ".onnx"
    for option in ("input_shape", "input_value"):
        if getattr(args, option) and not is_model:
            name = f"--{option.replace('_', '-')}"
            message = f"{name}: got it for a manifest, expected {option}s inside the manifest"
            raise MlfError(Problem("MLF0400", message))
    shapes, values = parse_shapes(args.input_shape), parse_values(args.input_value)
    exit_code = 0
    problems: tuple[Problem, ...] = ()
    try:
        if is_model:
            _check_model(args.file, shapes, values)
        else:
            _check_manifest(args.file, args.jobs)
    except MlfError as error:
        if not args.json:
            raise
        exit_code, problems = error.exit_code, error.problems
    if args.json:
        report = {"schema_version": 1, "file": str(args.file), "ok": not problems}
        print(json.dumps({**report, "problems": [vars(p) for p in problems]}, indent=2))
    else:
        print(f"{args.file}: no problems", file=sys.stderr)
    return exit_code


def _check_model(
    file: Path,
    shapes: dict[str, tuple[int, ...]],
    values: dict[str, tuple[int | float, ...]],
) -> None:
    from mlftool.compile import ModuleSpec, compile_modules

    compile_modules([ModuleSpec(file, input_shapes=shapes, input_values=values)])


def _check_manifest(file: Path, jobs: int) -> None:
    manifest, problems = read(file)
    results = () if manifest is None else build(manifest, entries(manifest), None, jobs)
    raise_problems(results, problems)
