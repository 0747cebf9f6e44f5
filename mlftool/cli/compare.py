"""`mlftool compare MODEL.onnx`: layer by layer against the float model, or a board against the
host."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from mlftool.cli.build import positive
from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import add_compile_options, compile_options
from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.files import MANIFEST_SUFFIXES, MODEL_SUFFIXES

HELP = "compare layer by layer: a quantised model with its float form, a board with the host"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL.onnx|MODEL.tflite", type=Path)
    add("--against", metavar="FLOAT.onnx", type=Path,
        help="the model that is right, in the same format")  # fmt: skip
    add("--on", metavar="BOARD", help="compare this board, or a target's, with this computer")
    add("--inputs", metavar="IN.npz", type=Path, help="samples of either model (a pattern)")
    add("--samples", metavar="N", type=positive, default=None,
        help="at most so many of them (8)")  # fmt: skip
    add("--sqnr", metavar="DB", type=decibels,
        help="with --against: a layer below it has gone wrong (10; if given, exit 1)")  # fmt: skip
    add("--json", action="store_true", help="print JSON")
    add_inputs(parser)
    add_compile_options(parser)


def decibels(text: str) -> float:
    value = float(text)
    if not -1000 <= value <= 1000:
        raise ValueError(text)
    return value


def run(args: argparse.Namespace) -> int:
    _check(args)
    from mlftool.codegen.names import module_name_of
    from mlftool.insight import compare
    from mlftool.module import ModuleSpec
    from mlftool.runtime.execute import place_for
    from mlftool.runtime.vectors import load_vectors

    arrays = load_vectors(args.inputs) if args.inputs else None
    given = compare.samples_from(arrays, args.samples or compare.USUAL_SAMPLES, str(args.inputs))
    inputs = given_inputs(args)  # of both models: quantisers keep their names
    spec = ModuleSpec(args.model, module_name_of(args.model), **inputs, **compile_options(args))
    if args.against:
        other = ModuleSpec(args.against, module_name_of(args.against), **inputs)
        names = (str(args.model), str(args.against))
        least = compare.USUAL_SQNR if args.sqnr is None else args.sqnr
        found = compare.against(spec, other, names, given, least)
    else:
        place = place_for("host", args.on, str(args.model))
        found = compare.on_board(spec, str(args.model), place, given)
    if args.json:
        print(json.dumps({"schema_version": 1, **compare.to_json(found)}, indent=2))
    else:
        print(compare.text(found))
    fails = args.sqnr is not None or not args.against
    return CHECK_FAILED if fails and found.first_wrong else 0


def _check(args: argparse.Namespace) -> None:
    """Raises MlfError for what cannot be compared."""
    text = ""
    if bool(args.against) == bool(args.on):
        text = "expected either --against FLOAT.onnx or --on BOARD"
    elif args.on == "host":
        text = "--on host: the reference is this computer itself"
    elif args.sqnr is not None and not args.against:
        text = "--sqnr is for --against; a board has to give equal bits"
    if text:
        raise MlfError(Problem("MLF0405", text, str(args.model)))
    for file in filter(None, (args.model, args.against)):
        if file.suffix not in MODEL_SUFFIXES:
            text = f"expected a model, {' or '.join(MODEL_SUFFIXES)}: "
            is_manifest = file.suffix in MANIFEST_SUFFIXES
            text += (
                "name one of this manifest" if is_manifest else "an archive has no layers' results"
            )
            raise MlfError(Problem("MLF0405", text, str(file)))
