"""`mlftool compare FILE`: layer by layer against the float model, or a board against the host; of
an archive its outputs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlftool.cli import subject
from mlftool.cli.options import positive
from mlftool.cli.terminal import as_json, put, said, terminal_of
from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.files import MODEL_SUFFIXES
from mlftool.frozen import frozen

if TYPE_CHECKING:
    from mlftool.insight.compare import Compared, Samples
    from mlftool.module import ModuleSpec

HELP = "compare layer by layer: a quantised model with its float form, a board with the host"
GROUP = "run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=subject.FILE, type=Path)
    text = "the reference model, in the same format; for an archive any model or archive"
    add("--against", metavar="FLOAT", type=Path, help=text)
    add("--on", metavar="BOARD", help="compare this board, or a target's, with this computer")
    add("--inputs", metavar="IN.npz", type=Path, help="samples of either model (a pattern)")
    add("--samples", metavar="N", type=positive, default=None,
        help="use at most N samples (8)")  # fmt: skip
    add("--sqnr", metavar="DB", type=decibels,
        help="with --against: name the first layer below it (10; if given, exit 1)")  # fmt: skip
    add("--json", action="store_true", help="print JSON")
    subject.add_subject_options(parser)


def decibels(text: str) -> float:
    value = float(text)
    if not -1000 <= value <= 1000:
        raise ValueError(text)
    return value


def run(args: argparse.Namespace) -> int:
    _check(args)
    from mlftool.insight import compare
    from mlftool.runtime.vectors import load_vectors

    subject.check_options(args, args.file, args.against)
    arrays = load_vectors(args.inputs) if args.inputs else None
    given = compare.Samples(arrays, args.samples or compare.USUAL_SAMPLES, str(args.inputs))
    found = _of_archive(args, given) if subject.is_archive(args.file) else _of_model(args, given)
    if args.json:
        put(as_json(**compare.to_json(found)))
    else:
        said(compare.text(found))
    fails = args.sqnr is not None or found.least is None
    return CHECK_FAILED if fails and found.first_wrong else 0


@frozen
class _Asked:
    """A model, what it is compared with, or where it runs."""

    spec: ModuleSpec
    name: str
    reference: Path | None
    on: str | None
    reference_inputs: dict[str, Any]  # its shapes and values


def _of_model(args: argparse.Namespace, given: Samples) -> Compared:
    from mlftool.insight import compare
    from mlftool.module import ModuleSpec
    from mlftool.runtime.execute import place_for

    asked = _entry(args) if subject.is_manifest(args.file) else _model(args)
    if asked.reference:
        from mlftool.codegen.names import module_name_of

        reference = asked.reference
        other = ModuleSpec(reference, module_name_of(reference), **asked.reference_inputs)
        return compare.against(asked.spec, other, (asked.name, str(reference)), given, _least(args))
    place = place_for("host", asked.on, str(args.file))
    return compare.on_board(asked.spec, asked.name, place, given)


def _least(args: argparse.Namespace) -> float:
    from mlftool.insight.compare import USUAL_SQNR

    return USUAL_SQNR if args.sqnr is None else args.sqnr


def _model(args: argparse.Namespace) -> _Asked:
    spec = subject.model_spec(args, args.file, args.target or "host")
    inputs = _inputs_of(spec)  # of both models: quantisers keep their names
    return _Asked(spec, str(args.file), args.against, args.on or args.target, inputs)


def _inputs_of(spec: ModuleSpec) -> dict[str, Any]:
    return {"input_shapes": spec.input_shapes, "input_values": spec.input_values}


def _entry(args: argparse.Namespace) -> _Asked:
    """An entry of a manifest. Without --against and --on, a model that the manifest quantises is
    compared with the float one, and any other on its target's board; hosts have none to choose."""
    from mlftool.insight.subject import parts_of, spec_of_part

    manifest, wanted = subject.chosen(args, args.file)
    implied = not (args.against or args.on)
    if implied and not any(manifest.models[m].quantize for e in wanted for m in e.models):
        wanted = [e for e in wanted if subject.has_board(manifest, e)]
        if not wanted:
            raise MlfError(Problem("MLF0405", _choice(args.file), str(args.file)))
    part, *others = parts_of(manifest, wanted)
    model = manifest.models[part.model]
    quantised = model.quantize is not None
    if others and implied and quantised and all(p.model == part.model for p in others):
        others = []  # on this computer they compute the same
    if others:
        raise MlfError(subject.several(args.file, (part.title, others[0].title)))
    spec = spec_of_part(manifest, part)
    name, reference, on = f"{args.file}: {part.title}", args.against, args.on
    if implied and quantised:
        reference = part.file
    elif implied:
        on = spec.target
    if args.sqnr is not None and not reference:
        _refuse_sqnr(args.file)
    shapes = {"input_shapes": model.input_shapes, "input_values": model.input_values}
    return _Asked(spec, name, reference, on, shapes if quantised else _inputs_of(spec))


def _of_archive(args: argparse.Namespace, given: Samples) -> Compared:
    from mlftool.insight import compare
    from mlftool.insight.subject import of_archive
    from mlftool.insight.trace import Finished, finished
    from mlftool.runtime.execute import check_processor, place_for

    about = of_archive(args.file, args.module)
    found, name = Finished(about.bundle, about.interface), str(args.file)
    if not args.against:
        place = place_for("host", args.on, name)
        if warning := check_processor(found.interface.target, place, name):
            terminal_of(args).show([warning])
        return compare.archive_on_board(found, name, place, given)
    if subject.is_archive(args.against):
        beside = of_archive(args.against)
        other = Finished(beside.bundle, beside.interface)
    else:
        other = finished(subject.model_spec(args, args.against, "host"))
    names = (name, str(args.against))
    return compare.archives_against(found, other, names, given, _least(args))


def _check(args: argparse.Namespace) -> None:
    """Raises MlfError for what cannot be compared."""
    text = ""
    implied = args.target or subject.is_manifest(args.file)
    if (args.against and args.on) or not (args.against or args.on or implied):
        text = _choice(args.file)
    elif args.on == "host" or (args.target == "host" and not (args.against or args.on)):
        text = f"--{'on' if args.on else 'target'} host: the reference is this computer itself"
    if text:
        raise MlfError(Problem("MLF0405", text, str(args.file)))
    if args.sqnr is not None and not args.against and not subject.is_manifest(args.file):
        _refuse_sqnr(args.file)
    if not args.against:
        return
    is_manifest = subject.is_manifest(args.against)
    if is_manifest or (subject.is_archive(args.against) and not subject.is_archive(args.file)):
        text = f"expected a model, {' or '.join(MODEL_SUFFIXES)}: "
        text += "name one of this manifest" if is_manifest else "an archive has no layers' results"
        raise MlfError(Problem("MLF0405", text, str(args.against)))


def _choice(file: Path) -> str:
    """What is missing, in the format of this file's own reference."""
    kind = file.suffix if file.suffix in MODEL_SUFFIXES else ".onnx"
    return f"expected either --against FLOAT{kind} or --on BOARD"


def _refuse_sqnr(file: Path) -> None:
    text = "--sqnr is for --against; a board has to give equal bits"
    raise MlfError(Problem("MLF0405", text, str(file)))
