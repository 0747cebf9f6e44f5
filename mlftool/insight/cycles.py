"""An estimate of cycles: every executed instruction at its price on the core (cores.py), with
memory that answers at once, or a flash with wait states. It ranks programs; it is no measurement of
a board.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from mlftool.files import default_cache
from mlftool.frozen import frozen
from mlftool.insight.cores import CORES, FAST, Core, Flash, may_fall
from mlftool.mlf.interface import Interface
from mlftool.progress import step
from mlftool.runtime import toolchain
from mlftool.runtime.boards import Board
from mlftool.runtime.cache import build_once, key_of
from mlftool.runtime.runner import output_of, qemu_command
from mlftool.runtime.vectors import Array
from mlftool.targets import TARGETS

FAILURE = "cycles cannot be estimated"
PLUGIN = Path(__file__).parent / "block_counts.c"
# The test runner's functions, and what they call beside the model.
_RUNNER = re.compile(
    r"main|start\w*|reset_handler|(platform|cpu|board|semihosting)_\w+"
    r"|(prepare|overrun|hash_of|infer|run_\w+|print_\w+|transfer)(\..*)?"
)
_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\s+(\S+)\s*(.*)$")
_LABEL = re.compile(r"^[0-9a-f]+ <(.*)>:$")


@frozen
class Instruction:
    address: int
    function: str
    name: str  # without .w, .f32 and the like
    operands: str


@frozen
class Clocks:
    """Of one inference: instructions that were executed and the cycles they are estimated at."""

    instructions: float
    cycles: float

    @property
    def each(self) -> float:
        """Cycles of an instruction."""
        return self.cycles / self.instructions if self.instructions else 1.0

    def __add__(self, other: Clocks) -> Clocks:
        return Clocks(self.instructions + other.instructions, self.cycles + other.cycles)


NONE = Clocks(0, 0)


def functions(elf: Path, board: Board, inputs: bytes, flash: Flash = FAST) -> Mapping[str, Clocks]:
    """What each function of a model takes of one inference of `inputs`, the bytes of all inputs one
    after the other. The target has to be in CORES. Raises MlfError."""
    with step(f"estimating cycles on {board.title}"):
        counts = _run(elf, board, inputs, 2)
        counts.subtract(_run(elf, board, inputs, 1))
    return priced(list(listing(elf, board.target)), counts, CORES[board.target], flash)


def of_inference(
    elf: Path, board: Board, interface: Interface, sample: Mapping[str, Array], instructions: int
) -> int | None:
    """Cycles of an inference of `sample` that took so many instructions; None where no table has
    the core's prices. Raises MlfError."""
    if board.target not in CORES:
        return None
    data = b"".join(sample[t.name].tobytes() for t in interface.inputs)
    whole = sum(functions(elf, board, data).values(), NONE)
    return round(instructions * whole.each)


def priced(
    listing: Sequence[Instruction], counts: Mapping[int, int], core: Core, flash: Flash = FAST
) -> dict[str, Clocks]:
    """Function -> its clocks, where an address was executed so often."""
    following = {a.address: b.address for a, b in pairwise(listing)}
    found: dict[str, Clocks] = {}
    before: Instruction | None = None
    for i in listing:
        n, after = counts.get(i.address, 0), following.get(i.address, -1)
        if n > 0 and not _RUNNER.fullmatch(i.function):
            passed = min(n, max(0, counts.get(after, 0)))
            size = 4 if after == i.address + 4 else 2
            cycles = n * flash.fetched(core.price(i, before), size)
            cycles += flash.jumped(core.taken) * (n - passed) if may_fall(i) else 0
            function = i.function.split(".", 1)[0]  # gcc's copies are of one function
            found[function] = found.get(function, NONE) + Clocks(n, cycles)
        before = i
    return found


def listing(elf: Path, target: str) -> Iterator[Instruction]:
    """The instructions of a program. Raises MlfError."""
    compiler = toolchain.find(toolchain.compiler_of(TARGETS[target]))[0]
    # Without it objdump shows loads of vectors as those of some coprocessor.
    machine = ["-marmv8.1-m.main"] if "mve" in TARGETS[target].features else []
    objdump = re.sub(r"gcc$|clang$", "objdump", compiler)
    command = [objdump, "-d", *machine, "--no-show-raw-insn", str(elf)]
    function = ""
    for line in output_of(command, elf.parent, FAILURE).splitlines():
        if label := _LABEL.match(line):
            function = label[1]
        elif found := _INSTRUCTION.match(line):
            yield Instruction(int(found[1], 16), function, found[2].split(".")[0], found[3])


def _run(elf: Path, board: Board, inputs: bytes, repetitions: int) -> Counter[int]:
    """Address -> how often it was executed."""
    counts: Counter[int] = Counter()
    with tempfile.TemporaryDirectory(prefix="mlftool-cycles-") as name:
        folder = Path(name)
        (folder / "inputs.bin").write_bytes(inputs)
        arguments = ("inputs.bin", "outputs.bin", str(repetitions))
        command = qemu_command(board, elf.resolve(), arguments)
        command[1:1] = ["-plugin", f"{_plugin()},out=counts"]
        output_of(command, folder, FAILURE)
        for line in (folder / "counts").read_text().splitlines():
            count, *addresses = line.split()
            for address in addresses:
                counts[int(address, 16)] += int(count)
    return counts


def _plugin() -> Path:
    """QEMU's part that counts. Raises MlfError if this computer has no C compiler."""
    command = toolchain.find(toolchain.CC)
    files = {PLUGIN.name: PLUGIN.read_bytes()}
    flags = ("-shared", "-fPIC", "-O2", PLUGIN.name, "-o", "counts.so")

    def build(work: Path) -> None:
        toolchain.compile_c(command, flags, work, "the counter of instructions")

    key = key_of((toolchain.identity(command), *flags), files)
    return build_once(default_cache(), key, files, build, ["counts.so"]) / "counts.so"
