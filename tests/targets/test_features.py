"""Features are words of one table: a kernel that asks for another word would never bid."""

from __future__ import annotations

from mlftool.options import OPTIONS
from mlftool.targets import FEATURES, TARGETS
from mlftool.targets.kernels import KERNELS


def test_targets_kernels_and_options_use_words_of_the_table() -> None:
    asked = {word for bids in KERNELS.values() for b in bids for word in b.needs | b.unless}
    had = {word for target in TARGETS.values() for word in target.features}
    had |= {w for option in OPTIONS.values() for words in option.features.values() for w in words}
    assert asked | had == FEATURES.keys()


def test_machines_are_told_from_compilers() -> None:
    machines = {
        "host": "", "x86-64-v4": "", "aarch64": "aarch64", "armv7-a": "armv7l",
        "powerpc": "ppc", "cortex-m4": "armv7l", "rv32imc": "riscv32", "rv64gc": "riscv64",
    }  # fmt: skip
    assert {name: TARGETS[name].machine for name in machines} == machines
    assert {n for n, t in TARGETS.items() if t.is_host} == {"host", "x86-64-v3", "x86-64-v4"}


def test_instructions_are_what_code_cannot_do_without() -> None:
    assert TARGETS["cortex-m55"].instructions == {"dsp", "mve"}
    assert TARGETS["cortex-m0"].instructions == set()
