"""`mlftool check FILE`: every problem of a manifest and its models, or of one model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mlftool.cli.formats import FORMATS, checked, counted, github, sarif
from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.nearby import with_remedy
from mlftool.cli.options import add_compile_options, add_jobs, compile_options
from mlftool.cli.terminal import as_json, put, terminal_of
from mlftool.codegen.names import module_name_of
from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.files import MODEL_SUFFIXES
from mlftool.options import EXECUTORS, OPTIONS
from mlftool.width import folded

HELP = "report every problem of a manifest or model; writes nothing"
GROUP = "start"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="MANIFEST.yaml|MODEL.onnx", type=Path)
    parser.add_argument("--json", action="store_true", help="print the problems as JSON on stdout")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="how problems are printed: text on stderr, others on stdout; sarif and github are for "
        "code review, json is --json",
    )
    parser.add_argument(
        "--target",
        metavar="T",
        action="append",
        default=[],
        help="check only this target; for a model: compile for it (host); repeatable",
    )
    parser.add_argument("--executor", choices=EXECUTORS, help="for a model: the executor (aot)")
    add_inputs(parser, "for a model: ")
    add_compile_options(parser)
    add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    form = "json" if args.json else args.format or "text"
    if args.json and args.format not in (None, "json"):
        raise MlfError(
            Problem("MLF0405", f"--json and --format {args.format}", help="give one of them")
        )
    is_model = args.file.suffix in MODEL_SUFFIXES
    if not is_model:
        _refuse_of_models(args)
    exit_code = 0
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    try:
        if is_model:
            warnings = _check_model(args)
        else:
            warnings = _check_manifest(args.file, args.jobs, args.target)
    except MlfError as error:
        if form == "text":
            raise
        exit_code, problems = error.exit_code, tuple(map(with_remedy, error.problems))
    if form in ("sarif", "github"):
        put((sarif if form == "sarif" else github)((*problems, *warnings)))
    elif form == "json":
        put(as_json(**checked(str(args.file), problems, warnings)))
    else:
        terminal_of(args).show(warnings)
        if not args.quiet:
            print(folded(f"{args.file}: {counted(warnings)}"), file=sys.stderr)
    return exit_code


def _refuse_of_models(args: argparse.Namespace) -> None:
    """Raises MlfError for an option that belongs in the manifest."""
    given = {"executor": args.executor, **compile_options(args)}
    given |= {"input_shape": args.input_shape, "input_value": args.input_value}
    for option in (name for name, value in given.items() if value):
        name = OPTIONS[option].flag if option in OPTIONS else f"--{option.replace('_', '-')}"
        name = "--data" if option == "data_files" else name
        plural = f"{option}s" if option.startswith("input_") else option
        message = f"{name} is for a model; in a manifest, set '{plural}'"
        raise MlfError(Problem("MLF0400", message))


def _check_model(args: argparse.Namespace) -> tuple[Problem, ...]:
    """Warnings about a model. Raises MlfError with its problems."""
    from mlftool.advice import advice
    from mlftool.compile import ModuleSpec, compile_module

    given = compile_options(args)
    given |= {"executor": args.executor} if args.executor else {}
    inputs = given_inputs(args)
    found: dict[Problem, None] = {}
    for target in args.target or ["host"]:
        name = module_name_of(args.file)
        spec = ModuleSpec(args.file, name, target, **inputs, **given)
        found |= dict.fromkeys(advice(compile_module(spec), str(args.file)))
    return tuple(found)


def _check_manifest(file: Path, jobs: int, targets: list[str]) -> tuple[Problem, ...]:
    """Warnings about its models. Raises MlfError with its problems."""
    from mlftool.builder import build, raise_problems
    from mlftool.manifest import read
    from mlftool.manifest.entries import entries

    manifest, problems = read(file)
    wanted = () if manifest is None else entries(manifest)
    strange = [t for t in targets if manifest and t not in {e.target for e in wanted}]
    if strange:
        hint = did_you_mean(strange[0], {e.target for e in wanted})
        text = f"--target: no entry of the manifest is for '{strange[0]}'"
        raise MlfError(Problem("MLF0400", text, str(file), help=hint))
    chosen = [e for e in wanted if not targets or e.target in targets]
    results = () if manifest is None else build(manifest, chosen, None, jobs)
    raise_problems(results, problems)
    return tuple(dict.fromkeys(w for result in results for w in result.warnings))
