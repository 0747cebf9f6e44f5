"""`mlftool runner FILE.tar -o runner_M.c`: the C descriptor that crt/runner/runner.c runs."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.tar", type=Path)
    parser.add_argument("--module", metavar="M", help="which module of the archive")
    parser.add_argument("-o", "--output", metavar="OUT.c", type=Path, required=True)


def run(args: argparse.Namespace) -> int:
    from mlftool.mlf import read_tar, write_atomically
    from mlftool.runtime.descriptor import runner_c
    from mlftool.runtime.interface import read_interface

    interface = read_interface(read_tar(args.file), args.module, str(args.file))
    write_atomically(args.output, runner_c(interface).encode())
    return 0
