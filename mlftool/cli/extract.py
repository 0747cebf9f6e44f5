"""`mlftool extract FILE.tar`: members to files, everything into a folder, or a project of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.terminal import terminal_of
from mlftool.errors import MlfError, Problem, did_you_mean

if TYPE_CHECKING:
    from mlftool.mlf import Bundle

HELP = "extract files from an archive"
GROUP = "ship"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="FILE.tar", type=Path)
    parser.add_argument(
        "--member",
        action="append",
        default=[],
        metavar="NAME=OUT",
        help="write one member to OUT; repeatable",
    )
    parser.add_argument("--all", metavar="DIR", type=Path, help="write every member to DIR")
    parser.add_argument(
        "--project",
        metavar="NAME=DIR",
        help="write a project for CMake and Make, with the library NAME, to DIR",
    )


def run(args: argparse.Namespace) -> int:
    from mlftool.mlf import (
        check_writable,
        checksums,
        extracted,
        make_folder,
        read_tar,
        write_atomically,
    )

    if not args.member and args.all is None and args.project is None:
        hint = "give --member NAME=OUT, --all DIR or --project NAME=DIR"
        raise MlfError(Problem("MLF0400", "nothing to extract", help=hint))
    bundle = read_tar(args.archive)
    checksums.verify(bundle.files, str(args.archive))
    wanted: dict[Path, bytes] = {}
    problems = []
    for text in args.member:
        name, _, out = text.partition("=")
        if not out:
            problems.append(Problem("MLF0400", f"--member: got '{text}', expected NAME=OUT"))
        elif name not in bundle.files:
            problems.append(
                Problem(
                    "MLF0504",
                    f"no member '{name}'",
                    str(args.archive),
                    help=did_you_mean(name, bundle.files),
                )
            )
        else:
            wanted[Path(out)] = bundle.files[name]
    if problems:
        raise MlfError(problems)
    check_writable(*wanted, sources=[args.archive])
    folders: dict[Path, Mapping[str, bytes]] = {}
    if args.all is not None:
        folders[args.all] = bundle.files
    if args.project is not None:
        folder, project = _project(bundle, args.project, str(args.archive))
        folders[folder] = {**folders.get(folder, {}), **project}
    for folder, files in folders.items():
        terminal_of(args).show(extracted.clear(folder, files))
        extracted.write(folder, files)
    for path, data in wanted.items():
        make_folder(path.parent)
        write_atomically(path, data)
    return 0


def _project(bundle: Bundle, text: str, archive: str) -> tuple[Path, dict[str, bytes]]:
    from mlftool.runtime.project import project_files

    name, _, folder = text.partition("=")
    if not folder:
        raise MlfError(Problem("MLF0400", f"--project: got '{text}', expected NAME=DIR"))
    return Path(folder), project_files(bundle, name, archive)
