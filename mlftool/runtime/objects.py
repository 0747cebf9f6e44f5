"""Object files of archives: whether they are for this computer, from their ELF headers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.runtime import elf

# e_machine of the ELF specification -> what `platform.machine()` says there
_MACHINES = {
    "EM_386": "i686",
    "EM_MIPS": "mips",
    "EM_PPC": "ppc",
    "EM_PPC64": "ppc64le",
    "EM_ARM": "armv7l",
    "EM_X86_64": "x86_64",
    "EM_QDSP6": "hexagon",
    "EM_AARCH64": "aarch64",
    "EM_RISCV": "riscv64",
}
_ALSO = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686", "arm": "armv7l"}


def machine_of(data: bytes) -> str:
    """The machine an object file is for. Raises ValueError if it is not a relocatable ELF file."""
    try:
        header = elf.header(data)
    except ValueError:
        raise ValueError("is not an ELF object file") from None
    kind = header["e_type"]
    if kind != "ET_REL":
        raise ValueError(f"is an ELF file of type {kind}, expected a relocatable object")
    if header["e_shoff"] + header["e_shnum"] * header["e_shentsize"] > len(data):
        raise ValueError(f"ends after {len(data)} bytes, within its sections")
    return _machine(header)


def check_machine(data: bytes) -> None:
    """Raises ValueError unless an ELF file is for this computer."""
    found, here = _machine(elf.header(data)), _here()
    if found != here:
        raise ValueError(f"is compiled for {found}; this computer is {here}")


def _here() -> str:
    name = platform.machine().lower()
    return _ALSO.get(name, name)


def _machine(header: Mapping[str, Any]) -> str:
    machine = header["e_machine"]
    name = _MACHINES.get(machine, f"machine {machine}")
    narrow = header["e_ident"]["EI_CLASS"] == "ELFCLASS32"
    return "riscv32" if name == "riscv64" and narrow else name


def check_objects(files: Mapping[str, bytes], machine: str = "") -> None:
    """Raises MlfError naming every object among `files` that cannot be linked for `machine`.

    "" is this computer; other names are those that `machine_of` gives.
    """
    here = machine or _here()
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
