"""`mlftool init DIR --model MODEL.onnx`: a new project."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import add_data
from mlftool.errors import MlfError, Problem, did_you_mean

HELP = "start a project from a model: manifest, test vectors, what to do next"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", type=Path, help="a new or an empty folder")
    add("--model", metavar="MODEL.onnx", type=Path, required=True)
    add("--target", metavar="T", default="cortex-m4", help="the device (cortex-m4)")
    add("--json", action="store_true", help="print JSON")
    add_inputs(parser)
    add_data(parser)


def run(args: argparse.Namespace) -> int:
    from mlftool.codegen.names import module_name_of
    from mlftool.module import ModuleSpec
    from mlftool.runtime.boards import BOARDS
    from mlftool.starter import start

    if args.target != "host" and args.target not in BOARDS:
        text = f"--target: no simulated board runs '{args.target}'"
        hint = did_you_mean(args.target, ["host", *BOARDS])
        raise MlfError(Problem("MLF0403", text, help=hint))
    spec = ModuleSpec(
        args.model,
        module_name_of(args.model),
        data_files=tuple(args.data),
        **given_inputs(args),
    )
    made = start(args.folder, spec, args.target)
    found = made.comparison
    if args.json:
        data = {
            "schema_version": 1,
            "folder": str(made.folder),
            "files": list(made.files),
            "reference": made.reference,
            "passed": found.passed,
            "mismatches": found.mismatches,
            "commands": list(made.commands),
        }
        print(json.dumps(data, indent=2))
        return 0
    print(f"{made.folder}: {', '.join(made.files)}")
    verdict = "equal to" if found.passed else f"{found.mismatches} of {found.elements} differ from"
    print(f"outputs on this computer: {verdict} those of {made.reference} ({found.allowed})")
    if not found.passed:
        print(f"largest error: {found.worst}; allow it in models.yaml (test: absolute, relative)")
    print("next:", *(f"  {command}" for command in made.commands), sep="\n")
    return 0
