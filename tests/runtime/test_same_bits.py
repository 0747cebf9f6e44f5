"""A quantised and a float network give the same bits on every board as on this computer."""

from __future__ import annotations

import hashlib
import shutil
from functools import cache
from pathlib import Path

import pytest

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.manifest import load
from mlftool.mlf import Bundle
from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import RunResult, run_on_board, run_on_host
from mlftool.runtime.vectors import load_vectors, samples_of
from mlftool.targets import TARGETS

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFEST = load(EXAMPLES / "boards.yaml")


@cache
def compiled(model: str, target: str) -> Bundle:
    return compile_modules([ModuleSpec(EXAMPLES / f"models/{model}.onnx", model, target)])


def digest(result: RunResult) -> str:
    """Of all bits of all outputs, -0 and NaNs as they are."""
    total = hashlib.sha256()
    for outputs in result.outputs:
        for name in sorted(outputs):
            total.update(outputs[name].tobytes())
    return total.hexdigest()


def run(model: str, target: str) -> str:
    bundle = compiled(model, target)
    interface = read_interface(bundle)
    arrays = load_vectors(EXAMPLES / f"models/{model}_few.npz")
    samples = samples_of(arrays, interface.inputs, model)
    if target == "host":
        return digest(run_on_host(build_runner(bundle, interface), interface, samples))
    board = BOARDS[target]
    elf = link_firmware(bundle, interface, board)
    return digest(run_on_board(elf, board, interface, samples, time_limit=60))


@cache
def on_this_computer(model: str) -> str:
    return run(model, "host")


@pytest.mark.parametrize("model", sorted(MANIFEST.models))
@pytest.mark.parametrize("target", BOARDS)
def test_the_bits_are_those_of_this_computer(target: str, model: str) -> None:
    needed = (
        toolchain.compiler_of(TARGETS[target]),
        toolchain.simulator_of(BOARDS[target].simulator),
    )
    missing = [program.install for program in needed if not shutil.which(program.name)]
    if missing:
        pytest.skip("; ".join(missing))
    assert run(model, target) == on_this_computer(model)


def test_the_example_names_every_board() -> None:
    assert sorted(MANIFEST.models["digits_int8"].targets) == sorted(("host", *BOARDS))
