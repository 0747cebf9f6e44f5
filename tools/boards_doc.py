#!/usr/bin/env python3
"""Writes what must name every board and C compiler: the tables of docs/boards.md, a --config for
each board in .bazelrc, and in bazelw what brings the programs.

python3 tools/boards_doc.py            write them
python3 tools/boards_doc.py --check    exit 1 if one of the files is out of date
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from mlftool.runtime import toolchain  # noqa: E402
from mlftool.runtime.boards import NAMED, Board  # noqa: E402
from mlftool.targets import TARGETS  # noqa: E402

PAGE = ROOT / "docs" / "boards.md"
LINES = r"(# {name}: tools/boards_doc.py\n).*?(\n *# end\n)"
TABLE = r"(<!-- {name}: tools/boards_doc.py -->\n).*?(\n<!-- end -->)"


def code(words: Iterable[str]) -> str:
    """Words in a cell, as one types them."""
    return ", ".join(f"`{word}`" for word in words)


def board_row(board: Board) -> str:
    """A board with all targets that run on it."""
    simulator = " ".join(board.simulator)
    return f"| `{board.name}` | {board.title} | {code(board.targets)} | `{simulator}` |"


def boards() -> str:
    """The boards, by the order of their targets."""
    rows = ["| board | | targets | simulated by |", "|---|---|---|---|"]
    order = list(TARGETS)
    found = sorted(NAMED.values(), key=lambda board: order.index(board.targets[0]))
    return "\n".join(rows + [board_row(board) for board in found])


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


def configs() -> str:
    """The lines of .bazelrc."""
    return "\n".join(f"build:{name} --platforms=//rules/platforms:{name}" for name in sorted(NAMED))


def installs() -> str:
    """Lines of bazelw: programs that only tests need, and what brings them. It knows by itself what
    the usual board needs."""
    programs = [p for p in toolchain.CROSS.values() if p != toolchain.ARM_GCC]
    simulated = {p.packages: p for p in toolchain.SIMULATORS.values() if p != toolchain.QEMU_ARM}
    return "\n".join(
        f"    have {p.name} || echo {p.packages}" for p in (*programs, *simulated.values())
    )


def page() -> str:
    """The page with its tables as they should be."""
    return written(PAGE)


PARTS = {
    PAGE: {"boards": boards, "compilers": compilers, "simulators": simulators},
    ROOT / ".bazelrc": {"boards": configs},
    ROOT / "bazelw": {"programs": installs},
}


def written(file: Path) -> str:
    """A file with its tables as they should be."""
    text = file.read_text()
    for name, table in PARTS[file].items():
        form = TABLE if file == PAGE else LINES
        text, count = re.subn(form.format(name=name), rf"\1{table()}\2", text, flags=re.DOTALL)
        if count != 1:
            sys.exit(f"{file.name}: expected one place for the table '{name}', found {count}")
    return text


def main(arguments: list[str]) -> int:
    """Writes the files, or says whether they are current."""
    texts = {file: written(file) for file in PARTS}
    if "--check" in arguments:
        return 0 if all(file.read_text() == text for file, text in texts.items()) else 1
    for file, text in texts.items():
        file.write_text(text)
    # Which shows the configurations.
    subprocess.run([sys.executable, ROOT / "tools" / "rules_doc.py"], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
