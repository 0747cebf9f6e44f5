"""Constants that fit: some are stored in a prefix code, and unpacked before their layer runs into
working memory that the layer has for that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.ir.dtype import stored
from mlftool.ir.graph import Array
from mlftool.ops.base import STACK_LIMIT_BYTES, Kernel, Operand
from mlftool.plan.blocks import aligned
from mlftool.plan.memory import plan_memory
from mlftool.plan.prefix_code import Coded, coded
from mlftool.plan.program import Call, Program, content_of
from mlftool.targets.pools import Pool

HEADER = "mlf/unpack.h"
WORTH = 0.95  # of its bytes, at most, for a constant to be stored in a code


@dataclass(frozen=True)
class _Stored:
    """One array of the flash, and the steps of the outermost graph that read it."""

    operand: Operand
    steps: tuple[int, ...]
    packable: bool  # each of them can unpack it
    big_endian: bool

    @property
    def elements(self) -> Array:
        return _elements(self.operand)

    @property
    def bytes(self) -> int:
        return self.elements.nbytes

    @cached_property
    def code(self) -> Coded | None:
        """The smaller of the codes for its elements and for its bytes, if it saves anything: words
        may hold several weights."""
        if not self.packable or self.bytes <= STACK_LIMIT_BYTES:
            return None
        order = ">" if self.big_endian else "<"
        octets = self.elements.astype(self.elements.dtype.newbyteorder(order)).view(np.uint8)
        both = [made for form in (self.elements, octets) if (made := coded(form))]
        best = min(both, key=lambda made: made.bytes, default=None)
        return best if best and best.bytes <= WORTH * self.bytes else None

    @property
    def saved_bytes(self) -> int:
        return self.bytes - self.code.bytes if self.code else 0

    @property
    def instructions(self) -> float:
        return self.code.instructions * len(self.steps) if self.code else 0


def constants_bytes(program: Program) -> int:
    """Of all arrays in flash; equal ones are stored once."""
    return sum(a.bytes for a in _arrays(program))


def in_flash(
    program: Program, most: int, arena_bytes: int | None, pools: Sequence[Pool], file: str
) -> Program:
    """The program with at most so many bytes of constants, in an arena of `arena_bytes` if that is
    not None. Raises MlfError if no codes do it."""
    arrays = _arrays(program)
    need = sum(a.bytes for a in arrays)
    if need <= most:
        return program
    room = [a for a in arrays if arena_bytes is None or _beside(program, a) <= arena_bytes]
    packable = [a for a in room if a.code]
    chosen: list[_Stored] = []
    for array in sorted(packable, key=lambda a: a.instructions / a.saved_bytes):
        if need <= most:
            break
        chosen.append(array)
        need -= array.saved_bytes
    made = _repacked(program, _needed(chosen, most - need), pools, file)
    within = arena_bytes is None or made.memory.size_bytes <= arena_bytes
    if need <= most and within:
        return made
    few = "array" if len(chosen) == 1 else "arrays"
    text = f"{need} bytes of constants are the least found, {len(chosen)} {few} in a prefix code"
    if arena_bytes is not None:
        text += f" and {made.memory.size_bytes} bytes of workspace of {arena_bytes}"
    help = "`mlftool size` shows which layers have them; `mlftool quantize` makes floats integers"
    raise MlfError(Problem("MLF0119", f"{text}; expected at most {most}", file, help=help))


def _beside(program: Program, array: _Stored) -> int:
    """Bytes of the workspace that are needed while the array is unpacked there."""
    return aligned(array.bytes) + max(
        sum(b.size_bytes for b in program.memory.buffers if b.first_step <= k <= b.last_step)
        for k in array.steps
    )


def _needed(chosen: Sequence[_Stored], spare_bytes: int) -> list[_Stored]:
    """Without those that need not save anything, the dearest first."""
    kept = []
    for array in sorted(chosen, key=lambda a: -a.instructions):
        if array.saved_bytes <= spare_bytes:
            spare_bytes -= array.saved_bytes
        else:
            kept.append(array)
    return kept


def _repacked(
    program: Program, chosen: Sequence[_Stored], pools: Sequence[Pool], file: str
) -> Program:
    calls = list(program.calls)
    for array in chosen:
        for k in array.steps:
            calls[k] = replace(calls[k], kernel=_unpacking(calls[k].kernel, array))
    graph, alias = program.graph, program.aliases
    memory = plan_memory(graph, calls, alias, program.workspace_io, pools, file)
    return replace(program, calls=tuple(calls), memory=memory)


def _unpacking(kernel: Kernel, array: _Stored) -> Kernel:
    """The kernel with the operands that hold `array` as scratch, which it fills first."""
    assert array.code is not None
    key, size = content_of(array.operand), array.code.count
    packed = [o for o in kernel.operands if o.role == "const" and content_of(o) == key]
    operands: list[Operand] = []
    for o in kernel.operands:
        operands += _unpacked(o, array.code) if o in packed else (o,)
    return replace(
        kernel,
        operands=tuple(operands),
        cost=kernel.cost + array.code.instructions * len(packed),
        includes=(*kernel.includes, HEADER),
        packed={**kernel.packed, **{o.name: size for o in packed}},
    )


def _unpacked(operand: Operand, code: Coded) -> tuple[Operand, ...]:
    name, note, elements = operand.name, operand.note, _elements(operand)
    same = code.values.dtype == elements.dtype
    ctype = operand.ctype if same else "uint8_t"
    return (
        replace(operand, role="scratch", array=None, bytes=elements.nbytes, note=""),
        Operand(f"{name}_values", ctype, "const", array=code.values, note=note),
        Operand(f"{name}_codes", "uint16_t", "const", array=code.words, note=note),
    )


def _arrays(program: Program) -> list[_Stored]:
    """What is in flash, in the order in which it is first read."""
    found: dict[tuple[str, bytes], dict[int, Operand]] = {}
    fixed = set()
    for k, call in enumerate(program.calls):
        for operand in _constants(call):
            found.setdefault(content_of(operand), {})[k] = operand
            if call.parts or call.kernel.external:
                fixed.add(content_of(operand))
    return [
        _Stored(next(iter(read.values())), tuple(read), key not in fixed, program.target.big_endian)
        for key, read in found.items()
    ]


def _constants(call: Call) -> Iterator[Operand]:
    """Those of a call and of its subgraphs."""
    yield from (o for o in call.kernel.operands if o.role == "const")
    for part in call.parts.values():
        for inner in part.calls:
            yield from _constants(inner)


def _elements(operand: Operand) -> Array:
    assert operand.array is not None
    return stored(operand.array)
