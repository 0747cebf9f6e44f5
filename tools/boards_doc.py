#!/usr/bin/env python3
"""Writes the tables of docs/boards.md: boards, C compilers, and the packages that bring them.

python3 tools/boards_doc.py            write them
python3 tools/boards_doc.py --check    exit 1 if the page is out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mlftool.runtime import toolchain  # noqa: E402
from mlftool.runtime.boards import BOARDS, Board  # noqa: E402
from mlftool.targets import TARGETS  # noqa: E402

PAGE = ROOT / "docs" / "boards.md"
TABLE = r"(<!-- {name}: tools/boards_doc.py -->\n).*?(\n<!-- end -->)"


def code(words: Iterable[str]) -> str:
    """Words in a cell, as one types them."""
    return ", ".join(f"`{word}`" for word in words)


def board_row(board: Board) -> str:
    """A board with all targets that run on it by default."""
    targets = [name for name, other in BOARDS.items() if other.name == board.name]
    return f"| `{board.name}` | {board.title} | {code(targets)} | `{' '.join(board.simulator)}` |"


def boards() -> str:
    """The boards, by the order of their targets."""
    rows = ["| board | | targets | simulated by |", "|---|---|---|---|"]
    unique = {board.name: board for board in BOARDS.values()}
    return "\n".join(rows + [board_row(board) for board in unique.values()])


def compilers() -> str:
    """The usual compilers, then those that a constraint chooses."""
    rows = ["| platforms | C compiler | Debian's packages |", "|---|---|---|"]
    for prefix, program in toolchain.CROSS.items():
        targets = [name for name, target in TARGETS.items() if target.toolchain == prefix]
        rows.append(f"| {code(targets)} | {compiler(program)} | {code(program.packages.split())} |")
    for other in toolchain.ALTERNATIVES:
        targets = [name for name, target in TARGETS.items() if target.toolchain == other.toolchain]
        platforms = code([f"{name}_{other.name}" for name in targets])
        packages = code(other.program.packages.split())
        rows.append(f"| {platforms} | {compiler(other.program)} | {packages} |")
    return "\n".join(rows)


def compiler(program: toolchain.Program) -> str:
    """A compiler with the option that decides, if any."""
    return f"`{' '.join((program.name, *program.flags[:1]))}`"


def simulators() -> str:
    """Simulators and the packages that bring them."""
    rows = ["| simulator | Debian's package |", "|---|---|"]
    rows += [f"| `{name}` | `{p.packages}` |" for name, p in toolchain.SIMULATORS.items()]
    return "\n".join(rows)


def page() -> str:
    """The page with its tables as they should be."""
    text = PAGE.read_text()
    for name, table in {"boards": boards, "compilers": compilers, "simulators": simulators}.items():
        text, count = re.subn(TABLE.format(name=name), rf"\1{table()}\2", text, flags=re.DOTALL)
        if count != 1:
            sys.exit(f"docs/boards.md: expected one place for the table '{name}', found {count}")
    return text


def main(arguments: list[str]) -> int:
    """Writes the page, or says whether it is current."""
    text = page()
    if "--check" in arguments:
        return 0 if PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
