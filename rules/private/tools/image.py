"""`image FIRMWARE.elf OUT.bin OUT.hex`: the bytes to write at the start of flash, and Intel HEX.

Not objcopy -O binary, which fills the space between two memories: the image of a board whose
vectors and code lie 1.5 GB apart would be 1.5 GB long. What lies further than MAX_GAP from the
largest piece is left out; the .hex file holds everything and where it starts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from mlftool.runtime import elf as elf_file

MAX_GAP = 1 << 20
FILL = b"\xff"  # erased flash


def pieces(elf: Path) -> list[tuple[int, bytes]]:
    """(load address, bytes) of what the ELF file puts into memory, by address."""
    return [(piece.address, piece.data) for piece in elf_file.pieces(elf.read_bytes())]


def regions(parts: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """`parts` joined where they are near each other, gaps filled as erased flash reads."""
    joined: list[tuple[int, bytes]] = []
    for address, data in parts:
        if joined and 0 <= (gap := address - joined[-1][0] - len(joined[-1][1])) <= MAX_GAP:
            start, before = joined.pop()
            joined.append((start, before + FILL * gap + data))
        else:
            joined.append((address, data))
    return joined


def record(kind: int, address: int, data: bytes) -> str:
    """A line of Intel HEX."""
    body = bytes([len(data), address >> 8, address & 0xFF, kind]) + data
    return f":{(body + bytes([-sum(body) & 0xFF])).hex().upper()}\n"


def hex_records(parts: list[tuple[int, bytes]], entry: int) -> Iterator[str]:
    """Intel HEX with 32-bit addresses: 16 bytes a line, the upper half of an address before it."""
    upper = 0
    for start, data in parts:
        at = 0
        while at < len(data):
            address = start + at
            if address >> 16 != upper:
                upper = address >> 16
                yield record(4, 0, upper.to_bytes(2, "big"))
            low = address & 0xFFFF
            piece = data[at : at + min(16, 0x10000 - low)]
            yield record(0, low, piece)
            at += len(piece)
    # As objcopy does: below 1 MiB the start is a segment and an offset.
    segment = ((entry & 0xF0000) >> 4).to_bytes(2, "big") + (entry & 0xFFFF).to_bytes(2, "big")
    near = entry < 1 << 20
    yield record(3 if near else 5, 0, segment if near else entry.to_bytes(4, "big"))
    yield record(1, 0, b"")


def main(arguments: list[str]) -> int:
    """Writes the largest region, and all of them."""
    elf, out, hex_file = map(Path, arguments)
    parts = pieces(elf)
    _address, data = max(regions(parts), key=lambda region: len(region[1]))
    out.write_bytes(data)
    entry = elf_file.header(elf.read_bytes())["e_entry"]
    hex_file.write_text("".join(hex_records(parts, entry)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
