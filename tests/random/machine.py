"""Compiling networks with options of all kinds, running them, and saying what is wrong.

Networks are built and run in batches: one program for this computer under sanitizers, and one for a
simulated Cortex-M4 for some of them.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from batch import program_of
from grow import Feed, Network
from judge import Judge
from programs import HERE, SANITIZERS, Machine, Program, run_programs

from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.runner import qemu_command
from mlftool.targets import TARGETS

POOLS = ("fast=256@.bss.fast", "middle=3KiB@.bss.middle", "slow=4MiB@.bss.slow")


@dataclass(frozen=True, eq=False)
class Way:
    """How a network is compiled and where it runs. `same`: its bits are those of the first way."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    board: bool = False
    same: bool = True


PLAIN = replace(TARGETS["host"], features=frozenset({"fpu"}))
SOFT = replace(TARGETS["host"], features=frozenset({"narrow"}))
REGISTERS = replace(TARGETS["host"], features=frozenset({"fpu", "registers"}))
DSP = replace(TARGETS["host"], features=frozenset({"fpu", "dsp"}))  # its instructions in plain C
WIDE = replace(
    TARGETS["host"], features=TARGETS["x86-64-v3"].features, cflags=("-march=x86-64-v3",)
)
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
    Way("fused", {"float_mode": "fused"}, same=False),
    Way("level 0", {"opt_level": 0, "workspace_io": True}, same=False),
    Way("level 1", {"opt_level": 1}, same=False),
    Way("level 2", {"opt_level": 2, "target": PLAIN}, same=False),
)
BOARD = Way("cortex-m4", {"target": "cortex-m4"}, board=True)
BOARD_WAYS = (
    BOARD,
    BOARD,
    Way("cortex-m4 for size", {"target": "cortex-m4", "optimize": "size"}, board=True),
    Way("cortex-m4 in patches", {"target": "cortex-m4", "patches": "3"}, board=True),
    Way("cortex-m4 in the workspace", {"target": "cortex-m4", "workspace_io": True}, board=True),
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
    """The first way, two others in turn, and the board's."""
    others = (WAYS[index % len(WAYS)], WAYS[(index // len(WAYS) + 7 * index + 3) % len(WAYS)])
    return (FIRST, *dict.fromkeys(others), *([BOARD_WAYS[index % len(BOARD_WAYS)]] * board))


def try_all(trials: Sequence[tuple[Network, Sequence[Way]]], work: Path) -> list[Finding]:
    """Everything that is wrong with networks, each compiled in its ways, of which the first is what
    others are compared with."""
    findings: list[Finding] = []
    built: list[tuple[int, Way, Program]] = []
    for n, (network, ways) in enumerate(trials):
        for k, way in enumerate(ways):
            compiled = _compiled(network, way, f"m{n}_{k}")
            if isinstance(compiled, Module):
                built.append((n, way, _program(compiled, network)))
            else:
                findings.append(Finding(network, way, *compiled))
                if k == 0:
                    break
    results = _run(built, work, findings, trials)
    for n, (network, ways) in enumerate(trials):
        if (n, ways[0].name) in results:
            findings += _judged(
                network, ways, {w: results[n, w.name] for w in ways if (n, w.name) in results}
            )
    return findings


def _compiled(network: Network, way: Way, name: str) -> Module | tuple[str, str]:
    try:
        return compile_module(ModuleSpec(network.model, name, **way.options))
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
    for board in (False, True):
        mine = [b for b in built if b[1].board == board]
        if not mine:
            continue
        folder = work / ("board" if board else "host")
        folder.mkdir(parents=True, exist_ok=True)
        flags = ("-O2", *BOARD_FLAGS) if board else ("-O1", *SANITIZERS)
        machine = cortex_m4() if board else HERE
        for (n, way, program), ran in zip(
            mine, run_programs([p for _, _, p in mine], folder, flags, 2, machine), strict=True
        ):
            if ran.failure:
                findings.append(Finding(trials[n][0], way, "stopped", ran.failure))
            else:
                results[n, way.name] = program.results(ran.output)
    return results


def _judged(
    network: Network, ways: Sequence[Way], results: Mapping[Way, list[Feed]]
) -> list[Finding]:
    findings, judge = [], Judge(network)
    first = results[ways[0]]
    for way, found in results.items():
        if text := bits_differ(found[0], found[-1]):
            findings.append(Finding(network, way, "bits", f"a second run: {text}"))
        if way.same and (
            text := bits_differ(found[0], first[0]) or bits_differ(found[1], first[1])
        ):
            findings.append(Finding(network, way, "bits", text))
        elif (way is ways[0] or not way.same) and (text := judge.wrong(found[:-1])):
            findings.append(Finding(network, way, "wrong", text))
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


BOARD_FLAGS = TARGETS["cortex-m4"].cflags


def cortex_m4() -> Machine:
    """The board of that core, with files of this computer."""
    board, root = BOARDS["cortex-m4"], crt_root()
    sources = (root / "boards/common/start.c", root / "boards/cortex_m/startup.c")
    linking = [f"-I{root / 'boards' / p}" for p in (board.parts[0], board.parts[1], board.name)]
    linking += [f"-L{root / 'boards'}", f"-T{root / board.script}", "-nostartfiles"]
    linking += ["--specs=rdimon.specs", "-DSEMIHOSTED", "-Wl,--defsym=__stack_size=0x40000"]

    def start(program: Path, argument: str) -> list[str]:
        command = qemu_command(board, program, [argument])
        at = command.index("-icount")
        return command[:at] + command[at + 2 :]

    return Machine("arm-none-eabi-gcc", tuple(map(str, sources)), tuple(linking), start)
