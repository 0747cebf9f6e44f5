"""Bytecode of the vm executor as `executor-config/vm/<module>.vm` holds it: 32-bit words, little
endian. `crt/include/mlf/vm.h` says the same in C; docs/vm.md describes it.

An address is a word: what it points into in the upper four bits, and in the lower 28 an offset in
the workspace, or the number of an input, output or constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.frozen import frozen

VERSION = 1
MAGIC = 0x4D560000 | VERSION  # the first word: "MV" and the version
MAX_ARGUMENTS = 64  # kMlfVmArguments
WORKSPACE, INPUT, OUTPUT, CONSTANT = range(4)
NUMBER_BITS = 28
MAX_NUMBER = (1 << NUMBER_BITS) - 1

# Operands of each operation, in the order of their numbers. A call has besides an address for each
# parameter of its function.
OPERANDS = {
    "halt": 0,
    "call": 1,
    "jump": 1,
    "jump_unless": 2,
    "copy": 3,
    "zero": 2,
    "set": 3,
    "add": 2,
    "less": 3,
    "gather": 6,
    "scatter": 6,
    "narrow": 2,
}
NAMES = tuple(OPERANDS)


@frozen
class Instruction:
    """One instruction: the word it starts at, what it does, and its operands."""

    at: int
    name: str
    operands: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.at + 1 + len(self.operands)


def address(space: int, number: int) -> int:
    assert 0 <= number <= MAX_NUMBER, number
    return space << NUMBER_BITS | number


def split(word: int) -> tuple[int, int]:
    """The space and the number of an address."""
    return word >> NUMBER_BITS, word & MAX_NUMBER


def decode(words: Sequence[int], at: int, parameters: Sequence[int]) -> Instruction:
    """The instruction at word `at`; `parameters` counts those of each function.

    Raises ValueError if there is none.
    """
    left = len(words) - at
    if left < 1 or words[at] >= len(NAMES):
        raise ValueError(f"no instruction at word {at}")
    name = NAMES[words[at]]
    count = OPERANDS[name]
    if name == "call":
        if left < 2 or words[at + 1] >= len(parameters):
            raise ValueError(f"no function is called at word {at}")
        count += parameters[words[at + 1]]
    if left <= count:
        raise ValueError(f"the bytecode ends in the instruction at word {at}")
    return Instruction(at, name, tuple(words[at + 1 : at + 1 + count]))
