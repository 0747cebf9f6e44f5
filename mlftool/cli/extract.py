"""`mlftool extract FILE.tar`: named members to named files, or everything into a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.errors import MlfError, Problem, did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="FILE.tar", type=Path)
    parser.add_argument(
        "--member",
        action="append",
        default=[],
        metavar="NAME=OUT",
        help="write one member to OUT; repeatable",
    )
    parser.add_argument("--all", metavar="DIR", type=Path, help="write every member below DIR")


def run(args: argparse.Namespace) -> int:
    from mlftool.mlf import read_tar, write_atomically

    if not args.member and args.all is None:
        raise MlfError(
            Problem("MLF0400", "nothing to extract", help="give --member NAME=OUT or --all DIR")
        )
    bundle = read_tar(args.archive)
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
    if args.all is not None:
        wanted |= {args.all / name: data for name, data in bundle.files.items()}
    for path, data in wanted.items():
        _make_folder(path.parent)
        write_atomically(path, data)
    return 0


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MlfError(
            Problem("MLF0402", f"cannot be made: {error.strerror}", str(folder))
        ) from None
