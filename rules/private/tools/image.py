"""`image FIRMWARE.elf OUT.bin`: the bytes to write at the start of flash.

Not objcopy -O binary, which fills the space between two memories: the image of a board whose
vectors and code lie 1.5 GB apart would be 1.5 GB long. What lies further than MAX_GAP from the
largest piece is left out; the .hex file holds everything.
"""

from __future__ import annotations

import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

MAX_GAP = 1 << 20
FILL = b"\xff"  # erased flash


def pieces(elf: Path) -> list[tuple[int, bytes]]:
    """(load address, bytes) of what the ELF file puts into memory, by address."""
    with elf.open("rb") as stream:
        segments = [s for s in ELFFile(stream).iter_segments("PT_LOAD") if s["p_filesz"]]
        return sorted((s["p_paddr"], s.data()) for s in segments)


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


def main(arguments: list[str]) -> int:
    """Writes the largest region."""
    elf, out = map(Path, arguments)
    found = regions(pieces(elf))
    _address, data = max(found, key=lambda region: len(region[1]))
    out.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
