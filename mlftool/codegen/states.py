"""What is done with the memory of what a module keeps from one run to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mlftool.ir.graph import Array
from mlftool.plan.states import Slot


def texts(found: tuple[Slot, ...], size: int, big_endian: bool) -> dict[str, Any]:
    """What the templates write: bytes that are all one, tables of others, and copies."""
    starts = list(_starts(found, big_endian))
    return {
        "bytes": size,
        "fills": [(slot.read_at, slot.bytes, data[0]) for slot, data in starts if _even(data)],
        "tables": [
            (slot.read_at, slot.bytes, ", ".join(map(str, data)))
            for slot, data in starts
            if not _even(data)
        ],
        "copies": [(s.read_at, s.write_at, s.bytes) for s in found if not s.in_place],
        "at": {s.state.input: s.read_at for s in found}
        | {s.state.output: s.write_at for s in found},
    }


def _starts(found: tuple[Slot, ...], big_endian: bool) -> Iterator[tuple[Slot, bytes]]:
    for slot in found:
        yield slot, _stored(slot.state.start, big_endian)


def _stored(array: Array, big_endian: bool) -> bytes:
    return array.astype(array.dtype.newbyteorder(">")).tobytes() if big_endian else array.tobytes()


def _even(data: bytes) -> bool:
    return bool(np.all(np.frombuffer(data, np.uint8) == data[0]))
