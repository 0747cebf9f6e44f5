"""The instructions of each layer of a module on a simulated board.

The module is emitted again with marks (codegen/marks.c.j2), which read the counter of the board
around each call, so a figure is right to within a tick of that, 40 instructions or less.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.codegen.executors.aot import emit_c
from mlftool.describe import bundle as bundle_of
from mlftool.frozen import frozen, replace
from mlftool.mlf import Bundle
from mlftool.mlf.interface import Interface
from mlftool.module import Module
from mlftool.progress import step
from mlftool.runtime.boards import Board
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import output_of, qemu_command, run_on_board

Sample = Mapping[str, "np.ndarray[Any, Any]"]

FAILURE = "instructions cannot be counted"


@frozen
class Counted:
    """Instructions of each step, what the module computed, and the firmware that ran on the bytes
    `inputs`. The marks are in these instructions; `whole` counts without them."""

    steps: tuple[int, ...]
    outputs: bytes
    firmware: Path
    inputs: bytes

    @property
    def total(self) -> int:
        return sum(self.steps)


def count(module: Module, board: Board, sample: Sample, flags: str) -> Counted:
    """One inference, step by step. Raises MlfError."""
    bundle = bundle_of([_marked(module)])
    interface = read_interface(bundle, module.spec.module_name)
    elf = link_firmware(bundle, interface, board, optimise=flags)
    with tempfile.TemporaryDirectory(prefix="mlftool-tune-") as folder:
        data = b"".join(sample[t.name].tobytes() for t in interface.inputs)
        (Path(folder) / "inputs.bin").write_bytes(data)
        command = qemu_command(board, elf.resolve(), ("inputs.bin", "outputs.bin", "1"))
        with step(f"counting {module.spec.module_name} on {board.title}"):
            text = output_of(command, folder, FAILURE)
        outputs = (Path(folder) / "outputs.bin").read_bytes()
    lines = (line.partition("=") for line in text.splitlines())
    counts = [int(value) for name, _, value in lines if name == "layer"]
    # The runs before the last are not counted ones.
    steps = tuple(counts[len(counts) - len(module.program.calls) :])
    return Counted(steps, outputs, elf, data)


def whole(
    bundle: Bundle, interface: Interface, board: Board, sample: Sample, flags: str
) -> tuple[Path, int]:
    """The firmware as it is delivered, without marks, and the instructions of one inference in it.
    Raises MlfError."""
    elf = link_firmware(bundle, interface, board, optimise=flags)
    return elf, round(run_on_board(elf, board, interface, [sample]).figures["instructions"])


def _marked(module: Module) -> Module:
    """The module with its counter read around each call. Its executor is `aot`, its interface C."""
    options = replace(module.options, marks=True)
    return replace(module, sources=emit_c(module.program, options, module.imported))
