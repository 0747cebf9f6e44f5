"""The command line: one module per command in this folder, found by name.

A command module defines HELP (a string on one line), GROUP (a key of GROUPS),
add_arguments(parser) and run(args) -> exit code, and nothing else names it. Data go to stdout,
messages to stderr. Modules are imported only when named, so `mlftool --version` and `mlftool
check` never pay for numpy or onnx.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from mlftool.cli import terminal
from mlftool.cli.usage import HelpFormatter
from mlftool.errors import BAD_INPUT, ENVIRONMENT, MlfError, Problem, nearest
from mlftool.signals import interrupt, never_ignored, outside_imports
from mlftool.stopped import stopped
from mlftool.width import within

ABOUT = "ONNX and TensorFlow Lite models to C for microcontrollers"
HELP = re.compile(r'^HELP = "(.*)"\nGROUP = "(.*)"$', re.MULTILINE)

# What a person wants to do, in the order in which a project meets it.
GROUPS = {
    "start": "start a project, check a model",
    "make": "make archives",
    "run": "run, compare, decide",
    "see": "see what it costs, and why",
    "ship": "use the results elsewhere",
    "help": "help",
}


def _commands() -> dict[str, tuple[str, str]]:
    """Each command with its line and its group. Files without them are no commands."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    found = {f.stem: HELP.search(f.read_text(encoding="utf-8")) for f in files}
    return {name: (said[1], said[2]) for name, said in found.items() if said}


_FOUND = _commands()
COMMANDS = {name: text for name, (text, _) in _FOUND.items()}
GROUPED = {
    title: {name: text for name, (text, key) in _FOUND.items() if key == group}
    for group, title in GROUPS.items()
}


# Options that mean nearly the same, of which each command has one.
_ALIKE = (
    ("--on", "--target", "--board"),
    ("--output", "--out", "--output-file", "-o", "--svg", "--all"),
    ("--expect", "--expected", "--reference"),
)


class _Parser(argparse.ArgumentParser):
    """argparse speaks our error format, and exits with our code. Options are written in full: an
    abbreviation such as --on would be --only-declared in a command that has no --on."""

    def __init__(self, **about: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, "allow_abbrev": False, **about})

    def error(self, message: str) -> NoReturn:
        if message.startswith("the following arguments are required") and self._unknown():
            message = f"unrecognized arguments: {self._unknown()}"  # before what it hides
        hint = f"{self._missing(message)}see '{self.prog} --help'"
        if near := self._near(message):
            hint = f"did you mean '{near}'? {hint}"
            message = message.partition(" (choose from ")[0]  # what it was meant to be says enough
        raise MlfError(Problem("MLF0400", message, help=hint))

    def _missing(self, message: str) -> str:
        """What the options are that a message misses."""
        pattern = "the following arguments are required: (.*)|one of the arguments (.*) is required"
        found = re.match(pattern, message)
        names = re.split(r",? ", found[found.lastindex or 0]) if found else []
        asked = {"/".join(a.option_strings): a for a in self._actions if a.option_strings}
        return "".join(
            f"{action.option_strings[0]} {action.metavar or ''}".rstrip() + f": {action.help}; "
            for action in (asked.get(name) for name in names)
            if action and action.help
        )

    def _print_message(self, message: str, file: Any = None) -> None:
        """As argparse's, which ignores a stream that cannot be written."""
        if file is sys.stdout:
            terminal.put(message, end="")
        elif message:
            (file or sys.stderr).write(message)

    def _near(self, message: str) -> str:
        """What a wrong command, option or choice was meant to be; "" if nothing is near."""
        if wrong := re.match(r"unrecognized arguments: (--?[\w-]+)", message):
            known = [flag for flag in self._option_string_actions if flag.startswith("--")]
            for alike in (flags for flags in _ALIKE if wrong[1] in flags):
                return next((flag for flag in alike if flag in known), "")
            # The dashes, which all have, would make any two short ones alike.
            near = nearest(wrong[1].lstrip("-"), (flag.lstrip("-") for flag in known))
            return near and f"--{near}"
        if wrong := re.fullmatch(r"unrecognized arguments: ([^-].*)", message):
            return f"--against {wrong[1]}" if "--against" in self._option_string_actions else ""
        if wrong := re.search(r"invalid choice: '([^']*)' \(choose from ([^)]*)\)", message):
            return nearest(wrong[1], re.findall(r"[\w.-]+", wrong[2]))
        return ""

    _words: Sequence[str] = ()

    def _unknown(self) -> str:
        """The first option given that does not exist; "" if there is none."""
        flags = (w.partition("=")[0] for w in self._words if re.match(r"--\w", w))
        known = self._option_string_actions
        return next((f for f in flags if not any(k.startswith(f) for k in known)), "")

    _is_mixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but options may stand between a required and an optional argument."""
        self._words = args or ()
        if self._is_mixed or not any(a.nargs == "?" for a in self._get_positional_actions()):
            return super().parse_known_args(args, namespace)
        self._is_mixed = True  # argparse calls this method twice, for options and for the rest
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixed = False

    def _parse_optional(self, arg_string):  # type: ignore[no-untyped-def]
        """As argparse's, but a word that an option's choices name is a value: -Os after --flags."""
        if any(arg_string in (a.choices or ()) for a in self._actions if a.option_strings):
            return None
        return super()._parse_optional(arg_string)

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """As argparse's, but the command reports unknown arguments, not the top-level parser."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            words = " ".join(rest)
            getattr(found, "parser", self).error(f"unrecognized arguments: {words}")
        return found


class _Top(_Parser):
    """The one that finds the command. Its help lists all of them."""

    def format_help(self) -> str:
        self.epilog = _listed()
        return super().format_help()


def _parser(name: str | None) -> argparse.ArgumentParser:
    from mlftool import __version__

    top = _Top(
        prog="mlftool",
        description=f"{ABOUT}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    top.add_argument("--version", action="version", version=f"mlftool {__version__}")
    top.add_argument("--json", action="store_true", help="with --version: as JSON")
    text = "one of the commands below; mlftool COMMAND --help describes its options"
    sub = top.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser, help=text
    )
    # A parser takes as long to make as all else of a short command, so there is one, or all for who
    # has to be told what there is.
    for command in [name] if name else COMMANDS:
        parser = sub.add_parser(command, description=COMMANDS[command])
        if name:
            _fill(parser, command)
    return top


def _listed() -> str:
    """All commands by what they are for, as wide as the terminal."""
    room = max(20, shutil.get_terminal_size().columns - 2)
    column = 2 + max(map(len, COMMANDS)) + 2
    lines: list[str] = []
    for title, found in GROUPED.items():
        lines += ["", f"{title}:"] if lines else [f"{title}:"]
        for name, text in found.items():
            first = f"  {name}".ljust(column)
            lines += textwrap.wrap(first + text, room, subsequent_indent=" " * column)
    return "\n".join(lines)


def _fill(parser: argparse.ArgumentParser, command: str) -> None:
    module = importlib.import_module(f"mlftool.cli.{command}")
    module.add_arguments(parser)
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    leaves = {id(leaf): leaf for a in inner for leaf in a.choices.values()}
    for leaf in leaves.values() or [parser]:
        terminal.add_arguments(leaf)
    parser.set_defaults(run=module.run, parser=parser)


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of one command, for those who ask what it takes."""
    parser = _Parser(prog=f"mlftool {command}", description=COMMANDS[command])
    _fill(parser, command)
    return parser


def _versions() -> str:
    """What this is and what it runs on, as JSON."""
    import json
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from mlftool import __version__
    from mlftool.mlf.records import VERSIONS

    found: dict[str, object] = {"schema_version": 1, "mlftool": __version__}
    found |= {"formats": list(VERSIONS), "python": platform.python_version()}
    for package in ("onnx", "numpy", "jinja2", "pyyaml"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return json.dumps(found)


class _StoppedError(BaseException):
    """A signal asked us to end."""

    def __init__(self, number: int) -> None:
        self.number = number


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise _StoppedError(number)


@contextmanager
def _tidy_end() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack as SIGINT does, so that temporary files go."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = outside_imports(_stop)
    old = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGHUP)}
    if signal.getsignal(signal.SIGINT) is stopped:
        old[signal.SIGINT] = signal.signal(signal.SIGINT, outside_imports(interrupt))
    try:
        with never_ignored(_StoppedError, KeyboardInterrupt):
            yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


class _Closed(io.TextIOBase):
    """Replaces a standard output that was closed before we began, so that writing fails."""

    def write(self, text: str) -> int:
        raise MlfError(Problem("MLF0402", "is closed", "standard output"))


def _occupied() -> None:
    """Without a standard error there is nothing to tell, and that is all. Its number, and those of
    other streams that are closed, would else be of the next file that is opened, where programs and
    libraries would write their messages."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8")


def _lossless(stream: TextIO | None) -> None:
    """Lets a stream of another encoding than UTF-8, or a name that is no text, be written escaped,
    as Python's stderr does."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _command_first(argv: list[str]) -> list[str]:
    """What every command takes may also stand before the command, as cargo's and git's may."""
    at = 0
    while at < len(argv) and re.fullmatch(r"-q|--quiet|-v|--verbose|--color(=.*)?", argv[at]):
        at += 2 if argv[at] == "--color" else 1
    is_named = at < len(argv) and not argv[at].startswith("-")
    return [*argv[at:], *argv[:at]] if is_named else argv


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code; no exception leaves this function."""
    argv = _command_first(list(sys.argv[1:] if argv is None else argv))
    _occupied()
    _lossless(sys.stdout)
    name = next((a for a in argv if not a.startswith("-")), None)
    args = None
    try:
        with _tidy_end(), redirect_stdout(sys.stdout or _Closed()):
            try:
                if {"--version", "--json"} == set(argv):
                    terminal.put(_versions())
                    return 0
                args = _parser(name if name in COMMANDS else None).parse_args(argv)
                how = terminal.terminal_of(args)
                args.quiet = how.quiet or how.is_document
                with how.progress(), within(terminal.stdout_columns()):
                    exit_code = int(args.run(args))
                how.end()
                return exit_code
            finally:  # after --help, too, which exits
                terminal.flush()
    except MlfError as error:
        return _told(error, args or _early(argv))
    except BrokenPipeError:
        return 0  # the reader of our stdout went away (`| head`): nothing is wrong
    except KeyboardInterrupt:
        return _ended(signal.SIGINT)
    except _StoppedError as stop:
        return _ended(stop.number)
    except Exception as error:
        if _was_interrupted(error):
            return _ended(signal.SIGINT)
        if missing := _missing_package(error):
            return _told(missing, args)
        from mlftool.crash import as_ours

        ours = as_ours(error)
        ours.__cause__ = error
        return _told(ours, args)


def _early(argv: Sequence[str]) -> argparse.Namespace:
    """What a command line that cannot be read says of colours."""
    words = " ".join(a for a in argv if "=" not in a or a.startswith("--color=")).replace("=", " ")
    said = re.search(rf"(?:^| )--color ({'|'.join(terminal.COLORS)})(?: |$)", words)
    return argparse.Namespace(color=said[1] if said else "auto")


def _told(error: MlfError, args: argparse.Namespace | None) -> int:
    """Prints problems. Returns the exit code."""
    from mlftool.cli.nearby import with_remedy
    from mlftool.crash import print_cause

    print_cause(error)
    how = terminal.terminal_of(args)
    how.show(map(with_remedy, error.problems))
    how.end()
    return error.exit_code


def _missing_package(error: Exception) -> MlfError | None:
    """What to install, if a package of others is not there."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    package = (name or "mlftool").partition(".")[0]
    if package == "mlftool":
        return None
    text = f"Python's package '{package}' is not installed"
    help = "pip install mlftool brings it; `mlftool doctor` lists what else is missing"
    return MlfError(Problem("MLF0700", text, help=help), ENVIRONMENT)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C caused it: numpy, while it is imported, makes an ImportError of that."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _ended(number: int) -> int:
    """Says that a signal ended the command, and returns its exit code."""
    with suppress(OSError, ValueError):  # the terminal may be what went away
        print(f"mlftool: ended by {signal.Signals(number).name}", file=sys.stderr, flush=True)
    return 128 + number


__all__ = ["BAD_INPUT", "COMMANDS", "main"]
