"""The search: every layer with every kernel that can compute it, all layers at the same time.

Round k builds one firmware in which each layer takes its k-th kernel, and counts each step. A layer
then takes the kernel with the fewest instructions. Nothing is random and nothing is timed: the same
model, compiler and kernels give the same record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mlftool.codegen.tuned import Layer, Tuned, digest_of, is_tunable, kind_of
from mlftool.compile import Module, ModuleSpec, compile_module, plan_module
from mlftool.describe import bundle as bundle_of
from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.frozen import frozen
from mlftool.ir.graph import View
from mlftool.mlf.interface import Interface
from mlftool.ops.base import Kernel
from mlftool.plan.select import Choose
from mlftool.progress import step
from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS, Board, find
from mlftool.runtime.interface import read_interface
from mlftool.runtime.vectors import load_vectors, samples_of
from mlftool.targets import TARGETS
from mlftool.tune.marks import Counted, Sample, count, whole

# A kernel replaces the usual one if it takes at most so many thousandths of its instructions: a
# smaller gain is not worth another function, and could be one tick of the counter.
WORTH = 990
# The most kernels of a layer that are compared.
MOST_ROUNDS = 40

Kind = tuple[str, str]  # the layer and the digest of its kernels


@dataclass
class _Round:
    """Lets each layer take its k-th kernel and remembers which it was."""

    k: int
    steps: list[tuple[Kind, str] | None] = field(default_factory=list)
    most: int = 0

    def choose(self, v: View, kernels: Sequence[Kernel]) -> Kernel:
        if not is_tunable(kernels):
            self.steps.append(None)
            return kernels[0]
        self.most = max(self.most, len(kernels))
        kernel = kernels[self.k % len(kernels)]
        self.steps.append(((kind_of(v), digest_of(kernels)), kernel.name))
        return kernel


@frozen
class _First:
    """The module of the usual kernels, its results, and their inputs."""

    module: Module
    sample: Sample
    counted: Counted


@dataclass
class _Counts:
    """The instructions of each kernel for one kind of layer, and which is the usual one."""

    usual: str
    of: dict[str, int] = field(default_factory=dict)

    @property
    def best(self) -> str:
        name = min(sorted(self.of), key=lambda n: self.of[n])
        return name if self.of[name] * 1000 <= self.of[self.usual] * WORTH else self.usual


def tune(spec: ModuleSpec, flags: str = "-O2", inputs: Path | None = None) -> Tuned:
    """The best kernel for each kind of layer, counted on its target's board. Raises MlfError."""
    spec = replace(spec, executor="aot", tuning=None)
    board = board_of(spec)
    first, found = _compared(spec, board, flags, inputs)
    best = {kind: counts.best for kind, counts in found.items()}
    best, last = _in_no_more_memory(spec, best, found)
    _check_equal(first.counted, count(last, board, first.sample, flags))
    before, after = (_whole(module, board, first.sample, flags) for module in (first.module, last))
    if after > before:  # the parts gained, the whole did not
        best, after = {kind: counts.usual for kind, counts in found.items()}, before
    return Tuned(
        compiler=_version(toolchain.compiler_of(TARGETS[board.target])),
        flags=flags,
        float_mode=spec.float_mode,
        before=before,
        after=after,
        layers=tuple(
            Layer(*kind, best[kind], dict(sorted(found[kind].of.items()))) for kind in sorted(found)
        ),
    )


def _compared(
    spec: ModuleSpec, board: Board, flags: str, inputs: Path | None
) -> tuple[_First, dict[Kind, _Counts]]:
    """The usual module's count, and that of every kernel."""
    found: dict[Kind, _Counts] = {}
    first: _First | None = None
    k, rounds = 0, 1
    while k < rounds:
        turn = _Round(k)
        with step(f"comparing kernels, round {k + 1} of {rounds if k else '?'}"):
            module = compile_module(spec, turn.choose)
            sample = first.sample if first else sample_of(_interface(module), inputs)
            counted = count(module, board, sample, flags)
        first = first or _First(module, sample, counted)
        _check_equal(first.counted, counted)
        for kind, kernel, instructions in _sums(turn, counted):
            found.setdefault(kind, _Counts(kernel)).of[kernel] = instructions
        k, rounds = k + 1, min(turn.most, MOST_ROUNDS)
    assert first is not None
    return first, found


def board_of(spec: ModuleSpec) -> Board:
    """The simulated board that counts for the target of `spec`. Raises MlfError."""
    board = find(str(spec.target))
    if board is None or board.hosted:
        text = "instructions are counted on simulated boards without an operating system; got "
        text += f"target '{spec.target}'"
        known = ", ".join(name for name, b in BOARDS.items() if not b.hosted)
        raise MlfError(Problem("MLF0610", text, help=f"choose one of: {known}"))
    return board


def sample_of(interface: Interface, inputs: Path | None) -> Sample:
    """The first sample of a file, or a pattern that reaches many values."""
    if inputs is not None:
        return samples_of(load_vectors(inputs), interface.inputs, str(inputs))[0]
    sample = {}
    for tensor in interface.inputs:
        count = int(np.prod(tensor.shape, dtype=np.int64))
        steps = np.arange(count, dtype=np.int64) * 37 % 256
        values = steps / 64.0 - 2.0 if np.dtype(tensor.dtype).kind == "f" else steps
        sample[tensor.name] = values.astype(tensor.dtype).reshape(tensor.shape)
    return sample


def _interface(module: Module) -> Interface:
    return read_interface(bundle_of([module]), module.spec.module_name)


def _whole(module: Module, board: Board, sample: Sample, flags: str) -> int:
    return whole(bundle_of([module]), _interface(module), board, sample, flags)[1]


def _sums(turn: _Round, counted: Counted) -> Iterator[tuple[Kind, str, int]]:
    """The instructions of each kind of layer, whose layers may be several."""
    sums: dict[tuple[Kind, str], int] = {}
    for one, instructions in zip(turn.steps, counted.steps, strict=True):
        if one is not None:
            sums[one] = sums.get(one, 0) + instructions
    for (kind, kernel), instructions in sums.items():
        yield kind, kernel, instructions


def _taking(best: dict[Kind, str]) -> Choose:
    def choose(v: View, kernels: Sequence[Kernel]) -> Kernel:
        if not is_tunable(kernels):
            return kernels[0]
        wanted = best[kind_of(v), digest_of(kernels)]
        return next(k for k in kernels if k.name == wanted)

    return choose


def _in_no_more_memory(
    spec: ModuleSpec, best: dict[Kind, str], found: dict[Kind, _Counts]
) -> tuple[dict[Kind, str], Module]:
    """Kernels differ in their scratch: those that gain least go back until the workspace is no
    larger than usual."""
    usual = {kind: counts.usual for kind, counts in found.items()}
    limit = plan_module(spec, _taking(usual)).program.memory.size_bytes

    def gain(kind: Kind) -> int:
        return found[kind].of[usual[kind]] - found[kind].of[best[kind]]

    while True:
        module = compile_module(spec, _taking(best))
        changed = sorted((k for k in best if best[k] != usual[k]), key=lambda k: (gain(k), k))
        if module.program.memory.size_bytes <= limit or not changed:
            return best, module
        best = best | {changed[0]: usual[changed[0]]}


def _check_equal(first: Counted, other: Counted) -> None:
    """All kernels give the same bits; if one does not, its count is not trusted."""
    if first.outputs != other.outputs:
        text = "the compared kernels gave different results: a bug in mlftool"
        raise MlfError(Problem("MLF0604", text), CHECK_FAILED)


def _version(compiler: toolchain.Program) -> str:
    """The compiler's version line, without paths."""
    return toolchain.identity(toolchain.find(compiler)).splitlines()[-1]
