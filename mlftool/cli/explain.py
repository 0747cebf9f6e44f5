"""`mlftool explain CODE`: an error code at length."""

from __future__ import annotations

import argparse

from mlftool.cli.terminal import as_json, put, said

HELP = "explain an error code: cause, example, remedy"
GROUP = "help"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "code", metavar="MLFnnnn", nargs="?", help="a code; without one, all are listed"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from mlftool import explain
    from mlftool.errors import CODES

    codes = list(CODES) if args.code is None else [explain.code_of(args.code)]
    if args.json:
        found = [explain.to_json(code) for code in codes]
        put(as_json(codes=found))
    elif args.code is None:
        said("\n".join(f"{code}  {text}" for code, text in CODES.items()))
    else:
        said(explain.text(codes[0]))
    return 0
