"""Object files of archives: whether they are for this computer, from their ELF headers."""

from __future__ import annotations

import platform
import struct
from collections.abc import Mapping

from mlftool.errors import MlfError, Problem
from mlftool.targets import Target

# e_machine of the ELF specification -> what `platform.machine()` says there
_MACHINES = {
    3: "i686",
    8: "mips",
    20: "ppc",
    21: "ppc64le",
    40: "armv7l",
    62: "x86_64",
    164: "hexagon",
    183: "aarch64",
    243: "riscv64",
}
_OF_TOOLCHAIN = {
    "arm-none-eabi": "armv7l",
    "aarch64-linux-gnu": "aarch64",
    "arm-linux-gnueabihf": "armv7l",
    "powerpc-linux-gnu": "ppc",
}
_ALSO = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686", "arm": "armv7l"}


def machine_of(data: bytes) -> str:
    """The machine an object file is for. Raises ValueError if it is no relocatable ELF file."""
    if len(data) < 52 or data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] not in (1, 2):
        raise ValueError("is no ELF object file")
    kind, machine = struct.unpack_from("<HH" if data[5] == 1 else ">HH", data, 16)
    if kind != 1:
        raise ValueError(f"is an ELF file of type {kind}, expected a relocatable object")
    name = _MACHINES.get(machine, f"machine {machine}")
    return "riscv32" if name == "riscv64" and data[4] == 1 else name


def machine_of_target(target: Target) -> str:
    """The machine of a cross target's objects, by the same names."""
    return _OF_TOOLCHAIN.get(target.toolchain) or f"riscv{target.name[2:4]}"


def section_sizes(data: bytes) -> dict[str, int]:
    """Bytes of each section of an ELF file by name. Raises ValueError if it is none."""
    if data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] not in (1, 2):
        raise ValueError("it is no ELF file")
    order, wide = "<" if data[5] == 1 else ">", data[4] == 2
    # e_shoff, then e_shentsize, e_shnum and e_shstrndx; sh_name, sh_offset and sh_size of each.
    (table,) = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
    each, count, names = struct.unpack_from(order + "3H", data, 58 if wide else 46)
    row = struct.Struct(order + ("I20xQQ" if wide else "I12xII"))
    rows = [row.unpack_from(data, table + i * each) for i in range(count)]
    start = rows[names][1]

    def name(offset: int) -> str:
        return data[start + offset : data.index(b"\0", start + offset)].decode("ascii", "replace")

    return {name(offset): size for offset, _, size in rows}


def check_objects(files: Mapping[str, bytes], machine: str = "") -> None:
    """Raises MlfError naming every object among `files` that cannot be linked for `machine`.

    "" is this computer; other names are those that `machine_of` gives.
    """
    here = machine or platform.machine().lower()
    here = _ALSO.get(here, here)
    place = f"the board is {here}" if machine else f"this computer is {here}"
    problems = []
    for name, data in files.items():
        if not name.endswith(".o"):
            continue
        try:
            found = machine_of(data)
        except ValueError as error:
            problems.append(Problem("MLF0612", str(error), path=name))
            continue
        if found != here:
            text = f"is compiled for {found}; {place}"
            problems.append(Problem("MLF0612", text, path=name))
    if problems:
        raise MlfError(problems)
