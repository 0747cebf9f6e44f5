"""Constants as C text, or in a file that the assembler includes.

Text compiles everywhere but slowly: gcc 12 takes 50 s and 2.4 GB for 40 MB of floats. The file is
little-endian and needs gcc or clang (crt/include/mlf/weights.h).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from mlftool.codegen.kernels import Constant
from mlftool.codegen.sources import INCLUDE
from mlftool.frozen import frozen
from mlftool.ir import dtype

SUFFIX = ".weights"
# With "auto": below this all is text, which every compiler takes. C text has about four characters
# for each byte, so archives never have more than 2 MiB of it.
BIG_MODULE = 512 << 10
# Constants below this are text in every mode: nothing is gained by filing them.
SMALL_CONSTANT = 1024
_ALIGNMENT = 16


@frozen
class Filed:
    """A constant in the file."""

    constant: Constant
    offset: int


@frozen
class Weights:
    """The constants of a module, each in one of two places."""

    text: tuple[Constant, ...]
    filed: tuple[Filed, ...]
    name: str  # of the file
    data: bytes  # all of it
    digest: str  # its SHA-256: sources change with it, so that builds notice

    @property
    def files(self) -> dict[str, bytes]:
        """The file by its name in the archive, if there is one."""
        return {f"{INCLUDE}/{self.name}": self.data} if self.filed else {}


def place(constants: Sequence[Constant], module: str, mode: str) -> Weights:
    """Decides which constants go to the file, in sequence, and makes the file."""
    big = mode == "binary" or (mode == "auto" and sum(c.bytes for c in constants) >= BIG_MODULE)
    text, filed, offset = [], [], 0
    parts: list[bytes | memoryview] = []
    for constant in constants:
        if not big or constant.bytes < SMALL_CONSTANT:
            text.append(constant)
            continue
        filed.append(Filed(constant, offset))
        padding = -constant.bytes % _ALIGNMENT
        parts += [_little_endian(constant), bytes(padding)]
        offset += constant.bytes + padding
    data = b"".join(parts)  # the one copy: that of a large model is hundreds of MB
    digest = hashlib.sha256(data).hexdigest()
    return Weights(tuple(text), tuple(filed), f"tvmgen_{module}{SUFFIX}", data, digest)


def _little_endian(constant: Constant) -> memoryview:
    """Of the array itself, if it is stored so."""
    array = dtype.stored(constant.array)
    array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return array.reshape(-1).view(np.uint8).data


def without_file(data: Mapping[str, bytes]) -> dict[str, bytes]:
    """What is left of a module's files when its code is compiled: the weights are in it then."""
    return {name: content for name, content in data.items() if not name.endswith(SUFFIX)}
