"""What a compile may cost at most: it ends with one line and writes nothing."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from shared import REPO

from mlftool import limits
from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.limits import MEMORY_MIB, SECONDS, bounded


def long_chain(path: Path, nodes: int = 20_000) -> Path:
    """Takes longer than a second, as every model of so many nodes."""
    net = Net()
    y = net.input("x", np.float32, (2, 3))
    for k in range(nodes):
        y = net.node(
            "MatMul" if k % 2 else "Softmax", y, *([net.const(np.eye(3), np.float32)] * (k % 2))
        )
    onnx.save(net.model(y), path)
    return path


def compile_within(model: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlftool", "compile", str(model), "-o", "out.tar", *arguments]
    where = {"PYTHONPATH": ":".join([str(REPO), *filter(None, sys.path)]), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=model.parent, capture_output=True, text=True, env=where)


def test_a_compile_ends_in_time(tmp_path: Path) -> None:
    model = long_chain(tmp_path / "m.onnx")
    done = compile_within(model, "--max-seconds", "1")
    *progress, first, second = done.stderr.splitlines()
    # What a compile says on a machine so busy that a second of its processor takes many.
    assert progress in ([], ["mlftool: compiling m for host ..."])
    said = "takes more than 1 seconds of processor time to compile"
    assert first == f"{model}: error[MLF0705]: {said}"
    assert second.startswith("help: if the model is correct, raise the limits: --max-seconds N")
    assert done.returncode == 2
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_a_build_ends_in_time_and_builds_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    long_chain(tmp_path / "long.onnx")
    long_chain(tmp_path / "short.onnx", 2)
    manifest = tmp_path / "m.yaml"
    models = "models:\n  big: {model: long.onnx}\n  small: {model: short.onnx}\n"
    manifest.write_text("version: 1\ndefaults: {targets: [host]}\n" + models)
    monkeypatch.setattr(limits, "SECONDS", 2)
    monkeypatch.setattr(limits, "SECONDS_PER_MIB", 0)
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        assert main(["build", str(manifest), "-o", str(out), "-j", jobs]) == 2
        said = capfd.readouterr().err
        assert f"{tmp_path / 'long.onnx'}: error[MLF0705]: takes more than 2 seconds" in said
        assert "help: if the model is correct, compile it alone" in said
        assert [p.parent.name for p in out.rglob("*.tar")] == ["small"], said


def test_a_compile_ends_before_the_memory_does(tmp_path: Path) -> None:
    taken: list[bytearray] = []

    def take() -> None:
        with bounded(tmp_path / "m", (), 0, 64):
            while len(taken) < 4096:
                taken.append(bytearray(1 << 20))

    with pytest.raises(MlfError, match="takes more than 64 MiB of memory"):
        take()
    assert 32 < len(taken) < 1024  # what earlier tests gave back is taken again first


def test_large_models_may_take_more(tmp_path: Path) -> None:
    """Declared data count, and what lies beside a model that names data."""
    model, data = tmp_path / "m.onnx", tmp_path / "m.data"
    model.write_bytes(b"location")
    with data.open("wb") as stream:
        stream.truncate(500 << 20)
    for given in ((), (data,)):
        with bounded(model, given):
            mib = (resource.getrlimit(resource.RLIMIT_DATA)[0] >> 20) - MEMORY_MIB
        assert mib > 24 * 500


class Slow:
    """Its destructor is where the program is when the time is over."""

    def __del__(self) -> None:
        end = time.process_time() + 2
        while time.process_time() < end:
            pass


def test_time_ends_in_a_destructor(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Python prints what a destructor raises, and goes on."""

    def forever() -> None:
        with bounded(tmp_path / "m", (), 1, 0):
            Slow()
            while True:
                pass

    with pytest.raises(MlfError, match="MLF0705"):
        forever()
    assert capfd.readouterr() == ("", "")


def test_limits_are_taken_back(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)

    def forever() -> None:
        with bounded(tmp_path / "m", (), 1, 0):
            while True:
                pass

    with pytest.raises(MlfError, match="MLF0705"):
        forever()
    with bounded(tmp_path / "m", (), 0, 0):
        assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert SECONDS == 20
