"""`mlftool sbom FILE.tar`: an archive's bill of materials, or the provenance of its bytes."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli.options import check_outputs
from mlftool.cli.terminal import put
from mlftool.errors import MlfError, Problem

HELP = "print an archive's bill of materials (CycloneDX) or its provenance (SLSA)"
GROUP = "ship"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="FILE.tar", type=Path)
    parser.add_argument(
        "--format",
        choices=("cyclonedx", "provenance"),
        default="cyclonedx",
        help="CycloneDX 1.6, or an in-toto statement with SLSA provenance 1 (default: cyclonedx)",
    )
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="instead of stdout")


def run(args: argparse.Namespace) -> int:
    from mlftool.mlf import read_tar, write_atomically
    from mlftool.mlf.sbom import FORMATS

    check_outputs(args, args.output)
    bundle = read_tar(args.archive)
    try:
        data = args.archive.read_bytes()
    except OSError as error:
        text = f"cannot be read: {error.strerror}"
        raise MlfError(Problem("MLF0501", text, str(args.archive))) from None
    made = FORMATS[args.format](bundle, args.archive, data)
    if args.output is None:
        put(made.decode(), end="")
    else:
        write_atomically(args.output, made)
    return 0
