"""kill -9 at any instant, and many processes at once on one output and one cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
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


def start(arguments: Sequence[str]) -> int:
    """The command in a process and a group of its own; its pid."""
    pid = os.fork()
    if pid == 0:
        code = 99
        with contextlib.suppress(BaseException):
            os.setsid()
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            code = main(list(arguments))
        os._exit(code)
    return pid


def end_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def tree(folder: Path) -> Tree:
    """Published files, by digest: what nobody looks at has a dot in front and .tmp behind."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not (p.name.startswith(".") and p.name.endswith(".tmp"))
    }


def undisturbed(arguments: list[str], out: Path) -> tuple[Tree, float]:
    out.mkdir()
    started = time.monotonic()
    assert end_of(start(arguments)) == 0
    return tree(out), time.monotonic() - started


def instants(count: int, longest: float) -> Iterator[float]:
    """Random, but the same in each run of the tests; a few come too late."""
    rng = random.Random(6)
    return (rng.uniform(0, longest * 1.1) for _ in range(count))


def killed(place: Path, command: str, count: int) -> int:
    """How many of `count` runs were killed; each of them is followed by one that is left alone."""
    make = {"build": build, "run": run}[command]
    whole, longest = undisturbed(make(place, place / "whole"), place / "whole")
    deaths = 0
    for k, instant in enumerate(instants(count, longest)):
        out = place / f"out{k}"
        out.mkdir()
        shutil.rmtree(place / "cache", ignore_errors=True)
        pid = start(make(place, out))
        time.sleep(instant)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        deaths += end_of(pid) != 0
        left = tree(out)
        assert {n: d for n, d in left.items() if whole.get(n) != d} == {}
        assert end_of(start(make(place, out))) == 0
        assert tree(out) == whole
        shutil.rmtree(out)
    return deaths


@pytest.mark.parametrize(("command", "count"), [("build", 12), ("run", 6)])
def test_killed_at_any_instant(command: str, count: int, place: Path) -> None:
    assert killed(place, command, count) >= count // 4


@pytest.mark.slow
@pytest.mark.parametrize(("command", "count"), [("build", 240), ("run", 80)])
def test_killed_at_many_instants(command: str, count: int, place: Path) -> None:
    assert killed(place, command, count) >= count // 2


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
    whole, _ = undisturbed(make(place, place / "whole"), place / "whole")
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
