"""`mlftool runner FILE.tar -o runner_M.c`: the C descriptor that crt/runner/runner.c runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli.options import check_outputs

HELP = "write the C descriptor of a module for the test runner"
GROUP = "ship"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE.tar", type=Path)
    parser.add_argument("--module", metavar="M", help="which module of the archive")
    parser.add_argument("-o", "--output", metavar="OUT.c", type=Path, required=True)


def run(args: argparse.Namespace) -> int:
    from mlftool.mlf import read_tar, write_atomically
    from mlftool.mlf.archive import read
    from mlftool.runtime.descriptor import runner_c
    from mlftool.runtime.interface import interface_of

    check_outputs(args, args.output)
    archive = read(read_tar(args.file), str(args.file))
    interface = interface_of(archive, args.module, str(args.file))
    text = runner_c(interface, archive.module(interface.module))
    write_atomically(args.output, text.encode())
    return 0
