"""`mlftool bazel MANIFEST --write OUT/BUILD.bazel`: a manifest's targets as a file to commit."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli.options import check_outputs

HELP = "write a manifest's Bazel targets as a BUILD file to commit"
GROUP = "ship"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", metavar="MANIFEST.yaml", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="BUILD.bazel", type=Path, help="write the file")
    what.add_argument(
        "--check", metavar="BUILD.bazel", type=Path, help="fail if the file is not up to date"
    )
    parser.add_argument(
        "--rules", metavar="@NAME", default="@mlftool", help="repository of the rules (@mlftool)"
    )


def run(args: argparse.Namespace) -> int:
    from mlftool.errors import CHECK_FAILED, MlfError, Problem
    from mlftool.manifest.written import build_file, problem
    from mlftool.mlf import write_atomically

    out: Path = args.write or args.check
    check_outputs(args, args.write)
    text = build_file(args.manifest, out, args.rules)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        why = "its path is not UTF-8, which Bazel's labels must be"
        raise MlfError(Problem("MLF0400", why, str(args.manifest))) from None
    if args.write:
        write_atomically(out, data)
        return 0
    try:
        is_same = out.is_file() and out.read_bytes() == data
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
        raise MlfError(Problem("MLF0121", why, str(out))) from None
    if not is_same:
        raise MlfError(problem("", str(out)), CHECK_FAILED)
    return 0
