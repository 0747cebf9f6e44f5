"""An estimate of Cortex-M4 cycles: every executed instruction at its price in Arm's manual, with
memory that answers at once. It ranks programs; it is no measurement of a board.

Prices: 1 for arithmetic, multiplications and stores; 2 for a load, 1 right behind another single
load or store; 1 and 1 per register for many at once; 1 for a branch and 2 more if it is taken; 7
for a division; floats: 1, 3 for a product that is added, 14 for a division or a root.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from corpus import BUILT, ROOT, Network

from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import Interface
from mlftool.runtime.runner import qemu_command

# The test runner's functions, and what they call beside the model.
_RUNNER = re.compile(
    r"main|start\w*|reset_handler|(platform|cpu|board|semihosting)_\w+"
    r"|(prepare|overrun|hash_of|infer|run_\w+|print_\w+|transfer)(\..*)?"
)
_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\s+(\S+)\s*(.*)$")
_LABEL = re.compile(r"^[0-9a-f]+ <(.*)>:$")
_BRANCH = re.compile(r"(bl?x?|cbn?z|b[a-z]{2}|tb[bh])$")
_SINGLE = re.compile(r"v?(ldr|str)")
_PRICES = (
    (re.compile(r"[su]div"), 7),
    (re.compile(r"v(div|sqrt)"), 14),
    (re.compile(r"v(fma|fms|fnm|mla|mls|nmla|nmls)"), 3),
)


@dataclass(frozen=True)
class Instruction:
    address: int
    function: str
    name: str  # without .w, .f32 and the like
    operands: str


def estimate(network: Network, elf: Path, interface: Interface) -> tuple[int, int]:
    """Instructions and cycles of one inference of a Cortex-M4's firmware."""
    counts = _run(network, elf, interface, 3)
    counts.subtract(_run(network, elf, interface, 1))
    instructions = cycles = 0.0
    before = ""
    listing = list(_listing(elf))
    following = {a.address: b.address for a, b in pairwise(listing)}
    for i in listing:
        n = counts[i.address]
        if n > 0 and not _RUNNER.fullmatch(i.function):
            instructions += n
            passed = min(n, max(0, counts[following.get(i.address, -1)]))
            cycles += n * _price(i, before) + (2 * (n - passed) if _may_fall(i) else 0)
        before = i.name
    return round(instructions / 2), round(cycles / 2)


def _may_fall(i: Instruction) -> bool:
    """Whether it is a branch with a condition, which may go on with the next instruction."""
    return bool(_BRANCH.match(i.name)) and i.name not in ("b", "bl", "bx", "blx", "tbb", "tbh")


def _price(i: Instruction, before: str) -> float:
    """Cycles of one execution; a branch with a condition as if it were not taken."""
    if _BRANCH.match(i.name):
        return 1 if _may_fall(i) else 3
    if re.match(r"v?(ldm|stm|pop|push)|[ls][td]rd", i.name):
        pair = re.match(r"[ls][td]rd", i.name)
        return 3 if pair else 1 + _registers(i.operands)
    if re.match(r"v?ldr", i.name):
        return 1 if _SINGLE.match(before) else 2
    return next((price for pattern, price in _PRICES if pattern.match(i.name)), 1)


def _registers(operands: str) -> int:
    """How many a list such as {r4, r5-r7, lr} has."""
    count = 0
    for part in operands[operands.index("{") + 1 : operands.index("}")].split(","):
        ends = re.findall(r"\d+", part)
        count += int(ends[1]) - int(ends[0]) + 1 if len(ends) == 2 else 1
    return count


def _listing(elf: Path) -> Iterator[Instruction]:
    command = ["arm-none-eabi-objdump", "-d", "--no-show-raw-insn", str(elf)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    function = ""
    for line in done.stdout.splitlines():
        if label := _LABEL.match(line):
            function = label[1]
        elif found := _INSTRUCTION.match(line):
            yield Instruction(int(found[1], 16), function, found[2].split(".")[0], found[3])


def _run(network: Network, elf: Path, interface: Interface, repetitions: int) -> Counter[int]:
    """Address -> how often it was executed."""
    counts: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        data = b"".join(network.sample[t.name].tobytes() for t in interface.inputs)
        (Path(folder) / "inputs.bin").write_bytes(data)
        arguments = ("inputs.bin", "outputs.bin", str(repetitions))
        command = qemu_command(BOARDS["cortex-m4"], elf.resolve(), arguments)
        command[1:1] = ["-plugin", f"{_plugin()},out=counts"]
        subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        for line in (Path(folder) / "counts").read_text().splitlines():
            count, *addresses = line.split()
            for address in addresses:
                counts[int(address, 16)] += int(count)
    return counts


@cache
def _plugin() -> Path:
    library = BUILT / "block_counts.so"
    source = ROOT / "benchmarks" / "block_counts.c"
    command = ["gcc", "-shared", "-fPIC", "-O2", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library
