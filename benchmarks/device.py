"""What a network costs on a simulated core: exact instructions, bytes of code and of stack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import onnx
from corpus import Network
from stack import stack_bound

from mlftool.codegen.share import TABLES
from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.describe import bundle as bundle_of
from mlftool.errors import MlfError
from mlftool.files import default_cache
from mlftool.mlf.interface import Interface
from mlftool.runtime.boards import BOARDS, Board
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import footprint, link_firmware
from mlftool.runtime.runner import run_on_board

MODULE = "bench"
OPTIMISE = {"speed": "-O3", "size": "-Os"}
CORES = (
    *("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"),
    *("rv32imc", "rv32imafc"),
)


@dataclass(frozen=True)
class Setting:
    """Fields of ModuleSpec."""

    float_mode: str = "exact"
    optimize: str = "speed"
    patches: str = "off"
    weights_budget: str = "none"


@dataclass(frozen=True)
class Cost:
    """`own` is what the model adds to the firmware beside its weights; `elf` is the firmware."""

    macs: int
    weights: int
    arena: int
    flash: int
    own: int
    stack: int
    bound: int  # of the stack, by the compiler's frames
    instructions: float
    elf: Path


def board_of(core: str) -> Board:
    """Cortex-M0's code runs on the board of a Cortex-M3, which knows all its instructions and has
    memory for every network."""
    return replace(BOARDS["cortex-m3"], target=core) if core == "cortex-m0" else BOARDS[core]


@cache
def compiled(path: Path, target: str, setting: Setting) -> Module:
    return compile_module(ModuleSpec(path, MODULE, target, **vars(setting)))


@cache
def measure(network: Network, core: str, setting: Setting) -> Cost | None:
    """All of one network on one core; its outputs are checked. None if it does not fit a board."""
    module = compiled(network.path, core, setting)
    bundle = bundle_of([module])
    interface = read_interface(bundle, MODULE)
    board = board_of(core)
    try:
        elf = link_firmware(bundle, interface, board, optimise=OPTIMISE[setting.optimize])
    except MlfError:
        return None
    figures = counted(network, elf, board, interface, setting.float_mode == "exact")
    flash = footprint(elf).flash
    weights = interface.constants_bytes
    return Cost(
        macs_of(module),
        weights,
        interface.workspace_bytes,
        flash - weights,
        flash - flash_of_nothing(core, setting) - (weights - table_bytes(module)),
        int(figures["stack_bytes"]),
        stack_bound(bundle, MODULE, core, OPTIMISE[setting.optimize]) if core == "cortex-m4" else 0,
        figures["instructions"],
        elf,
    )


def counted(
    network: Network, elf: Path, board: Board, interface: Interface, checked: bool
) -> Mapping[str, float]:
    """What the firmware's run printed. It prints the same for ever, so a firmware, whose folder is
    named by its content, runs once."""
    known = default_cache() / "runs" / f"{network.name}.{board.name}.{elf.parent.name}.json"
    if not known.is_file():
        ran = run_on_board(elf, board, interface, [network.sample])
        if checked:
            network.check(ran.outputs[0], board.target)
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(dict(ran.figures)))
    return dict(json.loads(known.read_text()))


def macs_of(module: Module) -> int:
    return sum(call.kernel.macs for call in module.program.calls)


def table_bytes(module: Module) -> int:
    """Constants that stand for code: the numbers that functions of several layers are passed."""
    tables = {
        o.array.tobytes()
        for call in module.program.calls
        for o in call.kernel.operands
        if o.name in TABLES and o.array is not None
    }
    return sum(map(len, tables))


@cache
def flash_of_nothing(core: str, setting: Setting) -> int:
    """The test firmware around a single Relu: startup, semihosting and the test runner."""
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(n, 1, [1]) for n in "xy")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "nothing", [x], [y]))
    bundle = bundle_of([compile_module(ModuleSpec(model, MODULE, core))])
    interface = read_interface(bundle, MODULE)
    elf = link_firmware(bundle, interface, board_of(core), optimise=OPTIMISE[setting.optimize])
    return footprint(elf).flash
