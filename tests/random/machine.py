"""Compiling networks with options of all kinds, running them, and saying what is wrong.

Networks are built and run in batches: one program for this computer under sanitizers, and one for
each simulated board that some of them run on.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from apart import each_apart
from batch import program_of
from board_machines import flags_of, is_here, machine_of
from grow import Feed, Network, is_large
from judge import Judge
from programs import HERE, SANITIZED, Build, Machine, run_programs
from units import Program

from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.plan.program import Program as Plan
from mlftool.plan.select import Choose
from mlftool.targets import TARGETS

POOLS = ("fast=256@.bss.fast", "middle=3KiB@.bss.middle", "slow=4MiB@.bss.slow")


@dataclass(frozen=True, eq=False)
class Way:
    """How a network is compiled and where it runs: on the board of target `board`, "" for here.
    `same`: its bits are those of the first way. `kernel`: which of those that can compute a node is
    taken, 0 being the one that the compiler takes unasked."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    board: str = ""
    same: bool = True
    kernel: int = 0


PLAIN = replace(TARGETS["host"], features=frozenset({"fpu"}))
SOFT = replace(TARGETS["host"], features=frozenset({"narrow"}))
REGISTERS = replace(TARGETS["host"], features=frozenset({"fpu", "registers"}))
DSP = replace(TARGETS["host"], features=frozenset({"fpu", "dsp"}))  # its instructions in plain C
FIRST = Way("host")
WAYS = (
    Way("workspace_io", {"workspace_io": True}),
    Way("patches", {"patches": "3"}),
    Way("patches in the workspace", {"patches": "auto", "workspace_io": True}),
    Way("pools", {"pools": POOLS}),
    Way("pools with inputs and outputs", {"pools": POOLS, "workspace_io": True}),
    Way("size", {"optimize": "size"}),
    Way("size in patches", {"optimize": "size", "patches": "2", "workspace_io": True}),
    Way("plain", {"target": PLAIN}),
    Way("plain for size", {"target": PLAIN, "optimize": "size", "workspace_io": True}),
    Way("soft", {"target": SOFT}),
    Way("registers", {"target": REGISTERS}),
    Way("dsp", {"target": DSP}),
    Way("weights in a file", {"target": DSP, "pools": POOLS}),
    Way("bytecode", {"executor": "vm"}),
    Way("fused", {"float_mode": "fused"}, same=False),
    Way("level 0", {"opt_level": 0, "workspace_io": True}, same=False),
    Way("level 1", {"opt_level": 1}, same=False),
    Way("level 2", {"opt_level": 2, "target": PLAIN}, same=False),
)


def _board(target: str, how: str = "", **options: Any) -> Way:
    return Way(f"{target} {how}".rstrip(), {"target": target, **options}, board=target)


# A batch shares one of them, and with it a program.
BOARD_WAYS = (
    _board("cortex-m4"),
    _board("cortex-m0"),
    _board("cortex-m55"),
    _board("cortex-m4", "for size", optimize="size"),
    _board("rv32imc"),
    _board("cortex-m4", "in patches", patches="3"),
    _board("cortex-m33"),
    _board("cortex-m0", "for size", optimize="size", workspace_io=True),
    _board("cortex-m4", "in the workspace", workspace_io=True),
)


PROCESSORS = tuple(_board(f"cortex-m{name}") for name in (0, 3, 4, 7, 33, 55))
RISC_V = ("rv32imc", "rv32imafc")
VECTORS = {"x86-64-v3": {"avx2", "fma", "bmi2"}, "x86-64-v4": {"avx512vl", "avx512_vnni"}}
UNKNOWN = ("neighbours", "schemas")  # menus of what we may refuse
BATCH = 64  # networks that share programs
TOGETHER = 16  # layers that share a board's program
OPTIMISED_EVERY = 5  # networks; no divisor of the numbers of ways and layers
# Of layers that are tried in all shapes: every processor in every way.
SHAPED_WAYS = tuple(
    _board(target, how, **options)
    for how, options in (
        ("", {}),
        ("for size", {"optimize": "size"}),
        ("in patches", {"patches": "2"}),
        ("in the workspace", {"workspace_io": True}),
    )
    for target in (*(f"cortex-m{n}" for n in (4, 55, 0, 7, 33, 3)), *RISC_V, *VECTORS)
)
# Of layers of which every kernel is tried, whatever it is estimated at.
FORCED_WAYS = (
    *(_board(target) for target in (*(f"cortex-m{n}" for n in (4, 55, 0, 3)), *RISC_V, *VECTORS)),
    *(_board(target, "for size", optimize="size") for target in ("cortex-m0", "cortex-m4")),
    *(
        replace(_board(target, mode, float_mode=mode), same=False)
        for target, mode in (("cortex-m4", "fused"), ("cortex-m55", "fast"), ("rv32imafc", "fused"))
    ),
)


@dataclass(frozen=True)
class Finding:
    """What is wrong with a network compiled in one way. `kind`: refused, crash, stopped (the C does
    not compile, or a sanitizer stopped it), wrong (not what onnxruntime says), bits (not the first
    way's)."""

    network: Network
    way: Way
    kind: str
    text: str

    def __str__(self) -> str:
        operators = " ".join(self.network.operators)
        return f"{self.network.name} {self.kind} ({self.way.name}): {self.text}\n  {operators}"


def ways_of(network: Network, index: int, board: bool) -> tuple[Way, ...]:
    """The first way, another in turn, and one of the boards that this computer simulates; two
    others for a large network, and for steps that enlarge last bits all processors."""
    if network.menu == "steps":
        return (FIRST, *(way for way in PROCESSORS if is_here(way.board)))
    others = (WAYS[index % len(WAYS)], WAYS[(index // len(WAYS) + 7 * index + 3) % len(WAYS)])
    if network.menu == "shapes":
        boards = [way for way in SHAPED_WAYS if _runs(way.board)] if board else []
        mine = boards[index // TOGETHER % len(boards)] if boards else others[1]
        return (FIRST, *dict.fromkeys((others[0], mine)))
    boards = [way for way in BOARD_WAYS if is_here(way.board)] if board else []
    mine = dict.fromkeys(others if is_large(index) else others[:1])
    return (FIRST, *mine, *([boards[index // BATCH % len(boards)]] if boards else []))


def forced_ways(network: Network, index: int) -> tuple[Way, ...]:
    """The first way, and every kernel that can compute one of the nodes on a processor: sixteen
    networks in a row share one."""
    here = [way for way in FORCED_WAYS if _runs(way.board)]
    way = here[index // TOGETHER % len(here)]
    most = 0

    def count(_: View, kernels: Sequence[Kernel]) -> Kernel:
        nonlocal most
        most = max(most, len(kernels))
        return kernels[0]

    try:
        compile_module(ModuleSpec(network.model, "m", **way.options), count)
    except MlfError:  # which the way itself reports
        most = 1
    names = {k: f"{way.name}, kernel {k}" for k in range(1, most)}
    return (FIRST, way, *(replace(way, name=name, kernel=k) for k, name in names.items()))


def _taken(k: int) -> Choose | None:
    """The k-th kernel of each node, or the first of one that has not so many."""
    return (lambda _, kernels: kernels[k if k < len(kernels) else 0]) if k else None


def _runs(target: str) -> bool:
    """Whether this computer has the processor or simulates it."""
    return is_here(target) if target not in VECTORS else VECTORS[target] <= _flags()


@cache
def _flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    return set(info.read_text().split()) if info.is_file() else set()


def try_all(
    trials: Sequence[tuple[Network, Sequence[Way]]],
    work: Path,
    chosen: Counter[tuple[str, str]] | None = None,
) -> list[Finding]:
    """Everything that is wrong with networks, each compiled in its ways, of which the first is what
    others are compared with. A way of some also runs as an optimiser makes its C.
    `chosen` counts the kernels, as (name, template)."""
    findings: list[Finding] = []
    built: list[tuple[int, Way, Program]] = []
    for n, (network, ways) in enumerate(trials):
        for k, way in enumerate(ways):
            compiled = _compiled(network, way, f"m{n}_{k}")
            if isinstance(compiled, Module):
                if chosen is not None:
                    chosen.update(kernels_of(compiled.program))
                made = _program(compiled, network)
                turn, rest = divmod(n, OPTIMISED_EVERY)
                optimised = not rest and k == turn % len(ways)
                built.append((n, way, replace(made, optimised=optimised)))
            else:
                if network.menu not in UNKNOWN or not is_refusal(*compiled):
                    findings.append(Finding(network, way, *compiled))
                if k == 0:
                    break
    results = _run(built, work, findings, trials)
    ran = [
        (network, ways, {w: results[n, w.name] for w in ways if (n, w.name) in results})
        for n, (network, ways) in enumerate(trials)
        if (n, ways[0].name) in results
    ]
    said = each_apart([partial(_said, *one) for one in ran])
    for one, texts in zip(ran, said, strict=True):
        findings += _judged(*one, texts)
    return findings


def is_refusal(kind: str, text: str) -> bool:
    """Whether the compiler says in plain words that it does not take a model, as it may say of
    what those of UNKNOWN make."""
    return kind == "refused" and "MLF0900" not in text


def kernels_of(program: Plan) -> Iterator[tuple[str, str]]:
    """Names and templates of all kernels of a program, those of its subgraphs among them."""
    for call in program.calls:
        yield call.kernel.name, call.kernel.template
        for part in call.parts.values():
            yield from kernels_of(part)


def _compiled(network: Network, way: Way, name: str) -> Module | tuple[str, str]:
    try:
        return compile_module(ModuleSpec(network.model, name, **way.options), _taken(way.kernel))
    except MlfError as error:
        return "refused", str(error)
    except Exception:
        return "crash", traceback.format_exc(limit=-2)


def _program(module: Module, network: Network) -> Program:
    """Each sample, and the first once more: what a run leaves behind must not matter."""
    return program_of(module, (*network.feeds, network.feeds[0]))


def _run(
    built: Sequence[tuple[int, Way, Program]],
    work: Path,
    findings: list[Finding],
    trials: Sequence[tuple[Network, Sequence[Way]]],
) -> dict[tuple[int, str], list[Feed]]:
    results = {}
    for board in dict.fromkeys(way.board for _, way, _ in built):
        mine = [b for b in built if b[1].board == board]
        folder = work / (board or "host")
        folder.mkdir(parents=True, exist_ok=True)
        build, machine = _place(board)
        for (n, way, program), ran in zip(
            mine, run_programs([p for _, _, p in mine], folder, build, 2, machine), strict=True
        ):
            if ran.failure:
                findings.append(Finding(trials[n][0], way, "stopped", ran.failure))
            else:
                results[n, way.name] = program.results(ran.output)
    return results


def _place(board: str) -> tuple[Build, Machine]:
    if not board:
        return SANITIZED, HERE
    if TARGETS[board].is_host:
        return replace(SANITIZED, processor=TARGETS[board].cflags), HERE
    return Build("-O2", processor=flags_of(board)), machine_of(board)


def _said(
    network: Network, ways: Sequence[Way], results: Mapping[Way, list[Feed]]
) -> dict[str, str]:
    """What is wrong, by onnxruntime, with the first way and with those whose bits are not its, by
    their names."""
    try:
        judge = (network.truth or Judge)(network)
    except Exception:  # onnxruntime refuses the network: then the ways have each other
        return {}
    asked = [way for way in results if way is ways[0] or not way.same]
    return {way.name: judge.wrong(results[way][:-1]) for way in asked}


def _judged(
    network: Network,
    ways: Sequence[Way],
    results: Mapping[Way, list[Feed]],
    said: Mapping[str, str] | None,
) -> list[Finding]:
    findings: list[Finding] = []
    if said is None:
        print(f"{network.name}: onnxruntime ended its process")
    first = results[ways[0]]
    for way, found in results.items():
        if text := bits_differ(found[0], found[-1]):
            findings.append(Finding(network, way, "bits", f"a second run: {text}"))
        if way.same and (
            text := bits_differ(found[0], first[0]) or bits_differ(found[1], first[1])
        ):
            findings.append(Finding(network, way, "bits", text))
        elif said and said.get(way.name):
            findings.append(Finding(network, way, "wrong", said[way.name]))
    return findings


def bits_differ(got: Feed, want: Feed) -> str:
    """The first tensor with other bits, NaNs being all alike; "" if there is none."""
    for name, a in want.items():
        b = got[name]
        if a.dtype.kind == "f":
            word = f"u{a.dtype.itemsize}"
            x, y = (np.where(np.isnan(t), np.zeros_like(t), t).view(word) for t in (a, b))
            different = (x != y) | (np.isnan(a) != np.isnan(b))
        else:
            different = a != b
        if np.any(different):
            at = int(np.argmax(different))
            many = f"{name}: {int(different.sum())} of {a.size} differ"
            return f"{many}, element {at}: {b.flat[at]} and {a.flat[at]}"
    return ""
