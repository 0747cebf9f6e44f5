"""int8 networks on processors without FPU call nothing of the compiler's soft floating point, and
take the same number of instructions whatever their input."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import random_feeds
from elftools.elf.elffile import ELFFile
from other_networks import INTEGERS, other_networks
from shared import NETWORKS

from mlftool.compile import ModuleSpec, compile_module
from mlftool.describe import bundle as bundle_of
from mlftool.mlf.interface import Interface
from mlftool.runtime.boards import BOARDS, Board
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

# Arm's names for it, and the names that compilers use elsewhere.
SOFT_FLOAT = re.compile(
    r"__aeabi_(c?[fd](?!2)\w+|[fd]2\w+|\w+2[fd])"
    r"|__(add|sub|mul|div|neg|eq|ne|lt|le|gt|ge|unord)[sdt]f[23]|__(fix|float|extend|trunc)\w+"
)
# A LayerNormalization divides by the root of a variance: only floats say what that is.
NAMES = (
    *(n.name for n in NETWORKS if n.quantised),
    *(f"{name}_int8" for name in INTEGERS if name != "transformer"),
)
LARGE = ("vww_int8", "ic_int8", "mobilenet_v2_int8")  # one core says what others would
CASES = [
    (name, core)
    for core in ("cortex-m0", "cortex-m3", "rv32imc")
    for name in NAMES
    if core == "cortex-m3" or name not in LARGE
]


def model(name: str) -> Path | onnx.ModelProto:
    known = {n.name: n for n in NETWORKS}
    return known[name].path if name in known else other_networks()[name]


@cache
def firmware(name: str, core: str) -> tuple[Path, Interface, Board]:
    # A Cortex-M3 knows all instructions of a Cortex-M0, and its board has room for all networks.
    board = replace(BOARDS["cortex-m3"], target=core) if core == "cortex-m0" else BOARDS[core]
    bundle = bundle_of([compile_module(ModuleSpec(model(name), "m", core))])
    interface = read_interface(bundle, "m")
    for tool in ("arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", board.simulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"did not run: {tool} is not installed")
    return link_firmware(bundle, interface, board), interface, board


@pytest.mark.parametrize(("name", "core"), CASES)
def test_no_soft_float(name: str, core: str) -> None:
    elf, _, _ = firmware(name, core)
    assert not soft_float(elf)


def soft_float(elf: Path) -> list[str]:
    with elf.open("rb") as file:
        tables = ELFFile(file).iter_sections("SHT_SYMTAB")
        names = {symbol.name for table in tables for symbol in table.iter_symbols()}
    assert "main" in names
    return sorted(filter(SOFT_FLOAT.fullmatch, names))


def test_a_float_network_is_found_out() -> None:
    elf, _, _ = firmware("mlp_fp32", "cortex-m3")
    assert {"__aeabi_fadd", "__aeabi_fmul"} <= set(soft_float(elf))


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4", "rv32imc"])
@pytest.mark.parametrize("name", ["kws_int8", "tcn_int8", "autoencoder_int8"])
def test_best_case_is_worst_case(name: str, core: str) -> None:
    """Zeros, the extremes and noise cost the same, to a tick of the counter where a clamp is an
    instruction. Elsewhere it is a branch, and in a few channels what lies near a tie takes longer:
    less than one instruction in 50."""
    elf, interface, board = firmware(name, core)
    given = onnx.load(path) if isinstance(path := model(name), Path) else path
    (noise,) = random_feeds(given, 3, samples=1)
    feeds: list[dict[str, Any]] = [noise]
    feeds += [{k: np.full_like(x, v) for k, x in noise.items()} for v in (-128, 0, 127)]
    ran = run_on_board(elf, board, interface, feeds)
    least, most = (ran.figures[f"instructions_{end}"] for end in ("min", "max"))
    assert most - least <= (40 if core == "cortex-m4" else most / 50)
