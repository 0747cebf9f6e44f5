"""The compiler as Bazel's persistent worker: `worker proto|json --persistent_worker|@PARAMS`.

The worker imports everything once. Each request then runs in a forked child, so that every one
starts from the same state, a crash ends nothing but the child, requests may overlap (multiplex
workers), and one that is cancelled is killed with the compilers it has started. *Not* threads: what
one request does to the process, its working directory or its memory, would be there for the next.

Without `--persistent_worker`, PARAMS holds the arguments of the one request, a line each.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import onnx.parser

import mlftool.cli
import mlftool.cli.compile
import mlftool.compile
from mlftool.crash import as_ours, show
from mlftool.errors import ENVIRONMENT, INTERNAL, MlfError, Problem
from mlftool.mlf import tar_bytes
from rules.private.tools import package, unpack
from rules.private.tools.worker_protocol import CODECS, Codec, WorkResponse

# How long a cancelled request has to take its temporary files away.
_GRACE_SECONDS = 5.0
# Of what a request prints; a compiler that talks without end must not fill the memory.
_MOST_OUTPUT = 1 << 20


def run(arguments: list[str]) -> int:
    """One request, in this process: `package ...` or what follows `mlftool`.

    After `unpacked` come the archive, the C files of it that are to be written, `--` and the
    request for it: it is unpacked in the same process.
    """
    if arguments[:1] == ["unpacked"]:
        end = arguments.index("--")
        archive, *sources = map(Path, arguments[1:end])
        return run(arguments[end + 1 :]) or unpack.beside(archive, sources)
    if arguments[:1] == ["package"]:
        return package.main(arguments[1:])
    return mlftool.cli.main(arguments)


@dataclass
class _Job:
    """A request in its child process."""

    request_id: int
    process: int
    pipe: int  # what the child prints
    output: bytearray = field(default_factory=bytearray)
    killed_at: float = 0.0  # when a cancelled one loses patience
    cancelled: bool = False


class _StoppedError(Exception):
    """Bazel wants this worker to end."""


@contextlib.contextmanager
def _stop_signal() -> Iterator[int]:
    """A file descriptor that is ready once SIGTERM has come.

    Deliberately no exception from the handler: it may run where exceptions are swallowed, such as
    in what Python does around a fork.
    """
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(tell)
    yield told
    signal.set_wakeup_fd(-1)


class Worker:
    """Reads requests from `source`, writes answers to `sink`; `stop` is ready when we must end."""

    def __init__(self, source: int, sink: int, stop: int, codec: Codec) -> None:
        self._source, self._sink, self._stop, self._codec = source, sink, stop, codec
        self._jobs: dict[int, _Job] = {}  # by pipe
        self._ready = selectors.DefaultSelector()

    def serve(self) -> None:
        """Until the source ends and all is answered. Raises MlfError if the source is malformed."""
        self._ready.register(self._source, selectors.EVENT_READ)
        self._ready.register(self._stop, selectors.EVENT_READ)
        try:
            while len(self._ready.get_map()) > 1:
                for key, _ in self._ready.select(self._patience()):
                    if key.fd == self._stop:
                        raise _StoppedError
                    if key.fd == self._source:
                        self._read()
                    else:
                        self._listen(self._jobs[key.fd])
                self._kill_the_stubborn()
        finally:
            self._end_all()

    def _read(self) -> None:
        data = os.read(self._source, 1 << 16)
        if not data:
            self._ready.unregister(self._source)
            self._codec.close()
        for request in self._codec.feed(data):
            if request.cancel:
                self._cancel(request.request_id)
            else:
                self._start(request)

    def _start(self, request: Any) -> None:
        pipe, childs_end = os.pipe()
        # Until the child is itself, a signal to it would look like one to us.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            process = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
            os.close(pipe)
            os.close(childs_end)
            problem = Problem("MLF0703", f"cannot start a process: {error.strerror}")
            self._answer(request.request_id, ENVIRONMENT, f"{problem}\n")
            return
        if process == 0:
            _child(request, childs_end, self._sink)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.close(childs_end)
        with contextlib.suppress(OSError):  # the child does the same; the first one wins
            os.setpgid(process, process)
        self._jobs[pipe] = _Job(request.request_id, process, pipe)
        self._ready.register(pipe, selectors.EVENT_READ)

    def _listen(self, job: _Job) -> None:
        data = os.read(job.pipe, 1 << 16)
        job.output += data[: _MOST_OUTPUT - len(job.output)]
        if not data:
            self._finish(job)

    def _finish(self, job: _Job) -> None:
        """The child has closed its pipe, which it does by ending."""
        self._ready.unregister(job.pipe)
        os.close(job.pipe)
        del self._jobs[job.pipe]
        _, status = os.waitpid(job.process, 0)
        code, text = os.waitstatus_to_exitcode(status), job.output.decode(errors="replace")
        if code < 0 and not job.cancelled:
            name = signal.Signals(-code).name
            text += f"{Problem('MLF0701', f'the compiling process was ended by {name}')}\n"
            code = ENVIRONMENT
        self._answer(job.request_id, abs(code), text, job.cancelled)

    def _answer(self, request_id: int, code: int, text: str, cancelled: bool = False) -> None:
        response = WorkResponse(request_id=request_id, was_cancelled=cancelled)
        if not cancelled:
            response.exit_code, response.output = code, text
        rest = memoryview(self._codec.encode(response))
        while rest:
            rest = rest[os.write(self._sink, rest) :]

    def _cancel(self, request_id: int) -> None:
        """A request that has ended meanwhile has been answered: nothing to say then."""
        for job in self._jobs.values():
            if job.request_id == request_id and not job.cancelled:
                job.cancelled, job.killed_at = True, time.monotonic() + _GRACE_SECONDS
                _kill(job, signal.SIGTERM)

    def _patience(self) -> float | None:
        """Seconds until a cancelled request must be killed; None: wait as long as it takes."""
        ends = [job.killed_at for job in self._jobs.values() if job.cancelled]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _kill_the_stubborn(self) -> None:
        for job in self._jobs.values():
            if job.cancelled and time.monotonic() >= job.killed_at:
                _kill(job, signal.SIGKILL)

    def _end_all(self) -> None:
        """The answers have no reader any more; no child may go on writing files."""
        for job in self._jobs.values():
            _kill(job, signal.SIGTERM)
        end = time.monotonic() + _GRACE_SECONDS
        while self._jobs and time.monotonic() < end:
            ended = [j for j in self._jobs.values() if os.waitpid(j.process, os.WNOHANG)[0]]
            for job in ended:
                del self._jobs[job.pipe]
            time.sleep(0.01)
        for job in self._jobs.values():
            _kill(job, signal.SIGKILL)
        self._jobs.clear()


def _kill(job: _Job, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.process, number)


def _child(request: Any, output: int, sink: int) -> NoReturn:
    """Runs the request with the standard streams of an ordinary program, and ends."""
    code = INTERNAL
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.close(sink)
        if request.sandbox_dir:
            os.chdir(request.sandbox_dir)
        code = run(list(request.arguments))
    except SystemExit as end:  # --help, for one
        code = end.code if isinstance(end.code, int) else INTERNAL
    except BaseException as error:
        show(as_ours(error))
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


@contextlib.contextmanager
def _protocol_streams() -> Iterator[tuple[int, int]]:
    """Stdin and stdout of the protocol; what is printed by mistake goes to the worker's log."""
    sink = os.dup(1)
    os.dup2(2, 1)
    yield 0, sink
    os.close(sink)


# Most models have a contraction; its templates are half of what a request would read for itself.
_SMALL = """<ir_version: 8, opset_import: ["": 17]>
small (float[1, 4] x) => (float[1, 2] y) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
    m = MatMul(x, w)
    y = Relu(m)
}"""


def _warm_up() -> None:
    """Warm up by compiling a model: what that reads and computes once, no request does again."""
    model = onnx.parser.parse_model(_SMALL)
    tar_bytes(mlftool.compile.compile_modules([mlftool.compile.ModuleSpec(model)]))


def persist(protocol: str) -> int:
    """Serves until Bazel closes our input or stops us."""
    _warm_up()
    # What lives now lives for ever: children then share its memory instead of copying it.
    gc.collect()
    gc.freeze()
    try:
        with _protocol_streams() as (source, sink), _stop_signal() as stop:
            Worker(source, sink, stop, CODECS[protocol]()).serve()
    except MlfError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except (_StoppedError, BrokenPipeError):
        return 128 + signal.SIGTERM
    return 0


def main(arguments: list[str]) -> int:
    """Exit code as the command line's."""
    # Bazel says that it wants a worker, but not in which protocol it will speak: the rule does.
    protocol, last = arguments
    if last == "--persistent_worker":
        return persist(protocol)
    return run(Path(last[1:]).read_text().split("\n")[:-1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
