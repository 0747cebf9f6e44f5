"""Where a module's instructions go, layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from mlftool import table
from mlftool.compile import compile_module
from mlftool.describe import bundle as bundle_of
from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen, replace
from mlftool.insight import cycles
from mlftool.insight.cores import CORES
from mlftool.insight.description import described
from mlftool.insight.layers import Layer, layers
from mlftool.insight.subject import Subject, board_for
from mlftool.insight.symbols import code_of, constants_of, symbols
from mlftool.insight.whole import NOTHING, Whole, inference
from mlftool.module import Module, ModuleSpec
from mlftool.runtime.boards import Board
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.table import Cell, Percent, Ratio, Table
from mlftool.tune.marks import Sample, count
from mlftool.tune.search import sample_of
from mlftool.width import filled

N = TypeVar("N", int, float)
NOTE_COLUMNS = 80


@frozen
class Cost:
    """A layer, what it took, and the bytes of its function, which `sharers` layers call. `cycles`
    are estimated; None where no table has the core's prices."""

    layer: Layer
    instructions: int | None
    code_bytes: int
    sharers: int
    cycles: int | None = None


@frozen
class Profile:
    """A module on a board: its layers in the order in which they run. `flags` are gcc's, and
    `missing` says what could not be found out, and why. `between` is what the whole takes more
    than the layers, for calls and an executor, or less, as the counter is read between layers."""

    name: str
    module: str
    target: str
    board: str
    flags: str
    instructions: int
    costs: tuple[Cost, ...]
    missing: tuple[str, ...] = ()
    between: Whole = NOTHING

    @property
    def macs(self) -> int | None:
        return _sum(c.layer.macs for c in self.costs)

    @property
    def cycles(self) -> int | None:
        return _sum([*(c.cycles for c in self.costs), self.between.cycles])

    @property
    def least(self) -> float | None:
        return _sum(c.layer.least for c in self.costs)

    @property
    def weights_bytes(self) -> int | None:
        """Of all layers; constants that several share count once."""
        found: dict[str, int] = {}
        for c in self.costs:
            if c.layer.constants is None:
                return None
            found |= c.layer.constants
        return sum(found.values())

    @property
    def code_bytes(self) -> int:
        """Of all kernels; functions that several layers share count once."""
        return sum({c.layer.function: c.code_bytes for c in self.costs}.values())

    @property
    def moved_bytes(self) -> int | None:
        return _sum(c.layer.moved_bytes for c in self.costs)


def _sum(numbers: Iterable[N | None]) -> N | None:
    """None if one is not known."""
    known = list(numbers)
    return None if None in known else sum(n for n in known if n is not None)


def profile(
    subject: Subject,
    board: str | None = None,
    flags: str = "",
    inputs: Path | None = None,
    estimate: bool = True,
    whole: Whole | None = None,
) -> Profile:
    """Counts one inference, on the first sample of `inputs` or on a pattern. Raises MlfError.

    `flags` is gcc's level, "" for the one that the module is made for. What is counted of layers
    are the kernels, which all executors share, called one after the other in plain C; they and what
    is between them are the `whole` inference, which is counted here if it is not known. With
    `estimate` also in cycles, where there is a table for the core.
    """
    place = board_for(subject.interface.target, board, subject.file)
    flags = flags or subject.interface.flag
    if subject.compiled is None:
        return _of_archive(subject, place, flags, inputs)
    found = measured(_plain(subject.compiled), place, flags, inputs, subject.name, estimate)
    if whole is None:
        sample = sample_of(subject.interface, inputs)
        whole = inference(subject, place, flags, sample, found.cycles is not None)
    return _between(found, whole)


def _between(found: Profile, whole: Whole) -> Profile:
    """The profile of the whole inference, with what is between the layers."""
    instructions = whole.instructions - found.instructions
    known = found.cycles is not None and whole.cycles is not None
    cycles = (whole.cycles or 0) - (found.cycles or 0) if known else 0
    return replace(found, instructions=whole.instructions, between=Whole(instructions, cycles))


def measured(
    module: Module,
    board: Board,
    flags: str,
    inputs: Path | None = None,
    name: str = "",
    estimate: bool = False,
) -> Profile:
    """The profile of a module of executor aot with interface c. Raises MlfError."""
    interface = read_interface(bundle_of([module]), module.spec.module_name)
    sample = sample_of(interface, inputs)
    return counted_on(module, board, flags, sample, name, estimate)


def counted_on(
    module: Module, board: Board, flags: str, sample: Sample, name: str, estimate: bool = False
) -> Profile:
    """The same on a given sample."""
    counted = count(module, board, sample, flags)
    steps = layers(module)
    if len(counted.steps) != len(steps):
        text = f"{len(counted.steps)} layers were counted, expected {len(steps)}: a bug in mlftool"
        raise MlfError(Problem("MLF0605", text))
    code = code_of(symbols(counted.firmware))
    users = [layer.function for layer in steps]
    costs = tuple(
        Cost(layer, n, code.get(layer.function, 0), users.count(layer.function))
        for layer, n in zip(steps, counted.steps, strict=True)
    )
    missing: tuple[str, ...] = ()
    if estimate and board.target in CORES:
        try:
            costs = _estimated(costs, cycles.functions(counted.firmware, board, counted.inputs))
        except MlfError as error:  # what was counted is there; this needs more of the computer
            missing = (f"cycles: {error.problems[0].message}",)
    about = (module.spec.module_name, module.program.target.name, board.title, flags)
    return Profile(name, *about, counted.total, costs, missing)


def _estimated(costs: Sequence[Cost], found: Mapping[str, cycles.Clocks]) -> tuple[Cost, ...]:
    """With cycles: a layer's instructions at what those of its function cost on average, and what
    the function calls at the average of all that is called."""
    counted: dict[str, int] = {}
    for c in costs:
        counted[c.layer.function] = counted.get(c.layer.function, 0) + (c.instructions or 0)
    called = sum((t for name, t in found.items() if name not in counted), cycles.NONE)
    return tuple(
        replace(c, cycles=_cycles(c, counted[c.layer.function], found, called)) for c in costs
    )


def _cycles(
    cost: Cost, counted: int, found: Mapping[str, cycles.Clocks], called: cycles.Clocks
) -> int:
    own = found.get(cost.layer.function, cycles.NONE)
    inside = min(1.0, own.instructions / counted) if counted else 1.0
    price = inside * own.each + (1 - inside) * called.each
    return round((cost.instructions or 0) * price)


def _of_archive(subject: Subject, board: Board, flags: str, inputs: Path | None) -> Profile:
    """What can be said of an archive: its whole inference, and what a linked program holds."""
    interface, said = subject.interface, described(subject.record, subject.file)
    elf = link_firmware(subject.bundle, interface, board, optimise=flags)
    result = run_on_board(elf, board, interface, [sample_of(interface, inputs)])
    found = symbols(elf)
    code = code_of(found)
    if said is None:
        names = subject.record.memory.operators
        own = [
            s.base for s in found if s.is_code and (s.base.startswith("tvmgen_") or s.base in names)
        ]
        steps = [Layer(k, "", "", "", f, None, None) for k, f in enumerate(dict.fromkeys(own))]
    else:
        steps = [
            Layer(k, n.name, n.op, n.kernel, n.function, n.macs, constants_of(found, k))
            for k, n in enumerate(said.nodes)
        ]
    users = [s.function for s in steps]
    costs = tuple(Cost(s, None, code.get(s.function, 0), users.count(s.function)) for s in steps)
    instructions = round(result.figures["instructions"])
    missing = [
        "the instructions of each layer: an archive has no marks between its layers; give the "
        "model or the manifest's entry that it was made from"
    ]
    if said is None:
        missing.append(
            "layers, kernels and weights: the archive does not say what its functions compute"
        )
    return Profile(
        *(subject.name, interface.module, board.target, board.title, flags),
        *(instructions, costs, tuple(missing)),
    )


def _plain(module: Module) -> Module:
    """The module as plain C calls its kernels."""
    spec = module.spec
    if spec.executor == "aot" and spec.interface_api in (None, "c"):
        return module
    plain = {"interface_api": None, "unpacked_api": None, "link_params": None, "system_lib": False}
    changed: ModuleSpec = replace(spec, executor="aot", **plain)  # type: ignore[arg-type]
    return compile_module(changed)


def by_cost(profile: Profile) -> list[Cost]:
    """The dearest layer first; without counts, the one with the most multiplications."""

    def cost(c: Cost) -> tuple[int, ...]:
        size = c.code_bytes + (c.layer.weights_bytes or 0)
        return -(c.instructions or 0), -(c.layer.macs or 0), -size, c.layer.step

    return sorted(profile.costs, key=cost)


HEADS = (
    *("step", "instructions", "share", "cycles", "per MAC", "x least", "MACs"),
    *("weights", "code", "moved", "kernel", "operators", "layer"),
)
# The same, as scripts like to have them.
COLUMNS = (
    *("step", "instructions", "share", "cycles", "instructions_per_mac", "times_least", "macs"),
    *("weights_bytes", "code_bytes", "moved_bytes", "kernel", "operators", "layer"),
)


def tabled(costs: Sequence[Cost], whole: Profile) -> Table:
    """A line for each layer, and their sum."""
    total = whole.instructions
    rows = tuple(_row(c, total) for c in costs)
    if whole.between.instructions:
        share = Percent(whole.between.instructions / total)
        own = (None, whole.between.instructions, share, whole.between.cycles, *[None] * 6)
        rows += ((*own, "", "", "between layers"),)
    last: tuple[Cell, ...] = (
        *("", total, Percent(1), whole.cycles),
        *(_per(total, whole.macs), _per(total, whole.least)),
        *(whole.macs, whole.weights_bytes, whole.code_bytes, whole.moved_bytes),
        *("", "", f"all {len(costs)}"),
    )
    return Table(HEADS, rows, last)


def _row(cost: Cost, total: int) -> tuple[Cell, ...]:
    layer, n = cost.layer, cost.instructions
    return (
        *(layer.step, n, None if n is None else Percent(n / total if total else 0)),
        *(cost.cycles, _per(n, layer.macs), _per(n, layer.least)),
        *(layer.macs, layer.weights_bytes, cost.code_bytes, layer.moved_bytes),
        *(layer.kernel, layer.op, layer.name or layer.function),
    )


def _per(n: int | None, of: float | None) -> Ratio | None:
    return Ratio(n / of) if of and n is not None else None


def several(profiles: Sequence[Profile]) -> Table:
    """One table for programs, a line for each layer of each profile in the order they run."""
    rows = [(p.name, p.target, *_row(c, p.instructions)) for p in profiles for c in p.costs]
    return Table(("name", "target", *COLUMNS), tuple(rows))


def text(whole: Profile, markdown: bool = False) -> str:
    """The report for people, the dearest layer first."""
    title = f"{whole.name} on {whole.target} ({whole.board}), gcc {whole.flags}"
    form = table.markdown if markdown else table.text
    shown = tabled(by_cost(whole), whole)
    shown = shown if whole.cycles is not None else table.without(shown, "cycles")
    lines = [title, "", form(shown), ""]
    lines += (filled(note, NOTE_COLUMNS) for note in _notes(whole))
    return "\n".join(lines)


def _notes(whole: Profile) -> Iterator[str]:
    """What the columns mean, and what is not in them."""
    yield (
        "instructions: counted by QEMU, to within 40 for each layer; weights, code and moved: "
        "bytes. 'x least': times what the multiplications alone need on this core."
    )
    if whole.between.instructions:
        yield (
            "between layers: what the whole inference takes more than the layers' sum, for calls, "
            "or less, since the counter is read only for the layers' figures."
        )
    if whole.cycles is not None:
        yield "cycles: estimated instruction by instruction, with memory that never waits."
    yield from _shared(whole.costs)
    yield from (f"not known: {what}" for what in whole.missing)


def _shared(costs: Sequence[Cost]) -> Iterator[str]:
    """Why the sums of bytes are less than the columns."""
    functions = {c.layer.function for c in costs if c.sharers > 1}
    users = Counter(name for c in costs for name in c.layer.constants or ())
    constants = [name for name, n in users.items() if n > 1]
    for found, kind in ((functions, "function"), (constants, "constant")):
        if found:
            one = len(found) == 1
            are, its = (f"{kind} is", "its") if one else (f"{kind}s are", "their")
            yield f"{len(found)} {are} shared by several layers: the sum has {its} bytes once."


def to_json(whole: Profile) -> dict[str, Any]:
    """The same for scripts, in the order in which layers run; new versions only add keys."""
    return {
        "name": whole.name,
        "module": whole.module,
        "target": whole.target,
        "board": whole.board,
        "flags": whole.flags,
        "missing": list(whole.missing),
        "totals": {
            "instructions": whole.instructions,
            "cycles": whole.cycles,
            "between_instructions": whole.between.instructions,
            "between_cycles": whole.between.cycles,
            "macs": whole.macs,
            "least_instructions": _rounded(whole.least),
            "weights_bytes": whole.weights_bytes,
            "code_bytes": whole.code_bytes,
            "moved_bytes": whole.moved_bytes,
        },
        "layers": [_json(c) for c in whole.costs],
    }


def _json(cost: Cost) -> Mapping[str, Any]:
    data = asdict(cost.layer)
    least, constants = data.pop("least"), data.pop("constants")
    return {
        **data,
        "instructions": cost.instructions,
        "cycles": cost.cycles,
        "least_instructions": _rounded(least),
        "weights_bytes": cost.layer.weights_bytes,
        "code_bytes": cost.code_bytes,
        "code_sharers": cost.sharers,
        "constants": constants,
    }


def _rounded(number: float | None) -> int | None:
    return None if number is None else round(number)
