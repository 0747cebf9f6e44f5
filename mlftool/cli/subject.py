"""How commands that look at modules are told which: a model, an archive or a manifest's entries."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import add_compile_options, compile_options, flag_of
from mlftool.cli.terminal import terminal_of
from mlftool.errors import BAD_INPUT, MlfError, Problem, did_you_mean
from mlftool.files import MANIFEST_SUFFIXES
from mlftool.options import EXECUTORS

if TYPE_CHECKING:
    from mlftool.insight.subject import Subject
    from mlftool.manifest import Manifest
    from mlftool.manifest.entries import Entry
    from mlftool.module import ModuleSpec

_Job = TypeVar("_Job")
_Found = TypeVar("_Found")

DEFAULT_TARGET = "cortex-m4"
FILE = "MODEL.onnx|FILE.tar|MANIFEST.yaml"


def add_subject_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Those that say which module, and how a model is compiled; --target may be `several`."""
    add = parser.add_argument
    on = parser._option_string_actions.get("--on")
    board = "that of --on, else " if on is not None and on.default is None else ""
    text = f"for a model: compile for it ({board}{DEFAULT_TARGET}); of a manifest: its entries for "
    text += "it only"
    if several:
        add("--target", metavar="T", action="append", default=[], help=f"{text}; repeatable")
    else:
        add("--target", metavar="T", help=text)
    add("--executor", choices=EXECUTORS, help="for a model: the executor (aot)")
    add(
        "--entry",
        metavar="NAME",
        action="append",
        default=[],
        help="for a manifest: a model's name, or an entry such as kws/cortex-m4-aot; repeatable",
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
    check_options(args, file, beside)
    return (_judged(args, found) for found in _subjects(args, file, on_board))


def _judged(args: argparse.Namespace, found: Subject) -> Subject:
    """The same. Shows a warning, once, if it was compiled for another core than that of the board
    that --on names. Raises MlfError if the board lacks its instructions."""
    from mlftool.runtime.boards import find
    from mlftool.runtime.execute import Place, check_processor

    asked, target = getattr(args, "on", None) or (), found.interface.target
    for on in [asked] if isinstance(asked, str) else asked:
        board = find(on, target)
        place = Place(board.target, board) if board else None
        warning = check_processor(target, place, found.file) if place else None
        said: list[Problem] = vars(args).setdefault("said", [])
        if warning and warning not in said:
            said.append(warning)
            terminal_of(args).show([warning])
    return found


_DOES_NOT_BUILD = "MLF0608"


@contextmanager
def refusals(exit_code: int = BAD_INPUT) -> Iterator[list[Problem]]:
    """A list of problems, which are raised once the command has printed the rest. Raises
    MlfError."""
    found: list[Problem] = []
    yield found
    if found:
        raise MlfError(dict.fromkeys(found), exit_code)


def fitting(
    measure: Callable[[_Job], _Found], jobs: Iterable[_Job], refused: list[Problem]
) -> Iterator[_Found]:
    """What can be measured of several. Programs that their board has no room for are problems of
    `refused`, a list of `refusals`; if nothing fits they are raised here. Raises MlfError."""
    is_empty = True
    for job in jobs:
        try:
            found = measure(job)
        except MlfError as error:
            if any(p.code != _DOES_NOT_BUILD for p in error.problems):
                raise
            refused += error.problems
            continue
        is_empty = False
        yield found
    if is_empty and refused:
        raise MlfError(refused)


def check_options(args: argparse.Namespace, file: Path, beside: Path | None = None) -> None:
    """Raises MlfError for options without a meaning for this file and for the one `beside`."""
    kinds = {_kind(file)} | ({_kind(beside)} if beside else set())
    problems = [
        Problem("MLF0405", f"{flag}: {_why(_kind(file), takers)}", str(file))
        for flag, (value, takers) in _options(args).items()
        if value and not kinds & {*takers}
    ]
    if problems:
        raise MlfError(problems)


def one_subject(args: argparse.Namespace, file: Path) -> Subject:
    """The only one; of a manifest's several the only one that a simulated board runs, as in a new
    project with entries for this computer and a board. Raises MlfError if that leaves several."""
    if not is_manifest(file):
        return next(subjects(args, file))
    from mlftool.insight.subject import of_part, parts_of

    check_options(args, file)
    manifest, wanted = chosen(args, file)
    parts = list(parts_of(manifest, wanted))
    of_boards = [p for p in parts if has_board(manifest, p.entry)]
    only = parts if len(parts) == 1 else of_boards
    if len(only) != 1:
        raise MlfError(several(file, [p.title for p in only or parts]))
    return _judged(args, of_part(manifest, only[0]))


def several(file: Path, titles: Sequence[str]) -> Problem:
    """What is wrong where one entry is meant; some that fit say how to name one."""
    text = "the manifest has several entries that fit"
    names = " or ".join(f"--entry {title.partition('.tar')[0]}" for title in titles[:2])
    hint = f"choose with --entry and --target, such as {names}"
    return Problem("MLF0400", text, str(file), help=hint)


def is_manifest(file: Path) -> bool:
    return _kind(file) == _MANIFEST


def is_archive(file: Path) -> bool:
    return _kind(file) == _ARCHIVE


_MODEL, _ARCHIVE, _MANIFEST, _FIGURES = "model", "archive", "manifest", "figures"


def _kind(file: Path) -> str:
    """What a file is, by its name; whether it is one is found when it is read."""
    if file.suffix in MANIFEST_SUFFIXES:
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


def _check_name(file: Path) -> None:
    """Raises MlfError for MANIFEST.yaml:NAME, which is how Bazel and others name an entry."""
    manifest, _, entry = str(file).rpartition(":")
    if manifest.endswith(MANIFEST_SUFFIXES) and not file.exists():
        hint = shlex.join([manifest, "--entry", entry])
        raise MlfError(Problem("MLF0400", "--entry names an entry", str(file), help=hint))


def _model(args: argparse.Namespace, file: Path) -> Subject:
    from mlftool.insight.subject import of_spec

    return of_spec(model_spec(args, file, args.target or _core(args)), str(file), file.name)


def _core(args: argparse.Namespace) -> str:
    """The target of the board that --on names, if a command has it; else the default."""
    from mlftool.runtime.boards import find

    wanted = getattr(args, "on", None)
    board = find(wanted, DEFAULT_TARGET) if isinstance(wanted, str) else None
    return board.target if board else DEFAULT_TARGET


def model_spec(args: argparse.Namespace, file: Path, target: str) -> ModuleSpec:
    """How a model's file is compiled, as the options say. Raises MlfError."""
    from mlftool.codegen.names import module_name_of
    from mlftool.module import ModuleSpec

    _check_name(file)
    given = {**given_inputs(args), **compile_options(args)}
    return ModuleSpec(file, module_name_of(file), target, args.executor or "aot", **given)


def _archive(file: Path, module: str | None) -> Subject:
    from mlftool.insight.subject import of_archive

    return of_archive(file, module)


def _entries(args: argparse.Namespace, file: Path, on_board: bool) -> Iterator[Subject]:
    from mlftool.insight.subject import of_manifest

    yield from of_manifest(*chosen(args, file, on_board))


def chosen(
    args: argparse.Namespace, file: Path, on_board: bool = False
) -> tuple[Manifest, list[Entry]]:
    """A manifest's entries that --entry and --target, one or several, ask for. Raises MlfError."""
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
    asked = [args.target] if isinstance(args.target, str) else list(args.target or ())
    targets = {e.target for e in every}
    for target in asked:
        if target not in targets:
            text = f"--target: no entry of the manifest is for '{target}'"
            hint = did_you_mean(target, targets)
            problems.append(Problem("MLF0400", text, str(file), help=hint))
    if problems:
        raise MlfError(problems)
    wanted = [
        e
        for e in every
        if (not asked or e.target in asked)
        and (not args.entry or {e.name, e.output.removesuffix(".tar")} & set(args.entry))
    ]
    if not wanted:
        text = f"none of these entries is for '{', '.join(asked)}': {', '.join(args.entry)}"
        raise MlfError(Problem("MLF0400", text, str(file)))
    measured = [e for e in wanted if not on_board or has_board(manifest, e)]
    if not measured:
        text = "this is measured on simulated boards; no entry is for a target that has one"
        raise MlfError(Problem("MLF0610", text, str(file)))
    return manifest, measured


def has_board(manifest: Manifest, entry: Entry) -> bool:
    """Whether a simulated board without an operating system runs it."""
    from mlftool.runtime.boards import BOARDS

    own = manifest.targets.get(entry.target)
    board = BOARDS.get(own.base if own else entry.target)
    return board is not None and not board.hosted
