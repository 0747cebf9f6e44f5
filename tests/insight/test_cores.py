"""Prices of short sequences, where the manufacturer's text or table gives their sum."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from mlftool.insight.cores import CORES, Flash, may_fall, registers
from mlftool.insight.cycles import listing
from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS
from mlftool.targets import TARGETS


@dataclass(frozen=True)
class One:
    name: str
    operands: str = ""


def sequence(text: str) -> list[One]:
    parts = (line.strip().partition(" ") for line in text.split(";"))
    return [One(name, operands) for name, _, operands in parts]


@pytest.mark.parametrize(
    ("core", "text", "cycles"),
    [
        # DDI 0432C: single loads and stores, lists, returns and calls.
        ("cortex-m0", "ldr r0, [r1, #4]; muls r0, r2; strb r0, [r3]", 5),
        ("cortex-m0", "ldmia r0!, {r1, r2, r3}; pop {r4, r5, pc}", 4 + 7),
        ("cortex-m0", "bl 100; bx lr; b.n 100", 4 + 3 + 3),
        # DDI 0439D, section 3.3.3: pairs of loads, and of a load and a store.
        ("cortex-m4", "ldr r0, [r1]; ldr r1, [r2]", 3),
        ("cortex-m4", "ldr r0, [r1, r2]; str r0, [r3, #20]", 3),
        ("cortex-m4", "ldr r0, [r1, r5]; ldr r1, [r2]; ldr r2, [r3, #4]", 4),
        ("cortex-m4", "ldrd r0, r1, [r2]; ldr r3, [r4]", 3 + 2),
        ("cortex-m4", "strb r0, [r1]; ldr r2, [r3]", 1 + 2),
        ("cortex-m4", "ldmia r0!, {r1, r2, r3}; smlad r4, r1, r2, r4; mla r5, r1, r2, r5", 6),
        ("cortex-m4", "vldr s0, [r0]; vfma s1, s0, s0; vdiv s1, s1, s0", 19),
        ("cortex-m3", "mla r5, r1, r2, r5; smull r0, r1, r2, r3; mul r0, r1, r2", 2 + 4 + 1),
        # A load whose result is wanted at once, and one whose result is not.
        ("cortex-m33", "ldr r0, [r1]; add r2, r0, #1", 3),
        ("cortex-m33", "ldr r0, [r1]; add r2, r3, #1", 2),
        ("cortex-m7", "ldr r0, [r1]; add r2, r3, #1", 1.5),
        ("cortex-m7", "ldr r0, [r1]; add r2, r0, #1", 3),
        ("cortex-m55", "vldrb q0, [r0]; vmladava r1, q0, q1; vmladava r2, q0, q2", 5),
        ("cortex-m55", "vldrw q0, [r0, q1]; vstrb q0, [r1, q2]", 4 + 8),
        ("cortex-m55", "vld40 {q0, q1, q2, q3}, [r0]; vadd q0, q0, q1", 2 + 1),
        # Ibex: a load and its reader, a product's upper half, a division, a jump.
        ("rv32imc", "lw a0, 0(a1); add a2, a0, a3", 3),
        ("rv32imc", "lw a0, 0(a1); sw a0, 4(a1)", 3),
        ("rv32imc", "lw a0, 0(a1); add a2, a4, a3", 2),
        ("rv32imc", "mul a0, a1, a2; mulh a0, a1, a2; div a0, a1, a2; ret", 1 + 2 + 37 + 2),
    ],
)
def test_sequences_cost_what_the_core_takes(core: str, text: str, cycles: float) -> None:
    code = sequence(text)
    price = CORES[core].price
    assert price(code[0], None) + sum(price(b, a) for a, b in pairwise(code)) == cycles


def test_vectors_are_listed_by_their_names(tmp_path: Path) -> None:
    """objdump shows them as a coprocessor's instructions unless it is told the architecture."""
    code = ".syntax unified\n.thumb_func\nf:\nvldrb.8 q0, [r0], #16\nvmladava.s8 r0, q0, q1\n"
    (tmp_path / "f.s").write_text(code)
    flags = ("-c", "-mcpu=cortex-m55", "f.s", "-o", "f.o")
    compiler = toolchain.find(toolchain.compiler_of(TARGETS["cortex-m55"]))
    toolchain.compile_c(compiler, flags, tmp_path, "two instructions")
    assert [i.name for i in listing(tmp_path / "f.o", "cortex-m55")] == ["vldrb", "vmlava"]


@pytest.mark.parametrize("name", ["bne", "bne.n", "cbz", "bgeu", "beqz"])
def test_branches_with_a_condition_may_fall_through(name: str) -> None:
    assert may_fall(One(name))


@pytest.mark.parametrize("name", ["b", "b.n", "bl", "bx", "bic", "bfi", "ldrb", "jal"])
def test_other_instructions_do_not(name: str) -> None:
    assert not may_fall(One(name))


def test_registers_of_lists_are_counted() -> None:
    assert registers("sp!, {r4, r5-r7, lr}") == 5


def test_slow_flash_bounds_what_is_fetched_and_adds_to_jumps() -> None:
    fast, slow = Flash(), Flash(5)
    assert fast.fetched(1, 4) == 1
    assert slow.fetched(1, 4) == 1.5
    assert slow.fetched(3, 4) == 3
    assert slow.jumped(2) == fast.jumped(2) + 5


def test_cores_are_those_of_boards_and_say_whose_table_they_have() -> None:
    assert {c for c in CORES if BOARDS[c].target != c} == set()
    assert all(core.source for core in CORES.values())
