"""`mlftool ops [FILE]`: which operators compile; of a model, which layers, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlftool.cli import subject
from mlftool.cli.options import compile_options
from mlftool.cli.terminal import as_json, put, said
from mlftool.errors import CHECK_FAILED, MlfError, Problem, did_you_mean
from mlftool.options import OPTIONS
from mlftool.targets import TARGETS

if TYPE_CHECKING:
    from mlftool.insight.operators import Judgement
    from mlftool.module import ModuleSpec

HELP = "list the supported operators; for a model, its kernels and the reasons"
GROUP = "start"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar=subject.FILE, type=Path, nargs="?", help="without one: the whole table")
    add(
        "--type",
        metavar="T",
        help="for the table: only operators that support this type, such as int8",
    )
    add("--unsupported", action="store_true", help="for the table: only unsupported operators")
    add("--json", action="store_true", help="print JSON")
    subject.add_subject_options(parser, several=True)


def run(args: argparse.Namespace) -> int:
    return _table(args, _targets(args)) if args.file is None else _of_file(args)


def _targets(args: argparse.Namespace) -> list[str]:
    targets = list(dict.fromkeys(args.target)) or [subject.DEFAULT_TARGET]
    problems = [
        Problem("MLF0403", f"--target: got '{t}'", help=did_you_mean(t, TARGETS))
        for t in targets
        if t not in TARGETS
    ]
    if problems:
        raise MlfError(problems)
    return targets


def _table(args: argparse.Namespace, targets: list[str]) -> int:
    from mlftool import table
    from mlftool.insight import operators
    from mlftool.ir.dtype import BY_NAME

    given = compile_options(args) | {"executor": args.executor, "module": args.module}
    given |= {"input-shape": args.input_shape, "input-value": args.input_value}
    given |= {"entry": args.entry}
    if wrong := [name for name, value in given.items() if value]:
        flag = OPTIONS[wrong[0]].flag if wrong[0] in OPTIONS else f"--{wrong[0]}"
        raise MlfError(Problem("MLF0405", f"{flag.removesuffix('_files')} is for a FILE"))
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
        put(as_json(operators=listed))
    else:
        said(table.text(operators.tabled(found, targets)))
    return 0


def _of_file(args: argparse.Namespace) -> int:
    wrong = [flag for flag in ("type", "unsupported") if getattr(args, flag)]
    if wrong:
        raise MlfError(Problem("MLF0405", f"--{wrong[0]} is for the table", str(args.file)))
    from mlftool.insight import operators

    subject.check_options(args, args.file)
    found = list(_judged(args))
    several = subject.is_manifest(args.file)
    if args.json:
        listed = [operators.judgement_json(one) for one in found]
        data: dict[str, Any] = {"models": listed} if several else listed[0]
        put(as_json(**data))
    else:
        said("\n\n".join(map(operators.text, found)))
    return CHECK_FAILED if any(one.problems for one in found) else 0


def _judged(args: argparse.Namespace) -> Iterator[Judgement]:
    """The model or the archive; of a manifest each model, by each of its executors."""
    from mlftool.insight import operators
    from mlftool.insight.subject import of_archive, parts_of, spec_of_part

    file = args.file
    if subject.is_archive(file):
        yield operators.of_archive(of_archive(file, args.module))
        return
    if not subject.is_manifest(file):
        targets = _targets(args)
        yield operators.judged(file.name, {t: subject.model_spec(args, file, t) for t in targets})
        return
    manifest, wanted = subject.chosen(args, file)
    columns: dict[str, dict[str, ModuleSpec]] = {}
    for part in parts_of(manifest, wanted):
        executor = f" ({part.executor})" * (len(manifest.models[part.model].executors) > 1)
        name = f"{file.name}: {part.entry.name}{executor}"
        name += f": {part.model}" * (len(part.entry.models) > 1)
        columns.setdefault(name, {})[part.entry.target] = spec_of_part(manifest, part)
    for name, specs in columns.items():
        yield operators.judged(name, specs)
