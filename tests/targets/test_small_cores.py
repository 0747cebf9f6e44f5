"""int8 networks on processors without FPU call nothing of the compiler's soft floating point, and
take the same number of instructions whatever their input."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import INCLUDE, write_sources
from builders import random_feeds
from elftools.elf.elffile import ELFFile
from other_networks import INTEGERS, other_networks
from shared import NETWORKS

from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.describe import bundle as bundle_of
from mlftool.mlf.interface import Interface
from mlftool.runtime.boards import BOARDS, Board
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.targets import CFLAGS

pytestmark = pytest.mark.together("name", "core")

# Arm's names for it, and the names that compilers use elsewhere.
SOFT_FLOAT = re.compile(
    r"__aeabi_(c?[fd](?!2)\w+|[fd]2\w+|\w+2[fd])"
    r"|__(add|sub|mul|div|neg|eq|ne|lt|le|gt|ge|unord)[sdt]f[23]|__(fix|float|extend|trunc)\w+"
)
NAMES = (
    *(n.name for n in NETWORKS if n.quantised),
    *(f"{name}_int8" for name in INTEGERS),
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
def compiled(name: str, core: str) -> Module:
    return compile_module(ModuleSpec(model(name), "m", core))


@cache
def firmware(name: str, core: str) -> tuple[Path, Interface, Board]:
    # A Cortex-M3 knows all instructions of a Cortex-M0, and its board has room for all networks.
    board = replace(BOARDS["cortex-m3"], target=core) if core == "cortex-m0" else BOARDS[core]
    bundle = bundle_of([compiled(name, core)])
    interface = read_interface(bundle, "m")
    for tool in ("arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", board.simulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"did not run: {tool} is not installed")
    return link_firmware(bundle, interface, board), interface, board


@pytest.mark.sampled(6)
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


@pytest.mark.sampled(6)
@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4", "rv32imc"])
@pytest.mark.parametrize("name", ["kws_int8", "tcn_int8", "autoencoder_int8"])
def test_best_case_is_worst_case(name: str, core: str, tmp_path: Path) -> None:
    """Zeros, the extremes and noise cost the same, to a tick of the counter where a clamp is an
    instruction. Elsewhere it is a branch, and in channels without a multiplier
    (targets/requantise/fixed.py) what is near a tie is rounded as floats are, which takes so many
    instructions each time. Without these, which the host counts, inputs differ by less than one
    instruction in 1,000."""
    elf, interface, board = firmware(name, core)
    given = onnx.load(path) if isinstance(path := model(name), Path) else path
    (noise,) = random_feeds(given, 3, samples=1)
    feeds: list[dict[str, Any]] = [noise]
    feeds += [{k: np.full_like(x, v) for k, x in noise.items()} for v in (-128, 0, 127)]
    if core == "cortex-m4":
        ran = run_on_board(elf, board, interface, feeds)
        assert ran.figures["instructions_max"] - ran.figures["instructions_min"] <= 40
        return
    took = [run_on_board(elf, board, interface, [f]).figures["instructions_max"] for f in feeds]
    ties = near_ties(compiled(name, core), feeds, tmp_path)
    assert len(set(ties)) > 2
    each, _ = fit = np.polyfit(ties, took, 1)
    assert 50 < each < 200
    rest = np.array(took) - np.polyval(fit, ties)
    assert rest.max() - rest.min() <= max(took) / 1000


COUNT = """#include "mlf/requantize.h"
#include <stdio.h>
static long near_ties;
static int32_t counted(int32_t acc, float scale, int32_t zero_point, int32_t low, int32_t high) {
  near_ties++;
  return mlf_requantize_soft(acc, scale, zero_point, low, high);
}
#define mlf_requantize_soft counted
#include "m.c"
static char in[INPUT], out[OUTPUT];
int main(void) {
  while (fread(in, 1, sizeof in, stdin) == sizeof in) {
    struct tvmgen_m_inputs inputs = {in};
    struct tvmgen_m_outputs outputs = {out};
    near_ties = 0;
    if (tvmgen_m_run(&inputs, &outputs)) return 1;
    printf("%ld\\n", near_ties);
  }
  return 0;
}
"""


def near_ties(module: Module, feeds: list[dict[str, Any]], folder: Path) -> list[int]:
    """How many results of each inference are rounded as floats are, counted by a program that runs
    the same C here. The model has one input and one output."""
    write_sources(module, folder)
    (folder / "count.c").write_text(COUNT)
    graph = module.imported
    (x,), (y,) = ([graph.types[n].bytes for n in names] for names in (graph.inputs, graph.outputs))
    flags = ("-O1", f"-DINPUT={x}", f"-DOUTPUT={y}", f"-I{INCLUDE}")
    command = ["gcc", *CFLAGS, *flags, "count.c", "-o", "count", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    data = b"".join(value.tobytes() for feed in feeds for value in feed.values())
    ran = subprocess.run([folder / "count"], input=data, capture_output=True, check=True)
    counts = [int(line) for line in ran.stdout.split()]
    assert len(counts) == len(feeds)
    return counts
