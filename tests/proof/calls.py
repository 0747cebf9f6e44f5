"""Calls of single functions of mlf/*.h, on this computer and on simulated cores, each with arrays
around which nothing may be touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "crt" / "include"
FLAGS = ("-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Call:
    """`parameters` are in the order of the function's: an array, a number, or the name of an array
    and the element of it that an address is of."""

    function: int
    parameters: Mapping[str, Array | int | tuple[str, int]]

    @property
    def arrays(self) -> dict[str, Array]:
        return {n: v for n, v in self.parameters.items() if isinstance(v, np.ndarray)}

    def extents(self) -> dict[str, int]:
        """Bytes of each array."""
        return {n: v.nbytes for n, v in self.arrays.items()}

    def text(self, extents: Mapping[str, int], begins: bool) -> bytes:
        """What the programs read: see assembly.c. `begins`: arrays begin where they may be touched,
        else they end where nothing more may be."""
        arrays = self.arrays
        order = list(arrays)
        words = [self.function, len(arrays), len(self.parameters)]
        for name in order:
            words += [extents[name], begins]
        for value in self.parameters.values():
            if isinstance(value, np.ndarray):
                words += [next(i for i, n in enumerate(order) if arrays[n] is value), 0]
            elif isinstance(value, tuple):
                words += [order.index(value[0]), value[1] * arrays[value[0]].itemsize]
            else:
                words += [-1, value]
        held = (v.tobytes()[: extents[n]].ljust(extents[n], b"\0") for n, v in arrays.items())
        return np.array(words, "<i4").tobytes() + b"".join(held)


def compile_calls(compiler: Sequence[str], calls: str, program: Path) -> list[str]:
    """The command that compiles a program for Linux with the functions of the file `calls`."""
    flags = (*FLAGS, f'-DCALLS="{calls}"', HERE / "assembly.c", "-o", program, "-lm")
    return [*compiler, *map(str, flags)]
