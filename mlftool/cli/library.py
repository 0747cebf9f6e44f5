"""`mlftool library FILE.tar -o MODEL.so`: a module as a shared library of this computer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.options import check_outputs
from mlftool.errors import MlfError, Problem, builds_of

if TYPE_CHECKING:
    from mlftool.mlf import Bundle

HELP = "make a shared library of an archive's module, for this computer"
GROUP = "ship"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("archive", metavar="FILE.tar", type=Path)
    add("-o", "--output", metavar="MODEL.so", type=Path)
    add("--module", metavar="M", help="which module of the archive")
    add(
        "--soname",
        metavar="NAME",
        help="the name under which linked programs look for it (MODEL.so)",
    )
    add("--headers", metavar="DIR", type=Path, help="write its C headers, too")
    add("--sources", metavar="DIR", type=Path,
        help="write the C that is compiled with the archive, and the version script")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from mlftool.mlf import check_folders, read_tar

    if args.output is None and args.headers is None and args.sources is None:
        hint = "give -o MODEL.so, --headers DIR or --sources DIR"
        raise MlfError(Problem("MLF0400", "nothing to write", help=hint))
    check_outputs(args, args.output)
    check_folders(args.headers, args.sources)
    bundle = read_tar(args.archive)
    with builds_of(args.archive):
        write_library(bundle, str(args.archive), args.output, args.module, args.soname)
    write_sources(bundle, str(args.archive), args.module, args.headers, args.sources)
    return 0


def check_name(output: Path) -> None:
    """Raises MlfError for a file whose name cannot be its library's."""
    from mlftool.runtime.shared import checked_soname

    checked_soname(output.name)


def write_library(
    bundle: Bundle,
    file: str,
    output: Path | None,
    module: str | None = None,
    soname: str | None = None,
) -> None:
    """The library, if `output` is given. Raises MlfError."""
    from mlftool.mlf import write_atomically
    from mlftool.mlf.archive import read
    from mlftool.runtime.interface import interface_of
    from mlftool.runtime.shared import build_library, check_host, checked_soname

    if output is None:
        return
    name = checked_soname(soname or output.name)
    archive = read(bundle, file)
    interface = interface_of(archive, module, file)
    check_host(interface, file)
    made = build_library(archive, interface, name)
    write_atomically(output, made.read_bytes())


def write_sources(
    bundle: Bundle, file: str, module: str | None, headers: Path | None, sources: Path | None
) -> None:
    from mlftool.mlf import make_folder, write_atomically
    from mlftool.mlf.archive import read
    from mlftool.runtime.interface import interface_of
    from mlftool.runtime.shared import check_host, public_headers, shared_files

    archive = read(bundle, file)
    interface = interface_of(archive, module, file)
    check_host(interface, file)
    record = archive.module(interface.module)
    wanted: dict[Path, bytes] = {}
    if headers is not None:
        wanted |= {headers / n: data for n, data in public_headers(archive, record).items()}
    if sources is not None:
        files = shared_files(interface, record).files
        wanted |= {sources / n.removeprefix("codegen/host/"): data for n, data in files.items()}
    for path, data in wanted.items():
        make_folder(path.parent)
        write_atomically(path, data)
