"""`mlftool doctor`: what is installed, and the command that installs what is not."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mlftool.cli.terminal import as_json, put, said
from mlftool.errors import ENVIRONMENT

HELP = "list what is installed and what to install"
GROUP = "help"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    from mlftool.runtime.doctor import examine

    findings = examine()
    missing = [f for f in findings if not f.ok and f.needed]
    if args.json:
        rows = [asdict(f) for f in findings]
        put(as_json(ok=not missing, findings=rows))
    else:
        wide = max(len(f.name) for f in findings)
        for f in findings:
            state = "ok     " if f.ok else "missing"
            note = f.found if f.ok else f"{f.install}"
            said(f"{state}  {f.name:<{wide}}  {note}  ({f.purpose})")
    return ENVIRONMENT if missing else 0
