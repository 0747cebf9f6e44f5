"""`mlftool man [COMMAND]`: the manual page of a command, or all of them into a folder."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mlftool.cli.terminal import put
from mlftool.cli.usage import HelpFormatter
from mlftool.errors import MlfError, Problem, did_you_mean

HELP = "print a command's manual page, or write all of them"
GROUP = "help"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="COMMAND", nargs="?", help="print its page (mlftool's own)")
    parser.add_argument("--all", metavar="DIR", type=Path,
        help="write every page, such as mlftool-run.1, into a man1 of your MANPATH")  # fmt: skip
    parser.epilog = (
        "    mlftool man profile | man -l -\n    mlftool man --all ~/.local/share/man/man1"
    )


def run(args: argparse.Namespace) -> int:
    from mlftool.cli import COMMANDS
    from mlftool.mlf import make_folder, write_atomically

    if args.name is not None and args.name not in COMMANDS:
        text = f"there is no command '{args.name}'"
        raise MlfError(Problem("MLF0400", text, help=did_you_mean(args.name, COMMANDS)))
    if args.all is None:
        put(page(args.name) if args.name else overview(), end="")
        return 0
    if args.name is not None:
        raise MlfError(Problem("MLF0405", f"--all writes every page; got '{args.name}', too"))
    made = {"mlftool": overview(), **{f"mlftool-{name}": page(name) for name in COMMANDS}}
    make_folder(args.all)
    for name, text in made.items():
        write_atomically(args.all / f"{name}.1", text.encode())
    return 0


def overview() -> str:
    """The page of mlftool(1), with a line for each command."""
    from mlftool.cli import ABOUT, GROUPED

    lines = [*_head("mlftool", ABOUT), ".SH SYNOPSIS"]
    lines += [".B mlftool", r"\fICOMMAND\fR [\fIOPTIONS\fR]", ".SH COMMANDS"]
    for title, commands in GROUPED.items():
        lines.append(f".SS {_escaped(title.capitalize())}")
        for name, text in commands.items():
            lines += [".TP", rf"\fBmlftool\-{_escaped(name)}\fR(1)", _escaped(text)]
    return "\n".join([*lines, *_ends()]) + "\n"


def page(command: str) -> str:
    """The page of one command, from what its parser knows."""
    from mlftool.cli import COMMANDS, parser_of

    parser = parser_of(command)
    parser.formatter_class = partial(HelpFormatter, width=78)  # whatever the terminal's
    lines = [*_head(f"mlftool-{command}", COMMANDS[command]), ".SH SYNOPSIS", ".nf"]
    usage = parser.format_usage().removeprefix("usage: ").splitlines()
    lines += [*map(_escaped, usage), ".fi", *_options(parser)]
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for action in inner:
        for name, leaf in action.choices.items():
            if leaf.prog.endswith(f" {name}"):  # not by its other names
                lines += [f".SH {_escaped(name.upper())}", *_options(leaf, ".SS")]
    if parser.epilog:
        lines += [".SH EXAMPLES", ".nf", _escaped(parser.epilog), ".fi"]
    return "\n".join([*lines, *_ends()]) + "\n"


def _options(parser: argparse.ArgumentParser, head: str = ".SH") -> Iterator[str]:
    words = [a for a in parser._actions if not isinstance(a, argparse._SubParsersAction)]
    shown = [a for a in words if a.help != argparse.SUPPRESS]
    for title, kind in (("ARGUMENTS", False), ("OPTIONS", True)):
        listed = [a for a in shown if bool(a.option_strings) is kind]
        yield from [f"{head} {title}"] if listed else []
        for action in listed:
            yield ".TP"
            yield rf"\fB{_escaped(_called(action))}\fR"
            yield _escaped((action.help or "").replace("%%", "%") or "see the synopsis")


def _called(action: argparse.Action) -> str:
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = str(action.metavar or choices or action.dest.upper())
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def _head(name: str, text: str) -> list[str]:
    from mlftool.version import VERSION

    title = f'.TH {_escaped(name.upper())} 1 "" "mlftool {VERSION}" "mlftool"'
    return [title, ".SH NAME", rf"{_escaped(name)} \- {_escaped(text)}"]


def _ends() -> list[str]:
    codes = (
        ("0", "all is well"),
        ("1", "a check, comparison or budget failed"),
        ("2", "bad input: what was given is wrong"),
        ("3", "something on this machine is missing or full"),
        ("4", "a bug of mlftool"),
        ("130", "ended by Ctrl-C"),
    )
    return [".SH EXIT STATUS", *(f".TP\n.B {code}\n{_escaped(text)}" for code, text in codes)]


def _escaped(text: str) -> str:
    """Text that troff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^(?=\.|\\\(aq)", r"\\&", text, flags=re.MULTILINE)
