"""The named things of a linked program, with their sizes: what an ELF symbol table says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from elftools.dwarf.die import DIE
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mlftool.errors import MlfError, Problem
from mlftool.files import read_plain
from mlftool.frozen import frozen, replace
from mlftool.runtime import elf as elf_file


@frozen
class Symbol:
    """A function or an object, and where its bytes are: in flash, in RAM, or in both if start-up
    code copies it. `unit` is the source file that defines it, "" where the compiler left no word of
    that, as in most C libraries."""

    name: str
    address: int
    size: int
    is_code: bool
    in_flash: bool
    in_ram: bool
    reserved: bool = False  # the stack's or the heap's
    unit: str = ""

    @property
    def base(self) -> str:
        """The name in C: gcc names the copies that it makes `name.constprop.0` and the like."""
        return self.name.split(".", 1)[0]


def symbols(program: Path) -> tuple[Symbol, ...]:
    """Those with a size, by address; of several names for the same bytes one. Raises MlfError."""
    try:
        data = read_plain(program)
        with elf_file.opened(data) as elf:
            return tuple(_symbols(elf))
    except (OSError, ValueError) as error:
        text = f"cannot be measured: {error}"
        help = "name a linked program; link it with -g and without -s"
        raise MlfError(Problem("MLF0609", text, str(program), help=help)) from None


def code_of(found: Sequence[Symbol]) -> dict[str, int]:
    """function -> bytes, its copies and split-off parts with it."""
    sizes: dict[str, int] = {}
    for symbol in found:
        if symbol.is_code:
            sizes[symbol.base] = sizes.get(symbol.base, 0) + symbol.size
    return sizes


def constants_of(found: Sequence[Symbol], step: int) -> dict[str, int]:
    """The constants of a step, in bytes: our C names them step<N>_<role>, in the assembler with
    tvmgen_<module>_ in front. One that several steps share has the first one's name."""
    name = re.compile(rf"(tvmgen_\w+?_)?(step{step}_\w+)")
    matches = ((name.fullmatch(s.base), s.size) for s in found if not s.is_code)
    return {match[2]: size for match, size in matches if match}


def _symbols(elf: ELFFile) -> list[Symbol]:
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        raise ValueError("has no symbol table")
    segments = [s for s in elf.iter_segments("PT_LOAD") if s["p_filesz"]]
    moved = [s for s in segments if s["p_vaddr"] != s["p_paddr"]]
    units = _Units(elf)
    made: dict[int, Symbol] = {}
    file = ""
    for entry in table.iter_symbols():
        kind, index, size = entry["st_info"]["type"], entry["st_shndx"], entry["st_size"]
        if kind == "STT_FILE":
            file = entry.name  # of the local symbols that follow
        if not size or not isinstance(index, int) or kind not in _KINDS:
            continue
        section = elf.get_section(index)
        if not elf_file.in_memory(section):
            continue
        flags = section["sh_flags"]
        is_code = kind == "STT_FUNC" or (kind == "STT_NOTYPE" and flags & SH_FLAGS.SHF_EXECINSTR)
        address = entry["st_value"] & ~int(is_code and elf["e_machine"] == "EM_ARM")  # Thumb's bit
        symbol = Symbol(
            entry.name,
            address,
            size,
            bool(is_code),
            in_flash=section["sh_type"] != "SHT_NOBITS",
            in_ram=bool(flags & SH_FLAGS.SHF_WRITE)
            or any(s.section_in_segment(section) for s in moved),
            reserved=section.name in elf_file.RESERVED,
        )
        is_local = entry["st_info"]["bind"] == "STB_LOCAL"
        unit = units.of(symbol, file if is_local else "")
        made.setdefault(address, replace(symbol, unit=unit))
    return _without_overlaps(sorted(made.values(), key=lambda s: s.address))


_KINDS = ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE")


def _without_overlaps(found: Sequence[Symbol]) -> list[Symbol]:
    """Without symbols inside others, so that sizes add up."""
    kept: list[Symbol] = []
    for symbol in found:
        if not kept or symbol.address >= kept[-1].address + kept[-1].size:
            kept.append(symbol)
    return kept


_DEFINED = ("DW_TAG_subprogram", "DW_TAG_variable")
# The attributes that lead from a definition to the declaration that has its name.
_ORIGINS = ("DW_AT_specification", "DW_AT_abstract_origin")


class _Units:
    """The source file that defines a symbol, from what -g left."""

    def __init__(self, elf: ELFFile) -> None:
        self._by_symbol: dict[str, str] = {}
        self._by_file: dict[str, str] = {}
        self._dwarf = elf.get_dwarf_info() if elf.has_dwarf_info() else None
        self._ranges = self._dwarf.get_aranges() if self._dwarf else None
        for unit in self._dwarf.iter_CUs() if self._dwarf else ():
            self._add(unit.get_top_DIE())

    def of(self, symbol: Symbol, file: str) -> str:
        """`file` is what the symbol table says: a name without its folder, or "" of a global."""
        if symbol.base in self._by_symbol:
            return self._by_symbol[symbol.base]
        return self._by_file.get(file.rpartition("/")[2], "") or self._at(symbol) or file

    def _at(self, symbol: Symbol) -> str:
        """Of code at an address: a function that gcc found equal to another has no entry."""
        if not symbol.is_code or self._dwarf is None or self._ranges is None:
            return ""
        offset = self._ranges.cu_offset_at_addr(symbol.address)
        if offset is None:
            return ""
        return _text(self._dwarf.get_CU_at(offset).get_top_DIE(), "DW_AT_name")

    def _add(self, top: DIE) -> None:
        source = _text(top, "DW_AT_name")
        self._by_file[source.rpartition("/")[2]] = source
        for die in top.iter_children():
            if die.tag in _DEFINED and ("DW_AT_location" in die.attributes or _has_code(die)):
                self._by_symbol.setdefault(_name(die), source)


def _name(die: DIE) -> str:
    """Of a definition, or of the declarations that it refers to."""
    while origin := next((a for a in _ORIGINS if a in die.attributes), ""):
        die = die.get_DIE_from_attribute(origin)
    return _text(die, "DW_AT_name")


def _has_code(die: DIE) -> bool:
    return "DW_AT_low_pc" in die.attributes or "DW_AT_ranges" in die.attributes


def _text(die: DIE, name: str) -> str:
    value = die.attributes[name].value if name in die.attributes else b""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
