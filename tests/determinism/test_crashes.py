"""kill -9 at any instant, and many processes at once on one output and one cache."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import shutil
import signal
import sys
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import mlftool.builder
import mlftool.compile
import mlftool.runtime.host
import mlftool.runtime.runner  # noqa: F401 imported once for all children
from mlftool.cli import main

MODELS = Path(__file__).parents[2] / "examples" / "models"
MANIFEST = """version: 1
models:
  a: {model: gesture_int8.onnx}
  b: {model: vibration_int8.onnx, targets: [host, cortex-m4]}
"""
Tree = dict[str, str]
# Audit events of Python. Most of a run's time is between two of them.
STEPS = {"open", "import", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "subprocess.Popen"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest, and an archive to run; the cache is empty."""
    for model in ("gesture_int8", "vibration_int8"):
        shutil.copyfile(MODELS / f"{model}.onnx", tmp_path / f"{model}.onnx")
    (tmp_path / "models.yaml").write_text(MANIFEST)
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path / "cache"))
    assert (
        main(["compile", str(tmp_path / "gesture_int8.onnx"), "-o", str(tmp_path / "m.tar")]) == 0
    )
    return tmp_path


def build(place: Path, out: Path) -> list[str]:
    return ["build", str(place / "models.yaml"), "-o", str(out), "-j", "2"]


def run(place: Path, out: Path) -> list[str]:
    vectors = MODELS / "gesture_int8.npz"
    return ["run", str(place / "m.tar"), "--inputs", str(vectors), "-o", str(out / "y.npz")]


def start(arguments: Sequence[str], watch: Callable[[], Callable[[], None]] | None = None) -> int:
    """The command in a process and a group of its own; its pid. What `watch` returns there is
    called at each step of the process, and when the command is done."""
    pid = os.fork()
    if pid == 0:
        code = 99
        with contextlib.suppress(BaseException):
            os.setsid()
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            step = at_steps(watch()) if watch else None
            code = main(list(arguments))
            if step:
                step()
        os._exit(code)
    return pid


def at_steps(step: Callable[[], None]) -> Callable[[], None]:
    """Calls `step` whenever this process, in any thread, touches a file or starts a process."""
    own = os.getpid()

    def hear(event: str, _: object) -> None:
        if event in STEPS and os.getpid() == own:
            step()

    sys.addaudithook(hear)
    return step


def end_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def tree(folder: Path) -> Tree:
    """Published files, by digest: what nobody looks at has a dot in front and .tmp behind."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not (p.name.startswith(".") and p.name.endswith(".tmp"))
    }


def undisturbed(arguments: list[str], out: Path) -> Tree:
    out.mkdir()
    assert end_of(start(arguments)) == 0
    return tree(out)


def steps(arguments: list[str], out: Path) -> tuple[Tree, list[float]]:
    """What an undisturbed run makes, and the seconds at which it made its steps and ended."""
    out.mkdir()
    reader, writer = os.pipe()

    def watch() -> Callable[[], None]:
        return lambda: _tell(writer)

    started = time.monotonic()
    pid = start(arguments, watch)
    os.close(writer)
    times = []
    while os.read(reader, 1):
        times.append(time.monotonic() - started)
    os.close(reader)
    assert end_of(pid) == 0
    return tree(out), times


def _tell(writer: int) -> None:
    os.write(writer, b"x")


@dataclass(frozen=True)
class Instant:
    """So many steps, then so many seconds, but at the next step at the latest. So a run dies where
    it was to die, whatever else the machine does. `step` 0 is the start; None is after the end."""

    step: int | None
    seconds: float = 0


def instants(count: int, times: Sequence[float]) -> Iterator[Instant]:
    """Random times of the undisturbed run, the same share of it whenever the tests run; a few come
    too late."""
    rng = random.Random(6)
    for _ in range(count):
        moment = rng.uniform(0, 1.1) * times[-1]
        step = bisect(times, moment)
        late = step == len(times)
        yield Instant(None) if late else Instant(step, moment - [0.0, *times][step])


def start_and_kill(arguments: list[str], instant: Instant) -> int:
    """The pid of a run that is killed at an instant, with all that it started."""
    if instant.step is None:
        return start(arguments)
    reader, writer = os.pipe()

    def watch() -> Callable[[], None]:
        made = itertools.count(1)

        def step() -> None:
            number = next(made)
            if number == instant.step:
                _tell(writer)
            elif number > instant.step:
                os.killpg(0, signal.SIGKILL)

        if instant.step == 0:
            _tell(writer)
        return step

    pid = start(arguments, watch)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    time.sleep(instant.seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return pid


def check_killed(place: Path, command: str, count: int) -> None:
    """Kills `count` runs, but those whose instant is too late; each is followed by one that is left
    alone."""
    make = {"build": build, "run": run}[command]
    whole, times = steps(make(place, place / "whole"), place / "whole")
    assert len(times) > 50
    for k, instant in enumerate(instants(count, times)):
        out = place / f"out{k}"
        out.mkdir()
        shutil.rmtree(place / "cache", ignore_errors=True)
        assert (end_of(start_and_kill(make(place, out), instant)) == 0) == (instant.step is None)
        left = tree(out)
        assert {n: d for n, d in left.items() if whole.get(n) != d} == {}
        assert end_of(start(make(place, out))) == 0
        assert tree(out) == whole
        shutil.rmtree(out)


@pytest.mark.parametrize(("command", "count"), [("build", 12), ("run", 6)])
def test_killed_at_any_instant(command: str, count: int, place: Path) -> None:
    check_killed(place, command, count)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "count"), [("build", 240), ("run", 80)])
def test_killed_at_many_instants(command: str, count: int, place: Path) -> None:
    check_killed(place, command, count)


def test_sixteen_builds_of_one_manifest(place: Path) -> None:
    together(place, "build", rounds=1, processes=16)


def test_eight_runs_share_a_cache(place: Path) -> None:
    together(place, "run", rounds=1, processes=8)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["build", "run"])
def test_four_processes_many_times(command: str, place: Path) -> None:
    together(place, command, rounds=500, processes=4)


def together(place: Path, command: str, rounds: int, processes: int) -> None:
    """All write the same output and the same cache, none fails, and no other byte appears."""
    make = {"build": build, "run": run}[command]
    whole = undisturbed(make(place, place / "whole"), place / "whole")
    for _ in range(rounds):
        out = place / "shared"
        out.mkdir()
        shutil.rmtree(place / "cache", ignore_errors=True)
        pids = [start(make(place, out)) for _ in range(processes)]
        assert [end_of(pid) for pid in pids] == [0] * processes
        assert tree(out) == whole
        assert not [p for p in out.rglob("*.tmp")]
        if command == "run":  # all but one were told that it was there already
            assert not [p for p in (place / "cache").iterdir() if "." in p.name]
        shutil.rmtree(out)
