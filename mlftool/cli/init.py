"""`mlftool init MODEL.onnx`: a new project, in a folder with the model's name or another."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import add_data
from mlftool.cli.terminal import printed
from mlftool.errors import MlfError, Problem, did_you_mean, one_line
from mlftool.files import MODEL_SUFFIXES
from mlftool.width import folded

if TYPE_CHECKING:
    from mlftool.starter import Project

HELP = "start a project from a model: manifest, test vectors, next steps"
GROUP = "start"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="DIR", type=Path, nargs="?",
        help="a new or an empty folder (here, with the model's name)")  # fmt: skip
    add("second", metavar="MODEL.onnx", type=Path, nargs="?", help="as --model, in either order")
    add("--model", metavar="MODEL.onnx|MODEL.tflite", type=Path)
    add("--target", metavar="T", default="cortex-m4", help="the device (cortex-m4)")
    add("--workspace", metavar="MLFTOOL", type=Path,
        help="write WORKSPACE and MODULE.bazel, too, with the rules of this folder: mlftool's "
        "sources")  # fmt: skip
    add("--json", action="store_true", help="print JSON")
    add_inputs(parser)
    add_data(parser)


def run(args: argparse.Namespace) -> int:
    from mlftool.codegen.names import module_name_of
    from mlftool.module import ModuleSpec
    from mlftool.runtime.boards import BOARDS
    from mlftool.starter import start

    folder, model = _folder_and_model(args)
    if args.target != "host" and args.target not in BOARDS:
        text = f"--target: no simulated board runs '{args.target}'"
        hint = did_you_mean(args.target, ["host", *BOARDS])
        raise MlfError(Problem("MLF0403", text, help=hint))
    spec = ModuleSpec(
        model,
        module_name_of(model),
        data_files=tuple(args.data),
        **given_inputs(args),
    )
    start(folder, spec, args.target, args.workspace, partial(_tell, args.json))
    return 0


def _tell(as_json: bool, made: Project) -> None:
    printed(json.dumps(_to_json(made), indent=2) if as_json else _text(made))


def _to_json(made: Project) -> dict[str, object]:
    return {
        "schema_version": 1,
        "folder": str(made.folder),
        "files": list(made.files),
        "reference": made.reference,
        "passed": made.comparison.passed,
        "mismatches": made.comparison.mismatches,
        "commands": list(made.commands),
    }


def _text(made: Project) -> str:
    """For people; commands are in one line each, to be copied."""
    commands = (f"  {one_line(command)}" for command in made.commands)
    return "\n".join([*map(folded, _lines(made)), "next:", *commands])


def _lines(made: Project) -> Iterator[str]:
    from mlftool.starter import REFERENCE, UNCHECKED

    found = made.comparison
    yield one_line(f"{made.folder}: {', '.join(made.files)}")
    if made.reference == UNCHECKED:
        yield f"expected outputs: those of {UNCHECKED}; nothing here runs TensorFlow Lite"
    else:
        differ = f"{found.mismatches} of {found.elements} differ from"
        verdict = "equal to" if found.passed else differ
        yield f"outputs on this computer: {verdict} those of {made.reference} ({found.allowed})"
        if not found.passed:
            text = "allow it in models.yaml (test: absolute, relative)"
            yield f"largest error: {found.worst}; {text}"
            if made.reference == REFERENCE:
                text = (
                    "computes quantised layers in floats, onnxruntime in integers as mlftool does"
                )
                yield f"{REFERENCE} {text}: pip install onnxruntime, and start again"


def _folder_and_model(args: argparse.Namespace) -> tuple[Path, Path]:
    """Which is which of the words, whatever their order. Raises MlfError."""
    words = [word for word in (args.folder, args.second) if word]
    models = [word for word in words if word.suffix in MODEL_SUFFIXES and not word.is_dir()]
    if args.model is None and len(words) == 2 and len(models) == 1:
        return words[words[0] == models[0]], models[0]
    if args.model is not None and len(words) == 1:
        return words[0], args.model
    if len(models) == len(words) <= 1 and (named := [*models, *filter(None, [args.model])]):
        return Path(named[0].stem), named[0]
    if args.model is not None:
        text = f"expected one folder besides --model; got {words[0]} and {words[1]}"
    elif len(words) == 2:
        text = f"expected a folder and a model; got {words[0]} and {words[1]}"
    else:
        text = "expected a model, an .onnx or .tflite file" + "".join(f"; got {w}" for w in words)
    raise MlfError(Problem("MLF0400", text, help="mlftool init DIR --model MODEL.onnx"))
