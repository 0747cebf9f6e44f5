"""How commands that look at modules are told which: a model, an archive or a manifest's entries."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import add_compile_options, compile_options, flag_of
from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.options import EXECUTORS

if TYPE_CHECKING:
    from mlftool.insight.subject import Subject
    from mlftool.manifest import Manifest
    from mlftool.manifest.entries import Entry

DEFAULT_TARGET = "cortex-m4"
FILE = "MODEL.onnx|FILE.tar|MANIFEST.yaml"


def add_subject_options(parser: argparse.ArgumentParser) -> None:
    """Those that say which module, and how a model is compiled."""
    add = parser.add_argument
    add("--target", metavar="T",
        help=f"for a model: compile for it ({DEFAULT_TARGET}); of a manifest: its entries for it "
        "only")  # fmt: skip
    add("--executor", choices=EXECUTORS, help="for a model: the executor (aot)")
    add(
        "--entry",
        metavar="NAME",
        action="append",
        default=[],
        help="of a manifest: a model's name, or an entry such as kws/cortex-m4-aot; repeatable",
    )
    add("--module", metavar="M", help="which module of the archive")
    add_inputs(parser, "for a model: ")
    add_compile_options(parser)


def subjects(
    args: argparse.Namespace, file: Path, on_board: bool = False, beside: Path | None = None
) -> Iterator[Subject]:
    """What `file` is, module by module, each compiled when it is asked for. `on_board` leaves out
    the entries of a manifest that no simulated board without an operating system runs. An option
    that means nothing for this file may be for the one that it is compared with, `beside`. Raises
    MlfError.
    """
    kinds = {_kind(file)} | ({_kind(beside)} if beside else set())
    problems = [
        Problem("MLF0405", f"{flag}: {_why(_kind(file), takers)}", str(file))
        for flag, (value, takers) in _options(args).items()
        if value and not kinds & {*takers}
    ]
    if problems:
        raise MlfError(problems)
    return _subjects(args, file, on_board)


def one_subject(args: argparse.Namespace, file: Path) -> Subject:
    """The only one. Raises MlfError if a manifest has several entries and none is named."""
    found = subjects(args, file)
    first = next(found)
    if next(found, None) is not None:
        text = "the manifest has several entries that fit"
        raise MlfError(Problem("MLF0400", text, str(file), help="choose with --entry and --target"))
    return first


_MODEL, _ARCHIVE, _MANIFEST, _FIGURES = "model", "archive", "manifest", "figures"


def _kind(file: Path) -> str:
    """What a file is, by its name; whether it is one is found when it is read."""
    if file.suffix in (".yaml", ".yml"):
        return _MANIFEST
    if file.suffix == ".tar":
        return _ARCHIVE
    return _FIGURES if file.suffix == ".json" else _MODEL


def _why(kind: str, takers: Collection[str]) -> str:
    """Why a file of this kind does not take an option that only `takers` do."""
    if kind == _MANIFEST:
        return "set it in the manifest"
    if kind == _FIGURES:
        return "recorded figures are of a finished build"
    if _MODEL in takers:
        return "an archive is already compiled"
    of = "a module of an archive" if _ARCHIVE in takers else "an entry of a manifest"
    return f"it names {of}"


def _options(args: argparse.Namespace) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """What was given of each option, and the kinds of files that take it, by its flag."""
    given = {flag_of(name): value for name, value in compile_options(args).items()}
    given |= {"--executor": args.executor, "--input-shape": args.input_shape}
    given |= {"--input-value": args.input_value}
    return {
        **{flag: (value, (_MODEL,)) for flag, value in given.items()},
        "--target": (args.target, (_MODEL, _MANIFEST)),
        "--module": (args.module, (_ARCHIVE,)),
        "--entry": (args.entry, (_MANIFEST,)),
    }


def _subjects(args: argparse.Namespace, file: Path, on_board: bool) -> Iterator[Subject]:
    kind = _kind(file)
    if kind == _MANIFEST:
        yield from _entries(args, file, on_board)
    elif kind == _ARCHIVE:
        yield _archive(file, args.module)
    else:
        yield _model(args, file)


def _model(args: argparse.Namespace, file: Path) -> Subject:
    from mlftool.codegen.names import module_name_of
    from mlftool.compile import ModuleSpec
    from mlftool.insight.subject import of_spec

    spec = ModuleSpec(
        file,
        module_name_of(file),
        args.target or DEFAULT_TARGET,
        args.executor or "aot",
        **given_inputs(args),
        **compile_options(args),
    )
    return of_spec(spec, str(file), file.name)


def _archive(file: Path, module: str | None) -> Subject:
    from mlftool.insight.subject import of_archive

    return of_archive(file, module)


def _entries(args: argparse.Namespace, file: Path, on_board: bool) -> Iterator[Subject]:
    from mlftool.insight.subject import of_manifest
    from mlftool.manifest import load
    from mlftool.manifest.entries import entries

    manifest = load(file)
    every = entries(manifest)
    names = {e.name for e in every} | {e.output.removesuffix(".tar") for e in every}
    problems = [
        Problem("MLF0400", f"--entry: got '{name}'", str(file), help=did_you_mean(name, names))
        for name in args.entry
        if name not in names
    ]
    targets = {e.target for e in every}
    if args.target and args.target not in targets:
        text = f"--target: no entry of the manifest is for '{args.target}'"
        problems.append(
            Problem("MLF0400", text, str(file), help=did_you_mean(args.target, targets))
        )
    if problems:
        raise MlfError(problems)
    wanted = [
        e
        for e in every
        if (not args.target or e.target == args.target)
        and (not args.entry or {e.name, e.output.removesuffix(".tar")} & set(args.entry))
    ]
    if not wanted:
        text = f"none of these entries is for '{args.target}': {', '.join(args.entry)}"
        raise MlfError(Problem("MLF0400", text, str(file)))
    measured = [e for e in wanted if not on_board or _has_board(manifest, e)]
    if not measured:
        text = "this is measured on simulated boards; no entry is for a target that has one"
        raise MlfError(Problem("MLF0610", text, str(file)))
    yield from of_manifest(manifest, measured)


def _has_board(manifest: Manifest, entry: Entry) -> bool:
    from mlftool.runtime.boards import BOARDS

    own = manifest.targets.get(entry.target)
    board = BOARDS.get(own.base if own else entry.target)
    return board is not None and not board.hosted
