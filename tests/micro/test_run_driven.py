"""`mlftool run --driven`: a model or archive on a board or a program, driven over its line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from firmware import FLOAT, INT8

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import write_tar
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.toolchain import compiler_of, simulator_of
from mlftool.targets import TARGETS

SAMPLES = {
    INT8: np.arange(-64, 64, dtype=np.int8).reshape(2, 1, 1, 8, 8),
    FLOAT: np.linspace(0, 1, 128, dtype=np.float32).reshape(2, 1, 1, 8, 8),
}


def mlftool(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlftool", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def need(target: str) -> None:
    board = BOARDS[target]
    for program in (compiler_of(TARGETS[target]), simulator_of(board.simulator)):
        if shutil.which(program.name) is None:
            pytest.skip(program.install)


@pytest.fixture(params=[INT8, FLOAT], ids=lambda path: path.stem)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model; in.npz has its samples, and ref.npz what this computer makes of them."""
    path: Path = request.param
    np.savez(tmp_path / "in.npz", image=SAMPLES[path])
    done = mlftool("run", path, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "ref.npz")
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.sampled(4)
@pytest.mark.parametrize("executor", ["aot", "graph", "debug"])
def test_a_program_gives_the_hosts_bits(model: Path, executor: str, tmp_path: Path) -> None:
    files = ("--inputs", tmp_path / "in.npz", "--expect", tmp_path / "ref.npz", "--absolute", 0)
    done = mlftool("run", model, *files, "--driven", "--executor", executor, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["samples"], report["passed"]) == (2, True)
    assert ("layers" in report) == (executor == "debug")
    if executor == "debug":
        assert len(report["layers"]) > 3
        assert all(0 < layer["seconds"] < 1 for layer in report["layers"])


def test_the_boards_times_are_its_instructions(tmp_path: Path) -> None:
    """Within 1 % of what the test runner counts, and the layers' sum is not far from it."""
    need("cortex-m4")
    np.savez(tmp_path / "in.npz", image=SAMPLES[INT8])
    common = ("run", INT8, "--inputs", tmp_path / "in.npz", "--on", "cortex-m4", "--json")
    counted = json.loads(mlftool(*common, "-o", tmp_path / "ref.npz").stdout)
    expect = ("--driven", "--expect", tmp_path / "ref.npz", "--repetitions", 3)
    driven = json.loads(mlftool(*common, *expect).stdout)
    assert driven["passed"]
    ratio = driven["instructions"] / counted["instructions"]
    assert 1 <= ratio < 1.01, ratio
    assert driven["flash_bytes"] > counted["flash_bytes"]
    layers = json.loads(mlftool(*common, *expect, "--executor", "debug").stdout)["layers"]
    total = sum(layer["seconds"] * 1e9 for layer in layers)
    assert 0.9 < total / counted["instructions"] < 1.1


def archive(folder: Path, **options: object) -> Path:
    spec = ModuleSpec(INT8, "digits", **options)  # type: ignore[arg-type]
    path = folder / "digits.tar"
    write_tar(compile_modules([spec]), path)
    return path


def test_an_archive_is_driven(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", image=SAMPLES[INT8])
    tar = archive(tmp_path, interface_api="packed", system_lib=True)
    inputs = ("--inputs", tmp_path / "in.npz")
    assert mlftool("run", tar, *inputs, "-o", tmp_path / "ref.npz").returncode == 0
    done = mlftool("run", tar, *inputs, "--driven", "--expect", tmp_path / "ref.npz")
    assert done.returncode == 0, done.stderr
    assert "equal to the reference within 0" in done.stdout


def test_what_cannot_be_driven_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", image=SAMPLES[INT8])
    inputs = ("--inputs", tmp_path / "in.npz", "--driven")
    plain = mlftool("run", archive(tmp_path), *inputs)
    assert plain.returncode == 2
    assert "MLF0610" in plain.stderr
    assert "--interface-api packed --runtime-crt-system-lib 1" in plain.stderr
    tar = archive(tmp_path, interface_api="packed", system_lib=True)
    layers = mlftool("run", tar, *inputs, "--executor", "debug")
    assert layers.returncode == 2
    assert "has no graph" in layers.stderr
    dump = mlftool("run", INT8, *inputs, "--executor", "debug", "--dump", tmp_path / "d")
    assert dump.returncode == 2
    assert "--dump is not for --driven" in dump.stderr
    vm = mlftool("run", INT8, *inputs, "--executor", "vm")
    assert vm.returncode == 2, vm.stderr
    (tmp_path / "silent").mkdir()
    for name in ("board.h", "board.json", "link.ld"):
        folder = Path(__file__).parents[2] / "crt/boards/mps2_an386"
        shutil.copy(folder / name, tmp_path / "silent" / name)
    silent = mlftool("run", tar, *inputs, "--on", tmp_path / "silent")
    assert silent.returncode == 2
    assert "has no board_uart.h" in silent.stderr
