"""What an ELF file says of itself, read through pyelftools: its machine, and what it takes of a
board's memories.

Flash is what the program headers load, whatever a linker script calls its sections, so no name
hides bytes from a budget.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from mlftool.frozen import frozen

# Memory that a linker script reserves; only a run shows how much of it is used.
RESERVED = (".stack", ".heap")

# What pyelftools raises for files that are not what they say.
_DAMAGE = (
    *(ELFError, DWARFError, UnicodeDecodeError, LookupError, TypeError, AttributeError),
    *(AssertionError, OverflowError, RecursionError),
)


@frozen
class Piece:
    """Bytes that the file puts into memory, and the address they are loaded to."""

    address: int
    data: bytes


@frozen
class Memories:
    """What a program takes, in bytes. `ram` leaves `reserved` out, the stack and the heap."""

    flash: int
    ram: int
    reserved: int


@contextmanager
def opened(data: bytes) -> Iterator[ELFFile]:
    """The file. Raises ValueError, inside the block too, for any other file."""
    try:
        yield ELFFile(io.BytesIO(data))
    except _DAMAGE as error:
        raise ValueError(f"is not a valid ELF file: {error}") from None


def header(data: bytes) -> Mapping[str, Any]:
    """The ELF header's fields, by the names of the ELF specification. Raises ValueError."""
    with opened(data) as elf:
        header: Mapping[str, Any] = elf.header
        return header


def pieces(data: bytes) -> tuple[Piece, ...]:
    """What the program headers load, by address. Raises ValueError."""
    with opened(data) as elf:
        found = []
        for segment in elf.iter_segments("PT_LOAD"):
            if segment["p_offset"] + segment["p_filesz"] > len(data):
                raise ValueError("is not a valid ELF file: a segment ends beyond the file")
            skipped = _headers(elf) if segment["p_offset"] == 0 else 0
            content = segment.data()[skipped:]
            if content:
                found.append(Piece(segment["p_paddr"] + skipped, content))
        return tuple(sorted(found, key=lambda piece: piece.address))


def _headers(elf: ELFFile) -> int:
    """How many bytes at the file's start are its own headers and the padding after them. A
    linker may load them with the first segment, before the program; images leave them out."""
    stored = (s for s in elf.iter_sections() if in_memory(s) and s["sh_type"] != "SHT_NOBITS")
    starts = [s["sh_offset"] for s in stored if s["sh_size"]]
    return min(starts, default=elf["e_phoff"] + elf["e_phnum"] * elf["e_phentsize"])


def memories(data: bytes) -> Memories:
    """Flash from the program headers; RAM is every section that is written or that start-up code
    copies away from where it was loaded. Raises ValueError."""
    flash = sum(len(piece.data) for piece in pieces(data))
    with opened(data) as elf:
        segments = [s for s in elf.iter_segments("PT_LOAD") if s["p_memsz"]]
        if not elf.num_sections():  # stripped: what is writable, reserved or not
            writable = (s["p_memsz"] for s in segments if s["p_flags"] & P_FLAGS.PF_W)
            return Memories(flash, sum(writable), 0)
        moved = [s for s in segments if s["p_filesz"] and s["p_vaddr"] != s["p_paddr"]]
        ram = reserved = 0
        for section in elf.iter_sections():
            if not in_memory(section):
                continue
            if section.name in RESERVED:
                reserved += section["sh_size"]
            elif section["sh_flags"] & SH_FLAGS.SHF_WRITE or any(
                s.section_in_segment(section) for s in moved
            ):
                ram += section["sh_size"]
        return Memories(flash, ram, reserved)


def in_memory(section: Section) -> bool:
    """Whether a running program has the section's bytes."""
    return bool(section["sh_flags"] & SH_FLAGS.SHF_ALLOC)
