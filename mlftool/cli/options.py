"""The compiler's options as options of a command."""

from __future__ import annotations

import argparse
import importlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlftool.options import OPTIONS, Choice, Option, Several, Switch, Whole, Word


def natural(text: str) -> int:
    """The type of a limit, of which 0 is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise argparse.ArgumentTypeError(f"got '{text}', expected a whole number to 999999999")
    return int(text)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-j",
        "--jobs",
        metavar="N",
        type=positive,
        default=os.cpu_count() or 1,
        help="how many to compile in parallel; default: one per core",
    )


def positive(text: str) -> int:
    """The type of -j. argparse adds the flag and the value to the message."""
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 4 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"got '{text}', expected a whole number from 1 to 9999")
    return int(text)


def add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    """Adds its flag, which is None where it is not given."""
    # argparse would format a '%'; the backticks are for pages.
    text = f"{option.doc} ({option.default_text})".replace("%", "%%").replace("`", "")
    add = parser.add_argument
    match option.kind:
        case Switch():
            add(option.flag, dest=option.name, action="store_true", default=None, help=text)
        case Choice(values=values):
            add(option.flag, dest=option.name, choices=values, help=text)
        case Whole(first, last):
            add(option.flag, dest=option.name, type=int, metavar=f"{first}..{last}", help=text)
        case Word(shown=shown):
            add(option.flag, dest=option.name, metavar=shown, help=text)
        case Several(item):
            add(option.flag, dest=option.name, action="append", metavar=item.shown, help=text)


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """The options that mean the same to every command that compiles a model."""
    for asked in OPTIONS.values():
        if not asked.of_tvm:
            add_option(parser, asked)
    parser.add_argument("--tuning", metavar="RECORD.json", type=Path,
        help="use the kernels that `mlftool tune` selected")  # fmt: skip
    parser.add_argument("--backend-file", action="append", default=[], metavar="FILE.py", type=Path,
        help="a Python file that defines a backend; mlftool runs it; repeatable")  # fmt: skip
    add_data(parser)


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", action="append", default=[], metavar="FILE", type=Path,
        help="an external data file of the model that may be a link; repeatable")  # fmt: skip


def check_outputs(args: argparse.Namespace, *outputs: Path | None) -> None:
    """Whether `outputs`, arguments of `args`, can be written without replacing a file that another
    argument names, or a file that one of these names; None is not asked for. Raises MlfError."""
    from mlftool.mlf import check_writable

    given = (v if isinstance(v, list) else [v] for v in vars(args).values())
    named = [v for values in given for v in values if isinstance(v, Path)]
    read = [v for v in named if all(v is not o for o in outputs)]
    if any(output and os.path.isfile(output) for output in outputs):
        # By name, so that builds of archives do not depend on what reads manifests: Bazel's
        # compiler has no such module, and its outputs are never there.
        with suppress(ModuleNotFoundError):
            named_by = importlib.import_module("mlftool.cli.named").named_by
            read += [path for file in read for path in named_by(file)]
    check_writable(*outputs, sources=read)


def compile_options(args: argparse.Namespace) -> dict[str, Any]:
    """What was given of them, as fields of ModuleSpec."""
    files = {"tuning": args.tuning, "data_files": tuple(args.data)}
    files |= {"backend_files": tuple(args.backend_file)}
    return {**given_options(args), **{name: value for name, value in files.items() if value}}


def flag_of(name: str) -> str:
    """The option that sets this field of ModuleSpec."""
    files = {"tuning": "--tuning", "data_files": "--data", "backend_files": "--backend-file"}
    return files[name] if name in files else OPTIONS[name].flag


def given_options(args: argparse.Namespace) -> dict[str, Any]:
    """What was given of the options that `add_option` added, as fields of ModuleSpec."""
    given = {n: getattr(args, n) for n, option in OPTIONS.items() if not option.of_tvm}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
        if value is not None
    }
