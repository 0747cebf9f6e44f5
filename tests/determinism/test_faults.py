"""A disk that is full, broken or read-only, at any call of any command: nothing is half written,
the message names the path, and the next run is right.

tests/cli/test_interrupted.py does it to Python's functions and `compile`; here calls of the C
library fail, whoever makes them.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples" / "models"
HERE = Path(__file__).parent
SHORT_WRITE = 0  # half of the data is taken, which is no error
HARMLESS = (SHORT_WRITE, errno.EINTR)
MACHINE = (errno.ENOSPC, errno.EIO, errno.EMFILE)
USERS = (errno.EACCES, errno.EROFS)
ALL = (*HARMLESS, *MACHINE, *USERS)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("shim") / "faults.so"
    flags = ("-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC")
    command = ["cc", *flags, str(HERE / "faults.c"), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True)
    return library


def check(
    command: str, errors: tuple[int, ...], step: int, folder: Path, shim: Path
) -> list[dict[str, Any]]:
    """Runs the command with each fault and judges what it did; the runs in which there was one."""
    for name in ("gesture_int8.onnx", "gesture_int8.npz"):
        shutil.copyfile(MODELS / name, folder / name)
    packages = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    numbers = ",".join(map(str, errors))
    files = (folder, folder / "gesture_int8.onnx", folder / "gesture_int8.npz")
    run = subprocess.run(
        [sys.executable, HERE / "faulty.py", shim, *files, command, numbers, str(step)],
        env={**os.environ, "PYTHONPATH": packages, "LD_PRELOAD": str(shim)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert sum(not r["fired"] for r in results) == len(errors)  # each went on to the end
    for r in results:
        judge(r, str(folder / "out"))
    return [r for r in results if r["fired"]]


def judge(r: dict[str, Any], out: str) -> None:
    assert r["broken"] == [], r  # a file that is none of an undisturbed run's, or has other bytes
    assert (r["again"], r["whole"]) == (0, True), r
    if r["code"] == 0:
        return  # a stamp is missing at worst: the next run writes it, as has been seen
    assert r["errno"] not in HARMLESS, r
    assert r["code"] in ((3,) if r["errno"] in MACHINE else (2, 3)), r
    lines = [line for line in r["said"].splitlines() if ": error[" in line]
    assert len(lines) == 1, r
    assert lines[0].startswith(out), r
    assert lines[0].endswith(os.strerror(r["errno"])), r
    assert "MLF0900" not in r["said"], r


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("command", "errors", "step"),
    [
        ("compile", ALL, 3),  # each call with two or three of the seven errors
        ("build", (errno.ENOSPC,), 5),
        ("extract", (errno.EIO, SHORT_WRITE), 29),
        ("run", (errno.ENOSPC,), 61),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_call_fails(
    command: str, errors: tuple[int, ...], step: int, tmp_path: Path, shim: Path
) -> None:
    found = check(command, errors, step, tmp_path, shim)
    assert {r["errno"] for r in found} == {*errors}
    tried = {r["n"] for r in found}
    assert len(errors) < step or tried == set(range(1, max(tried) + 1))
    assert any(r["code"] for r in found)


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "step"), [("compile", 1), ("build", 1), ("extract", 1), ("run", 5)]
)
def test_every_call_fails(command: str, step: int, tmp_path: Path, shim: Path) -> None:
    found = check(command, ALL, step, tmp_path, shim)
    assert len(found) > 100


def test_temporary_folders_may_be_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Objects are compiled in a folder of their own, which is nobody's output."""
    import mlftool.objects
    from mlftool.cli import main

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/scratch/mlftool-x")

    monkeypatch.setattr(mlftool.objects.tempfile, "TemporaryDirectory", full)
    model, out = MODELS / "gesture_int8.onnx", tmp_path / "m.tar"
    assert main(["compile", str(model), "-o", str(out), "--target", "llvm"]) == 3
    said = "/scratch/mlftool-x: error[MLF0704]: refused: No space left on device\n"
    assert capsys.readouterr().err == said + "help: make room, then try again\n"
    assert not out.exists()
