"""A bound on the time and memory that a file may cost, so that none can stop a build server.

Time is processor time: a busy machine is no reason to refuse. What is allowed grows with the model,
since large ones take longer for good reasons.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from mlftool.errors import MlfError, Problem
from mlftool.signals import never_ignored

SECONDS = 20
NODES_MIB, SECONDS_PER_MIB = 16, 16  # the first bytes may all be nodes, which take long
SECONDS_PER_MIB_OF_WEIGHTS = 1
MEMORY_MIB, MEMORY_PER_BYTE = 2048, 24  # the model as protobuf, as arrays, packed and as text
_HELP = (
    "if the model is correct, raise the limits: --max-seconds N, --max-memory MIB; 0 is no limit"
)
Files = tuple[Path, Sequence[Path]]  # a model and its data


class _TooLongError(BaseException):
    """No Exception: code that tries one thing and then another must not catch it."""


@contextmanager
def bounded(
    model: Path,
    data: Sequence[Path] = (),
    seconds: int | None = None,
    memory: int | None = None,
    others: Sequence[Files] = (),
    help_: str = _HELP,
) -> Iterator[None]:
    """Ends what runs inside after `seconds` of processor time or when it has taken `memory` MiB;
    None depends on the size of `model` and its `data`, and of `others` that are compiled with it; 0
    is no limit. Raises MlfError, which says `help_`.

    Signals reach the main thread only: in another one nothing is bounded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    size = sum(_size(*files) for files in ((model, data), *others))
    if seconds is None:
        mib = -(-size // (1 << 20))
        seconds = SECONDS + SECONDS_PER_MIB * min(mib, NODES_MIB)
        seconds += SECONDS_PER_MIB_OF_WEIGHTS * max(0, mib - NODES_MIB)
    if memory is None:
        memory = MEMORY_MIB + MEMORY_PER_BYTE * size // (1 << 20)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    lowered = False
    handler = signal.signal(signal.SIGPROF, _stop)
    try:
        # Once more every second, should code in C have swallowed the first.
        signal.setitimer(signal.ITIMER_PROF, seconds, 1 if seconds else 0)
        if memory:
            allowed = _taken() + (memory << 20)
            lowered = before[0] == resource.RLIM_INFINITY or allowed < before[0]
            if lowered:
                resource.setrlimit(resource.RLIMIT_DATA, (allowed, before[1]))
        with never_ignored(_TooLongError):
            yield
    except _TooLongError:
        text = f"takes more than {seconds} seconds of processor time to compile"
        raise MlfError(Problem("MLF0705", text, str(model), help=help_)) from None
    except (MemoryError, MlfError) as error:
        if not lowered or not _memory_is_all(error):
            raise  # the machine has no more
        text = f"takes more than {memory} MiB of memory to compile"
        raise MlfError(Problem("MLF0705", text, str(model), help=help_)) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        resource.setrlimit(resource.RLIMIT_DATA, before)


def is_exhausted() -> bool:
    """Whether more than half of the data is taken that this process may have. Code in C that gets
    no memory may raise anything: protobuf a DecodeError or a SystemError, others a TypeError."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return allowed != resource.RLIM_INFINITY and 2 * _taken() > allowed


def _stop(_: int, __: FrameType | None) -> NoReturn:
    raise _TooLongError


def _memory_is_all(error: BaseException) -> bool:
    if isinstance(error, MlfError):  # compiling turned it into an MlfError (mlftool/crash.py)
        return any(p.code == "MLF0703" for p in error.problems)
    return isinstance(error, MemoryError)


def _size(model: Path, data: Sequence[Path]) -> int:
    """Bytes of a model and its data; without `data`, of all files in its folder if it names any."""
    try:
        files = [model, *data]
        if not data and _names_data(model):
            files = [entry for entry in model.parent.iterdir() if entry.is_file()]
        return sum(file.stat().st_size for file in files if file.is_file())
    except (OSError, ValueError):  # a NUL in the name
        return 0  # the importer reports it


def _names_data(model: Path) -> bool:
    """Whether the model may have external data, as far as its bytes tell; without reading what is
    larger than a model can be."""
    if not model.is_file() or not 0 < model.stat().st_size < 2**31:
        return False
    word, end = b"location", b""
    with model.open("rb") as file:
        while part := file.read(1 << 20):
            if word in end + part:
                return True
            end = part[-len(word) :]
    return False


def _taken() -> int:
    """Bytes of data that this process has now."""
    try:
        fields = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 1 << 30
    return int(fields[5]) * os.sysconf("SC_PAGE_SIZE")
