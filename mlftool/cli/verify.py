"""`mlftool verify FILE.tar`: check an archive's certificates again, from the archive alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.cli.terminal import put, said
from mlftool.errors import MlfError, Problem, one_line
from mlftool.frozen import replace
from mlftool.width import how_many

if TYPE_CHECKING:
    from mlftool.proof.certificate import Certificate

HELP = "check the certificates of an archive's modules again"
GROUP = "run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="FILE.tar", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    found = checked(args.archive)
    if args.json:
        modules = {
            name: {"proven": c.proven, "not_proven": c.not_proven} for name, c in found.items()
        }
        put(json.dumps({"schema_version": 1, "modules": modules}, indent=2, default=dict))
    else:
        said("\n".join(map(one_line, _lines(str(args.archive), found))))
    return 0


def checked(path: Path) -> dict[str, Certificate]:
    """The certificate of each module. Raises MlfError with everything that does not hold."""
    from mlftool.mlf import archive, read_tar
    from mlftool.mlf.strict import AGAIN
    from mlftool.proof import certificate

    file, bundle = str(path), read_tar(path)
    record = archive.read(bundle, file)
    found, problems = {}, []
    for m in record.modules:
        own = certificate.path(m.executor, m.name)
        if own not in m.files:
            help = "compile with --verify" if m.interface else "only mlftool's archives have one"
            text = f"module {m.name} has no certificate"
            problems.append(Problem(certificate.BROKEN, text, file, help=help))
            continue
        found[m.name] = certificate.decode(m.files[own], file, own)
        for text in certificate.faults(found[m.name], m, record.shared):
            problems.append(Problem(certificate.BROKEN, text, file, path=own))
        if problems and not problems[-1].help:
            problems[-1] = replace(problems[-1], help=AGAIN)
    if problems:
        raise MlfError(problems)
    return found


def _lines(file: str, found: Mapping[str, Certificate]) -> Iterator[str]:
    for name, c in found.items():
        calls = sum(len(one.steps) for one in c.layouts)
        yield f"{file}: module {name}: {how_many(calls, 'call')}, {how_many(len(c.files), 'file')}"
        yield from (f"  proven: {text} ({count})" for text, count in c.proven.items())
        yield from (f"  not proven: {text}" for text in c.not_proven)
