"""What a person sees beside a command's data: progress, colours, and where in a file a problem is.

All of it goes to stderr. A terminal gets a line that moves once the command takes longer than a
second, by rich if that is installed; a log gets a line after five seconds without one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from mlftool.cli import formats
from mlftool.cli.formats import FORMATS
from mlftool.errors import ENVIRONMENT, MlfError, Problem, one_line, shown
from mlftool.frozen import frozen
from mlftool.progress import Listener, heard_by
from mlftool.width import folded

SOON_S, LATER_S = 1.0, 5.0
BEAT_S = 0.2
COLORS = ("auto", "always", "never")


def printed(*lines: object) -> None:
    """Prints what a command has to say on stdout, to the last byte. A command that also writes
    files does this first, so that none is there where stdout cannot be written. A reader that went
    away has read enough. Raises MlfError."""
    with suppress(BrokenPipeError):
        put("".join(f"{line}\n" for line in lines), end="")


def put(text: str, end: str = "\n") -> None:
    """Prints on stdout, at once. Raises MlfError if it cannot be written, BrokenPipeError if nobody
    reads, which ends the command."""
    with _stdout():
        sys.stdout.write(text + end)  # a closed one is refused even if there is nothing to say
        sys.stdout.flush()


def as_json(**data: object) -> str:
    """What a command prints with --json; new versions only add keys."""
    return json.dumps({"schema_version": 1, **data}, indent=2)


def said(text: str) -> None:
    """Prints a text for people on stdout, at once. A terminal gets lines that fit it."""
    put(folded(text))


def stdout_columns() -> int:
    """Of the terminal that stdout is; 0 if it is none."""
    return _columns(sys.stdout) if sys.stdout and sys.stdout.isatty() else 0


def flush() -> None:
    """Flushes stdout. Raises MlfError if that fails, BrokenPipeError if no process reads."""
    with _stdout():
        sys.stdout.flush()


@contextmanager
def _stdout() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Python would try to write the rest of the buffer, and fail again, when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        text = f"cannot be written: {error.strerror}"
        raise MlfError(Problem("MLF0704", text, "standard output"), ENVIRONMENT) from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command takes, unless it has options of the same names."""
    known = parser._option_string_actions
    add = parser.add_argument
    if "-q" not in known:
        add("-q", "--quiet", action="store_true", help="no progress and no warnings")
        text = "show each step and its time"
        add("-v", "--verbose", dest="steps", action="store_true", help=text)
    if "--format" not in known:
        text = "the format of problems on stderr; sarif and json print one document, no messages"
        add("--format", dest="problems_as", choices=FORMATS, default="text", help=text)
    text = "colours of messages (auto: on a terminal, unless NO_COLOR is set)"
    add("--color", choices=COLORS, default="auto", help=text)


@frozen
class Terminal:
    """How to talk to a person: stderr as it is now, and what the command line asked for."""

    stream: TextIO
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    form: str = "text"  # of problems
    kept: list[Problem] = field(default_factory=list)  # for the one document that some forms are

    @property
    def is_live(self) -> bool:
        """Whether a line may move."""
        return self.stream.isatty() and os.environ.get("TERM", "") != "dumb"

    @property
    def has_color(self) -> bool:
        if self.color == "auto":
            return self.is_live and not os.environ.get("NO_COLOR")
        return self.color == "always"

    def show(self, problems: Iterable[Problem]) -> None:
        """Prints problems; on a terminal with their line of the file."""
        listed = list(problems)
        if self.is_document:
            self.kept.extend(listed)
            return
        if self.quiet:
            listed = [p for p in listed if p.severity == "error"]
        if self.form == "github":
            print(formats.github(listed), end="\n" * bool(listed), file=self.stream, flush=True)
            return
        text = shown(listed, with_source if self.is_live else str)
        if text:
            print(_painted(text) if self.has_color else text, file=self.stream, flush=True)

    @property
    def is_document(self) -> bool:
        """Whether all problems are one document, at the end."""
        return self.form in ("sarif", "json")

    def end(self) -> None:
        """Writes that document."""
        if self.is_document:
            made = formats.sarif if self.form == "sarif" else formats.listed
            print(made(self.kept), file=self.stream, flush=True)
            self.kept.clear()

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Steps of what runs within are shown."""
        if self.quiet or self.is_document:
            yield
            return
        with _Steps(self) as steps, heard_by(steps.step):
            yield


def terminal_of(args: argparse.Namespace | None) -> Terminal:
    """What the command line asked for; before it is read, the defaults."""
    asked = vars(args) if args else {}
    return Terminal(
        sys.stderr,
        bool(asked.get("quiet")),
        bool(asked.get("steps")),
        str(asked.get("color", "auto")),
        str(asked.get("problems_as", "text")),
        asked.setdefault("problems_kept", []),
    )


MOST_BYTES = 1 << 20  # of a file whose line is shown
MOST_COLUMNS = 100


def with_source(problem: Problem) -> str:
    """The problem's text, with its line of the file."""
    first, *rest = str(problem).split("\n")
    return "\n".join([first, *source_lines(problem), *rest])


def source_lines(problem: Problem) -> list[str]:
    """The problem's line of its file and a caret below the column; [] where there is none."""
    if not problem.line:
        return []
    try:
        with Path(problem.file).open("rb") as file:
            lines = file.read(MOST_BYTES).decode("utf-8").splitlines()
        line = lines[problem.line - 1]
    except (OSError, ValueError, IndexError):
        return []
    at = max(0, problem.column - 1)
    if at > len(line) or len(line) > MOST_COLUMNS or one_line(line) != line:
        return []
    number = str(problem.line)
    return [f" {number} | {line}", f" {' ' * len(number)} | {' ' * at}^"]


_KINDS = {"error": "1;31", "warning": "1;33"}


def _painted(text: str) -> str:
    """Severities, helps and carets in colour."""

    def kind(found: re.Match[str]) -> str:
        return f"{found[1]}\x1b[{_KINDS[found[2]]}m{found[2]}{found[3]}\x1b[0m:"

    text = re.sub(r"^(.*?: )(error|warning)(\[MLF\d{4}\]):", kind, text, flags=re.MULTILINE)
    text = re.sub(r"^help:", "\x1b[1;36mhelp\x1b[0m:", text, flags=re.MULTILINE)
    return re.sub(r"^( +\| +)\^$", "\\1\x1b[1;31m^\x1b[0m", text, flags=re.MULTILINE)


class _Steps:
    """The steps that are being done, the inner ones last, and a thread that shows them."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._steps: list[_Step] = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._line = _line_for(terminal)
        self._process = os.getpid()
        self._since = self._spoke = time.monotonic()

    def __enter__(self) -> _Steps:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def _is_forked(self) -> bool:
        """Whether this is another process, which leaves the line to the one that began it."""
        return os.getpid() != self._process

    @property
    def step(self) -> Listener:
        return self._step

    def _step(self, what: str) -> AbstractContextManager[None]:
        return self._doing(_Step(one_line(what), time.monotonic()))

    @contextmanager
    def _doing(self, step: _Step) -> Iterator[None]:
        with self._lock:
            self._steps.append(step)
        if self._terminal.verbose and not self._terminal.is_live:
            print(step.what, file=self._terminal.stream, flush=True)
            step.told = True
        elif not self._thread.is_alive() and not self._over.is_set() and not self._is_forked:
            with contextlib.suppress(RuntimeError):  # it has run, or no thread can be had
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._steps.remove(step)
                self._line("")  # the command may print next
            if self._terminal.verbose:
                self._tell(f"{step.what}: {time.monotonic() - step.since:.1f} s")

    def _tell(self, text: str) -> None:
        with self._lock:
            self._line("")
            print(text, file=self._terminal.stream, flush=True)

    def _run(self) -> None:
        while not self._over.wait(BEAT_S):
            with self._lock:
                if self._steps:
                    self._shown(self._steps)
        with self._lock:
            self._line("")

    def _shown(self, steps: Sequence[_Step]) -> None:
        step, now = steps[-1], time.monotonic()
        took = now - step.since
        if self._terminal.is_live:
            # Many short steps are a long silence, too.
            is_long = now - self._since > SOON_S
            what = ": ".join(s.what for s in steps)
            self._line(f"{what} ({took:.0f} s)" if is_long else "")
        elif now - self._spoke > LATER_S and took > min(SOON_S, LATER_S) and not step.told:
            step.told, self._spoke = True, now
            print(f"mlftool: {step.what} ...", file=self._terminal.stream, flush=True)


@dataclass(eq=False)
class _Step:
    what: str
    since: float
    told: bool = False  # to a log


def _line_for(terminal: Terminal) -> Callable[[str], None]:
    """What shows a text in the place of the last one, and nothing of ""."""
    if not terminal.is_live:
        return lambda text: None
    try:
        return _RichLine(terminal.stream)
    except ImportError:
        return _PlainLine(terminal.stream)


class _PlainLine:
    """A line without rich: written over itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    def __call__(self, text: str) -> None:
        if not text and not self._width:
            return
        text = text[: _columns(self._stream) - 1]
        end = "" if text else "\r"
        self._stream.write(f"\r{text.ljust(self._width)}{end}")
        self._stream.flush()
        self._width = len(text)


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80  # a new terminal has none yet
    except (OSError, ValueError):
        return 80


class _RichLine:
    """The same with a spinner. What the command prints is left as it is: rich would wrap it."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        self._live = partial(
            Live,
            console=Console(file=stream),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._stream = stream
        self._spinner, self._text = Spinner("dots"), Text
        self._now: Any = None

    def __call__(self, text: str) -> None:
        if not text:
            if self._now:
                self._now.stop()
                self._now = None
            return
        room = _columns(self._stream) - 3  # of the line that the spinner begins
        self._spinner.update(text=self._text(text[:room]))
        if not self._now:
            self._now = self._live(self._spinner)
            self._now.start()
