"""Numbers of bytes as people write and read them: 65536, 64KiB, 64kB."""

from __future__ import annotations

import re

UNITS = {"B": 1, "kB": 1000, "KiB": 1 << 10, "MB": 1_000_000, "MiB": 1 << 20}
UNIT = "|".join(UNITS)
NUMBER = "[1-9][0-9]{0,11}"
SIZE = rf"{NUMBER}(?:{UNIT}|)"


def bytes_of(text: str) -> int | None:
    """What SIZE says; None for anything else."""
    found = re.fullmatch(rf"({NUMBER})({UNIT}|)", text)
    return int(found[1]) * UNITS.get(found[2], 1) if found else None


def in_bytes(size: int) -> str:
    """Bytes for people, from 1 KiB on in both units: `512 B`, `2,048 B (2.0 KiB)`."""
    return f"{size:,} B" + (f" ({size / 1024:.1f} KiB)" if size >= 1024 else "")
