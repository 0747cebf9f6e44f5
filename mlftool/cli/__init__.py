"""The command line: one module per command beside this file, found by name.

A command module defines HELP (one line), add_arguments(parser) and run(args) -> exit code. Data go
to stdout, talk goes to stderr. Modules are imported only when named, so `mlftool --version` and
`mlftool check` never pay for numpy or onnx.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from mlftool.errors import BAD_INPUT, ENVIRONMENT, INTERNAL, MlfError, Problem

# command -> the line `mlftool --help` shows; the module of the same name does the work.
COMMANDS: dict[str, str] = {
    "compile": "compile one ONNX model to an MLF archive",
    "build": "build every entry of a manifest, without Bazel",
    "bazel": "write a manifest's Bazel targets as a BUILD file to commit",
    "check": "report every problem of a manifest or model; writes nothing",
    "tune": "count which kernels are best for a model, for a record to commit",
    "run": "run a model or archive on the host or a simulated board, and compare",
    "runner": "write the C descriptor of a module for the test runner",
    "inspect": "show what an archive holds",
    "extract": "take files out of an archive",
    "schema": "print the JSON Schema of manifests, for editors",
    "doctor": "say what is installed and what to install",
}


class _Parser(argparse.ArgumentParser):
    """argparse speaks our error format, and exits with our code."""

    def error(self, message: str) -> NoReturn:
        raise MlfError(Problem("MLF0400", message, help=f"see '{self.prog} --help'"))


def _parser(name: str | None) -> argparse.ArgumentParser:
    top = _Parser(prog="mlftool", description="ONNX models to C for microcontrollers.")
    from mlftool import __version__

    top.add_argument("--version", action="version", version=f"mlftool {__version__}")
    sub = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for command, text in COMMANDS.items():
        parser = sub.add_parser(command, help=text, description=text)
        if command == name:
            module = importlib.import_module(f"mlftool.cli.{command}")
            module.add_arguments(parser)
            parser.set_defaults(run=module.run)
    return top


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
    old = {n: signal.signal(n, _stop) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code; no exception leaves this function."""
    argv = list(sys.argv[1:] if argv is None else argv)
    name = next((a for a in argv if not a.startswith("-")), None)
    try:
        with _tidy_end():
            args = _parser(name if name in COMMANDS else None).parse_args(argv)
            return int(args.run(args))
    except MlfError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our stdout went away (`| head`): nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except _StoppedError as stop:
        return 128 + stop.number
    except MemoryError:
        print(Problem("MLF0703", "not enough memory"), file=sys.stderr)
        return ENVIRONMENT
    except Exception as error:
        if problem := _of_the_machine(error):
            print(problem, file=sys.stderr)
            return ENVIRONMENT
        if os.environ.get("MLF_DEBUG"):
            raise
        where = error.__traceback__
        while where and where.tb_next:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else "?"
        text = f"{type(error).__name__} at {os.path.basename(place)}: {error}"
        print(
            Problem("MLF0900", text, help="run again with MLF_DEBUG=1 for details"), file=sys.stderr
        )
        return INTERNAL


def _of_the_machine(error: Exception) -> Problem | None:
    """A full disk under a temporary folder and its like; what a command writes says so itself."""
    from mlftool.mlf.bundle import MACHINE_ERRORS

    if not isinstance(error, OSError) or error.errno not in MACHINE_ERRORS:
        return None
    place = os.fsdecode(error.filename) if error.filename else "temporary files"
    return Problem("MLF0704", f"refused: {error.strerror}", place, help="make room, then try again")


__all__ = ["BAD_INPUT", "COMMANDS", "main"]
