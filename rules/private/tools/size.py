"""`size PROGRAM LABEL OUT.json OUT.txt ARCHIVE...`: what each model takes of a linked program.

Read from the program's symbols, so it is what the linker kept: a local symbol belongs to the model
whose source file stands before it in the table, a global one to the model that is part of its name.
Padding and literals without a symbol belong to no layer; they are in the line `other`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath
from typing import Any

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

from mlftool.errors import MlfError, Problem, exits
from mlftool.mlf import read_tar, write_atomically
from mlftool.mlf.archive import read
from mlftool.runtime import elf as elf_file

COLUMNS = ("code", "constants", "flash", "ram", "arena")


@dataclass(frozen=True)
class Model:
    """A module of an archive, and what its symbols are known by."""

    module: str
    target: str
    arena_bytes: int
    sources: frozenset[str] = field(default_factory=frozenset)  # without their suffix


@dataclass
class Sizes:
    """Bytes of one model. Linker scripts put constants among the code; symbols tell them apart."""

    code_bytes: int = 0
    constants_bytes: int = 0
    data_bytes: int = 0  # initialised: in flash, and copied to RAM
    bss_bytes: int = 0

    def add(self, section: Section, symbol: Any) -> None:
        """Counts a symbol that lies in `section`."""
        size = symbol["st_size"]
        if section["sh_type"] == "SHT_NOBITS":
            self.bss_bytes += size
        elif section["sh_flags"] & SH_FLAGS.SHF_WRITE:
            self.data_bytes += size
        elif symbol["st_info"]["type"] == "STT_FUNC":
            self.code_bytes += size
        else:
            self.constants_bytes += size

    def row(self) -> dict[str, int]:
        """All figures, with those that people ask for."""
        flash = self.code_bytes + self.constants_bytes + self.data_bytes
        return {**asdict(self), "flash_bytes": flash, "ram_bytes": self.data_bytes + self.bss_bytes}


def models_of(archives: Sequence[Path]) -> list[Model]:
    """Every module of the archives."""
    found = []
    for path in archives:
        for record in read(read_tar(path), str(path)).modules:
            arena = sum(memory.workspace_bytes for memory in record.memory.main)
            stems = frozenset(PurePath(name).stem for name in record.sources)
            target = record.targets[0].text if record.targets else ""
            found.append(Model(record.name, target, arena, stems))
    return found


def owner(models: Sequence[Model], file: str, symbol: str, is_local: bool) -> Model | None:
    """Whose a symbol is: by its file if only that file can see it, else by its name."""
    if is_local:
        return next((m for m in models if PurePath(file).stem in m.sources), None)
    names = [m for m in models if symbol.startswith(f"tvmgen_{m.module.lower()}_")]
    return max(names, key=lambda m: len(m.module), default=None)


def symbols(elf: ELFFile) -> Iterator[tuple[str, Any]]:
    """(source file, symbol) in the table's order; a program without a table has none."""
    file = ""
    for table in elf.iter_sections():
        if not isinstance(table, SymbolTableSection) or table.name != ".symtab":
            continue
        for symbol in table.iter_symbols():
            if symbol["st_info"]["type"] == "STT_FILE":
                file = symbol.name
            elif symbol["st_size"] and isinstance(symbol["st_shndx"], int):
                yield file, symbol


def measure(program: Path, models: Sequence[Model]) -> tuple[dict[str, Sizes], dict[str, int]]:
    """Sizes of each module by name, flash and RAM of the program. Raises MlfError."""
    parts = {m.module: Sizes() for m in models}
    try:
        data = program.read_bytes()
        total = elf_file.memories(data)
        with elf_file.opened(data) as elf:
            sections: list[Section] = list(elf.iter_sections())
            # Two names of one place count once: the linker may have folded equal functions.
            seen = set()
            for file, symbol in symbols(elf):
                section = sections[symbol["st_shndx"]]
                is_local = symbol["st_info"]["bind"] == "STB_LOCAL"
                model = owner(models, file, symbol.name, is_local)
                place = (symbol["st_shndx"], symbol["st_value"])
                kept = elf_file.in_memory(section) and section.name not in elf_file.RESERVED
                if model and kept and place not in seen:
                    seen.add(place)
                    parts[model.module].add(section, symbol)
    except (ValueError, OSError) as error:
        raise MlfError(Problem("MLF0609", f"cannot be measured: {error}", str(program))) from None
    return parts, {"flash_bytes": total.flash, "ram_bytes": total.ram}


def report(label: str, program: Path, models: Sequence[Model]) -> dict[str, Any]:
    """Everything as JSON."""
    parts, total = measure(program, models)
    rows: list[dict[str, Any]] = [
        {
            "module": m.module,
            "target": m.target,
            "arena_bytes": m.arena_bytes,
            **parts[m.module].row(),
        }
        for m in sorted(models, key=lambda m: m.module)
    ]
    other = {name: total[name] - sum(row[name] for row in rows) for name in total}
    return {
        "schema_version": 1,
        "program": label,
        "models": rows,
        "other": other,
        "total": {**total, "arena_bytes": sum(m.arena_bytes for m in models)},
    }


def table(data: Mapping[str, Any]) -> str:
    """The report for people: a row per model, what is left, and the sum."""
    rows = [(row["module"], row) for row in data["models"]]
    rows += [("other", data["other"]), ("total", data["total"])]
    width = max(len(name) for name, _row in rows)
    lines = [data["program"], " ".join([" " * width, *(f"{column:>11}" for column in COLUMNS)])]
    for name, row in rows:
        cells = [row.get(f"{column}_bytes") for column in COLUMNS]
        shown = ["-" if cell is None else f"{cell:,}" for cell in cells]
        lines.append(" ".join([f"{name:{width}}", *(f"{cell:>11}" for cell in shown)]))
    return "\n".join(lines) + "\n"


@exits
def main(arguments: list[str]) -> None:
    """Exit code as the command line's."""
    program, label, json_file, text_file, *archives = arguments
    data = report(label, Path(program), models_of([Path(a) for a in archives]))
    write_atomically(Path(json_file), (json.dumps(data, indent=2) + "\n").encode())
    write_atomically(Path(text_file), table(data).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
