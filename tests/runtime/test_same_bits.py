"""A quantised and a float network give the same bits on every board as on this computer."""

from __future__ import annotations

import hashlib
import shutil
from functools import cache
from pathlib import Path

import pytest

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
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
def compiled(model: str, target: str, **options: str) -> Bundle:
    path = EXAMPLES / f"models/{model}.onnx"
    return compile_modules([ModuleSpec(path, model, target, **options)])


def digest(result: RunResult) -> str:
    """Of all bits of all outputs, -0 and NaNs as they are."""
    total = hashlib.sha256()
    for outputs in result.outputs:
        for name in sorted(outputs):
            total.update(outputs[name].tobytes())
    return total.hexdigest()


def run(model: str, target: str, **options: str) -> str:
    bundle = compiled(model, target, **options)
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


def need(target: str) -> None:
    needed = (
        toolchain.compiler_of(TARGETS[target]),
        toolchain.simulator_of(BOARDS[target].simulator),
    )
    missing = [program.install for program in needed if not shutil.which(program.name)]
    if missing:
        pytest.skip("; ".join(missing))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("model", sorted(MANIFEST.models))
@pytest.mark.parametrize("target", BOARDS)
def test_the_bits_are_those_of_this_computer(target: str, model: str) -> None:
    need(target)
    assert run(model, target) == on_this_computer(model)


@pytest.mark.parametrize(
    "options",
    [{"executor": "graph"}, {"executor": "vm"}, {"interface_api": "packed"}],
    ids=lambda o: " ".join(o.values()),
)
def test_every_executor_is_right_where_the_high_byte_comes_first(options: dict[str, str]) -> None:
    """Parameters in TVM's file and bytecode are little-endian in the archive."""
    need("powerpc")
    assert run("digits_float32", "powerpc", **options) == on_this_computer("digits_float32")


def test_weights_for_a_big_endian_machine_are_text() -> None:
    assert not any(n.endswith(".weights") for n in compiled("digits_float32", "powerpc").files)
    with pytest.raises(MlfError, match="little-endian, and powerpc is not"):
        compiled("digits_float32", "powerpc", weights="binary")


def test_the_example_names_every_board() -> None:
    assert sorted(MANIFEST.models["digits_int8"].targets) == sorted(("host", *BOARDS))
