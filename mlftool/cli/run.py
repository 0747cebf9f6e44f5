"""`mlftool run FILE.tar|MODEL.onnx|LIBRARY.so --inputs IN.npz`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlftool.cli import tvmc_run
from mlftool.cli.inputs import add_fill_mode, add_inputs, given_inputs
from mlftool.cli.options import add_compile_options, check_outputs, compile_options, flag_of
from mlftool.cli.terminal import printed, terminal_of
from mlftool.config import EXECUTOR_OPTIONS
from mlftool.errors import CHECK_FAILED, MlfError, Problem, builds_of
from mlftool.files import MODEL_SUFFIXES
from mlftool.width import folded

if TYPE_CHECKING:
    from mlftool.micro.executors import LayerTime
    from mlftool.mlf import Bundle
    from mlftool.mlf.interface import Interface
    from mlftool.runtime.compare import Comparison
    from mlftool.runtime.execute import Place
    from mlftool.runtime.link import Footprint
    from mlftool.runtime.runner import RunResult
    from mlftool.runtime.shared_load import LibraryModule
    from mlftool.runtime.vectors import Array

    Samples = Sequence[Mapping[str, Array]]
    Executed = tuple[RunResult, tuple[LayerTime, ...], Footprint | None]

HELP = "run a model or archive on the host or a simulated board, and compare"
GROUP = "run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE.tar|MODEL.onnx|LIBRARY.so", type=Path, nargs="?",
        help="an archive, a model or a library; a project with --device micro")  # fmt: skip
    add("-i", "--inputs", metavar="IN.npz", type=Path,
        help="samples, by input name; IN.npy for a model with one input")  # fmt: skip
    add_fill_mode(parser)
    add("-o", "--output", metavar="OUT.npz", type=Path, help="write outputs, by output name")
    add("--on", metavar="TARGET", help="host, a target, or a board: its name or folder")
    add("--device", choices=["cpu", "micro"], help="micro: a board, by --project-dir; as tvmc")
    add("--project-dir", metavar="DIR", type=Path,
        help="drive a project of `mlftool micro create`, once it is built and flashed")  # fmt: skip
    add("--project-option", metavar="NAME=VALUE", nargs="+", action="extend", default=[],
        help="options of that project for opening its line")  # fmt: skip
    add("--module", metavar="M", help="which module of the archive")
    add("--expect", metavar="REF.npz", type=Path, help="compare with these outputs")
    add("--absolute", metavar="A", type=tolerance,
        help="an output passes within A + R x |expected|; the default depends on the data type: "
        "1e-5 and 1e-5 for float32, 0 for integers")  # fmt: skip
    add(
        "--relative",
        metavar="R",
        type=tolerance,
        help="see --absolute; if one is given, the other is 0",
    )
    add("--repetitions", metavar="N", type=repetitions, default=1, help="timed runs per sample (1)")
    add("--runner", metavar="ELF", type=Path, help="a test runner that is already built")
    add("--report", metavar="R.json", type=Path, help="write all figures as JSON")
    add("--json", action="store_true", help="print the figures as JSON")
    add("--executor", choices=EXECUTOR_OPTIONS, help="for a MODEL.onnx: the executor (aot)")
    add("--dump", metavar="DIR", type=Path,
        help="with --executor debug: write every tensor of each sample")  # fmt: skip
    add("--driven", action="store_true",
        help="drive the board from this computer, over its UART; with --executor debug, time "
        "each layer there")  # fmt: skip
    add("--sandbox", action="store_true",
        help="compile and run its C in a sandbox (bubblewrap) without network, your files or "
        "your environment")  # fmt: skip
    tvmc_run.add_arguments(parser)
    add_inputs(parser, "for a MODEL.onnx: ")
    add_compile_options(parser)


def tolerance(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(text)
    return value


def repetitions(text: str) -> int:
    value = int(text)
    if not 1 <= value < 1_000_000:  # what crt/runner/runner.c takes
        raise ValueError(text)
    return value


def run(args: argparse.Namespace) -> int:
    tvmc_run.apply(args)
    if not args.sandbox:
        with builds_of(args.file):
            return _run(args)
    from mlftool.runtime.sandbox import sandbox
    from mlftool.runtime.toolchain import BUBBLEWRAP, find

    if args.driven or args.project_dir or args.runner:
        text = "--sandbox goes with no --driven, --project-dir or --runner: it builds what it runs"
        raise MlfError(Problem("MLF0405", text))
    with sandbox(find(BUBBLEWRAP)), builds_of(args.file):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from mlftool.mlf import Bundle
    from mlftool.runtime import compare, execute, vectors
    from mlftool.runtime.interface import read_interface

    _check_project(args)
    _check_executor(args)
    check_outputs(args, args.output, args.report)
    library = _library(args)
    bundle = Bundle({}) if library else _bundle(args)
    interface = (
        library.interface if library else read_interface(bundle, args.module, str(args.file))
    )
    place = _place(args, interface)
    samples, expected, labels = _samples(args, interface)
    result, layers, sizes = _executed(args, library, bundle, interface, place, samples)
    comparison = accuracy = None
    if expected is not None:
        comparison = compare.compare(result.outputs, expected, args.absolute, args.relative)
    if labels is not None:
        scores = vectors.scored(interface.results)
        assert scores is not None
        accuracy = compare.accuracy([o[scores.name] for o in result.outputs], labels)
    data = execute.report(interface, place, result, sizes, comparison, accuracy)
    if layers:
        data["layers"] = [dataclasses.asdict(layer) for layer in layers]
    if args.json:
        printed(json.dumps(data))
    else:
        title = f"{place.title}, inputs: {args.fill_mode or 'random'}"
        text = execute.summary(data, place.title if args.inputs else title, comparison)
        rows = (_layer(layer, place) for layer in layers)
        printed(*map(folded, (text, *rows)), *tvmc_run.top_lines(result.outputs, args.print_top))
    _write(args, interface, result, data)
    if comparison is None or comparison.passed:
        return 0
    raise _differs(args, comparison, interface)


def _place(args: argparse.Namespace, interface: Interface) -> Place:
    """Where the module runs. Warns if it was compiled for another processor. Raises MlfError."""
    from mlftool.runtime import execute

    if args.project_dir:
        place = execute.Place(interface.target, named=f"project {args.project_dir}")
    else:
        place = execute.place_for(interface.target, args.on, str(args.file))
    if warning := execute.check_processor(interface.target, place, str(args.file)):
        terminal_of(args).show([warning])
    return place


def _samples(
    args: argparse.Namespace, interface: Interface
) -> tuple[Samples, Samples | None, Array | None]:
    """Samples, expected outputs and labels; None for the latter where they are not given. Raises
    MlfError."""
    from mlftool.runtime import vectors

    arrays, file = _arrays(args, interface), str(args.inputs)
    samples = vectors.samples_of(arrays, interface.inputs, file)
    labels = vectors.labels_of(arrays, interface, len(samples), file)
    if not args.expect:
        return samples, None, labels
    given = vectors.load_vectors(args.expect, interface.results)
    expected = vectors.samples_of(given, interface.results, str(args.expect))
    _check_count(len(expected), len(samples), str(args.expect))
    theirs = vectors.labels_of(given, interface, len(samples), str(args.expect))
    return samples, expected, labels if theirs is None else theirs


def _executed(
    args: argparse.Namespace,
    library: LibraryModule | None,
    bundle: Bundle,
    interface: Interface,
    place: Place,
    samples: Samples,
) -> Executed:
    """Outputs, times of layers where they are measured, and sizes where a program is linked."""
    from mlftool.runtime import execute
    from mlftool.runtime.runner import RunResult

    if args.driven:
        return _driven(args, bundle, interface, place, samples)
    if library:
        return RunResult(tuple(map(library.compiled(), samples)), {}), (), None
    if args.executor == "debug":
        return _debug(args, samples), (), None
    result, sizes = execute.execute(
        bundle, interface, place, samples, args.runner, args.repetitions
    )
    return result, (), sizes


def _differs(args: argparse.Namespace, found: Comparison, interface: Interface) -> MlfError:
    text = f"{found.mismatches} of {found.elements} elements differ from the reference"
    text += f" by more than {found.allowed}; largest: {found.worst}"
    hint = _remedy(found, interface)
    return MlfError(Problem("MLF0604", text, str(args.expect), help=hint), CHECK_FAILED)


def _remedy(found: Comparison, interface: Interface) -> str:
    """What to do about a difference: integers that are one apart have a usual cause."""
    allow = "allow it with --absolute and --relative (in a manifest or rule: absolute, relative)"
    integers = all(t.dtype.kind in "iu" for t in interface.results)
    if not integers or found.max_abs_error != 1:
        return f"if the model may differ that much, {allow}"
    return (
        "integers one apart: onnxruntime's optimised QLinearSoftmax and LiteRT's kernels round "
        "otherwise; take onnxruntime's outputs at ORT_ENABLE_BASIC (COMPATIBILITY.md), or allow "
        "it with --absolute 1 (in a manifest or rule: absolute)"
    )


def _arrays(args: argparse.Namespace, interface: Interface) -> dict[str, Array]:
    """The inputs that are given, and made ones where none is or --fill-mode asks for them."""
    from mlftool.runtime import fill, vectors

    if args.expect and not args.inputs:
        text = "--expect needs --inputs: results are right for the inputs that they were made of"
        raise MlfError(Problem("MLF0405", text, str(args.expect)))
    given = vectors.load_vectors(args.inputs, interface.inputs) if args.inputs else {}
    if args.inputs and not args.fill_mode:
        return given
    return fill.filled(interface.inputs, args.fill_mode or "random") | given


def _library(args: argparse.Namespace) -> LibraryModule | None:
    """The module of a shared library, which runs in this process. Raises MlfError."""
    from mlftool.runtime.shared_load import SUFFIXES, LoadedLibrary

    if args.project_dir or args.file.suffix not in SUFFIXES:
        return None
    given = {
        "--driven": args.driven,
        "--sandbox": args.sandbox,
        "--runner": args.runner,
        "--on": args.on not in (None, "host"),
    }
    given["--repetitions"] = args.repetitions != 1
    for flag in (flag for flag, wrong in given.items() if wrong):
        raise MlfError(Problem("MLF0405", f"{flag} is not for a library", str(args.file)))
    return LoadedLibrary(args.file).module(args.module)


def _bundle(args: argparse.Namespace) -> Bundle:
    """The archive; a model is compiled to one, for the place where it will run."""
    from mlftool.mlf import read_tar

    if args.file.suffix not in MODEL_SUFFIXES:
        for name in compile_options(args):
            text = f"{flag_of(name)} is for a MODEL.onnx; an archive is already compiled"
            raise MlfError(Problem("MLF0405", text, str(args.file)))
        return read_tar(args.file)
    from mlftool.codegen.names import module_name_of
    from mlftool.compile import ModuleSpec, compile_modules
    from mlftool.runtime.boards import find

    executor = "aot" if args.executor in (None, "debug") else args.executor
    if args.driven and args.executor == "debug":
        executor = "graph"
    found: dict[str, Any] = {"system_lib": True} if args.driven else {}  # for hosts to find
    if args.driven and executor == "aot":
        found["interface_api"] = "packed"
    # A board means its first target, whether it is ours or a folder.
    board = find(args.on) if args.on else None
    target = board.target if board else args.on or "host"
    spec = ModuleSpec(
        args.file,
        module_name_of(args.file),
        target,
        executor,
        **given_inputs(args),
        **{**found, **compile_options(args)},
    )
    return compile_modules([spec])


def _check_project(args: argparse.Namespace) -> None:
    """A project's archive is the one that it was generated of. Raises MlfError for other files,
    and for what its firmware decides."""
    is_project = args.project_dir is not None
    text = ""
    if (args.device == "micro") > is_project:
        text = "--device micro needs the folder of a project"
    elif is_project and (args.file or args.on or args.runner or args.device == "cpu"):
        text = "--project-dir is a board with its model: it goes with no file, --on or --runner"
    elif not is_project and args.file is None:
        text = "the archive or model is missing"
    if text:
        raise MlfError(Problem("MLF0405" if is_project else "MLF0400", text))
    if is_project:
        from mlftool.micro.project import archive_of, check_built

        args.driven, args.file = True, archive_of(args.project_dir)
        check_built(args.project_dir)


def _check_executor(args: argparse.Namespace) -> None:
    """Raises MlfError for an executor or a dump that other options rule out."""
    text = ""
    if args.driven and args.dump:
        text = "--dump is not for --driven: a board's layers share their memory"
    elif args.driven and args.executor == "debug":
        pass
    elif args.executor and args.file.suffix not in MODEL_SUFFIXES:
        text = "--executor is for a MODEL.onnx; an archive has its own"
    elif args.dump and args.executor != "debug":
        text = "--dump needs --executor debug: other executors keep no tensors"
    elif args.executor == "debug" and (args.runner or args.on not in (None, "host")):
        text = "--executor debug runs on this computer only"
    if text:
        raise MlfError(Problem("MLF0405", text, str(args.file)))


def _debug(args: argparse.Namespace, samples: Samples) -> RunResult:
    """The model node by node; DIR/sample0.npz and so on have every tensor."""
    from mlftool.api import DebugModule, from_onnx, from_tflite
    from mlftool.frontends.given import with_values
    from mlftool.frontends.load import load_model
    from mlftool.frontends.models import TFLite, opened
    from mlftool.runtime.runner import RunResult

    given = given_inputs(args)
    shapes, values = given["input_shapes"], given["input_values"]
    source = opened(args.file)
    if isinstance(source, TFLite):
        if values:
            text = "--input-value is for ONNX models where the executor is debug"
            raise MlfError(Problem("MLF0405", text, str(args.file)))
        module = DebugModule(from_tflite(source, shapes)[0])
    else:
        model = with_values(load_model(args.file), values, shapes, str(args.file))
        open_shapes = {name: shape for name, shape in shapes.items() if name not in values}
        module = DebugModule(from_onnx(model, open_shapes)[0])
    outputs = []
    for k, sample in enumerate(samples):
        outputs.append(module.run(sample))
        if args.dump:
            module.dump(args.dump, f"sample{k}")
    return RunResult(tuple(outputs), {})


def _layer(layer: LayerTime, place: Place) -> str:
    """Its line of the summary; a simulated board's instruction takes a nanosecond."""
    if place.board is not None and not place.board.hosted:
        return f"  {layer.seconds * 1e9:13,.0f} instructions  {layer.name}"
    return f"  {layer.seconds * 1e6:13,.1f} us  {layer.name}"


def _driven(
    args: argparse.Namespace,
    bundle: Bundle,
    interface: Interface,
    place: Place,
    samples: Samples,
) -> Executed:
    from mlftool.micro.drive import drive, drive_project
    from mlftool.mlf.archive import read

    is_debug = args.executor == "debug"
    archive = read(bundle, str(args.file))
    if args.project_dir:
        from mlftool.micro.project import GeneratedProject, option_values

        options = option_values(args.project_option)
        with GeneratedProject.from_directory(args.project_dir, options) as project:
            of = (project, archive, interface, samples, args.repetitions, is_debug)
            done = drive_project(*of)
        return done.result, done.layers, None
    done = drive(archive, interface, place.board, samples, args.repetitions, is_debug, args.runner)
    return done.result, done.layers, done.sizes


def _check_count(got: int, expected: int, file: str) -> None:
    if got != expected:
        text = f"wrong number of samples; got {got}, expected {expected} as in the inputs"
        raise MlfError(Problem("MLF0603", text, file))


def _write(
    args: argparse.Namespace, interface: Interface, result: RunResult, data: dict[str, object]
) -> None:

    from mlftool.mlf import write_atomically
    from mlftool.runtime.vectors import save_npz

    if args.output:
        names = [t.name for t in interface.results]
        save_npz(args.output, {n: _stacked([o[n] for o in result.outputs]) for n in names})
    if args.report:
        write_atomically(args.report, (json.dumps(data, indent=2) + "\n").encode())


def _stacked(samples: list[Array]) -> Array:
    """All samples in one array; samples with fewer elements than others are padded with zeros."""
    import numpy as np

    bounds = tuple(np.max([s.shape for s in samples], axis=0).astype(int)) if samples else ()
    result = np.zeros((len(samples), *bounds), samples[0].dtype)
    for index, sample in enumerate(samples):
        where: tuple[int | slice, ...] = (index, *map(slice, sample.shape))
        result[where] = sample
    return result
