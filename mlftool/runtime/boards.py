"""The simulated boards, described once: for `mlftool run`, the tests and the benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Board:
    """A board that QEMU simulates. Its link script and counter are in crt/boards/<name>/."""

    name: str
    target: str  # of mlftool.targets: the compiler's machine flags
    machine: str  # QEMU's -machine
    title: str


_ALL = (
    Board("microbit", "cortex-m0", "microbit", "BBC micro:bit, Cortex-M0"),
    Board("mps2_an385", "cortex-m3", "mps2-an385", "Arm MPS2+ AN385, Cortex-M3"),
    Board("mps2_an386", "cortex-m4", "mps2-an386", "Arm MPS2+ AN386, Cortex-M4F"),
    Board("mps2_an500", "cortex-m7", "mps2-an500", "Arm MPS2+ AN500, Cortex-M7F"),
    Board("mps2_an505", "cortex-m33", "mps2-an505", "Arm MPS2+ AN505, Cortex-M33F"),
    Board("mps3_an547", "cortex-m55", "mps3-an547", "Arm MPS3 AN547, Cortex-M55 with MVE"),
)

# target name -> the board that runs it
BOARDS: Mapping[str, Board] = {board.target: board for board in _ALL}
