"""Constants that fit: some are stored in fewer bytes, as integers times scales, in 16 bits or in a
prefix code, and unpacked before their layer runs, into working memory that it has for that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen, replace
from mlftool.ir.dtype import stored
from mlftool.ir.graph import Array
from mlftool.ops.base import STACK_LIMIT_BYTES, Kernel, Operand, Packed
from mlftool.ops.halves import halves
from mlftool.ops.scales import scaled
from mlftool.plan.blocks import aligned
from mlftool.plan.memory import plan_memory
from mlftool.plan.prefix_code import coded
from mlftool.plan.prices import instructions
from mlftool.plan.program import Call, Program, content_of
from mlftool.targets import Target
from mlftool.targets.pools import Pool

WORTH = 0.95  # of its bytes, at most, for a constant to be stored in another form


@frozen
class _Form:
    """How an array may be stored, and what unpacking it takes."""

    packed: Packed
    arrays: Mapping[str, tuple[str, Array]]  # C type and elements, by what ends the C parameter
    instructions: float

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for _, array in self.arrays.values())


@frozen
class _Stored:
    """One array of the flash, and the steps of the outermost graph that read it."""

    operand: Operand
    steps: tuple[int, ...]
    packable: bool  # each of them can unpack it
    target: Target

    @property
    def elements(self) -> Array:
        return _elements(self.operand)

    @property
    def bytes(self) -> int:
        return self.elements.nbytes

    @cached_property
    def forms(self) -> tuple[_Form, ...]:
        """Those that save anything: words may hold several weights, so bytes have a code, too."""
        if not self.packable or self.bytes <= STACK_LIMIT_BYTES:
            return ()
        order = ">" if self.target.big_endian else "<"
        row = self.elements.dtype.newbyteorder(order)
        octets = np.ascontiguousarray(self.elements, row).view(np.uint8)
        made = (
            _of_scales(self.elements, self.target),
            _of_halves(self.elements, self.target),
            _in_code(self.elements, self.operand.ctype, "prefix"),
            _in_code(octets, "uint8_t", "octets"),
        )
        return tuple(form for form in made if form and form.bytes <= WORTH * self.bytes)


@frozen
class _Choice:
    """An array in a form."""

    array: _Stored
    form: _Form

    @property
    def saved_bytes(self) -> int:
        return self.array.bytes - self.form.bytes

    @property
    def instructions(self) -> float:
        return self.form.instructions * len(self.array.steps)


def _of_scales(elements: Array, target: Target) -> _Form | None:
    found = scaled(elements)
    if found is None:
        return None
    arrays = {"scales": ("float", found.scales), "numbers": ("int8_t", found.numbers)}
    cost = instructions(found.operations, target)
    return _Form(Packed("scaled", found.numbers.shape), arrays, cost)


def _of_halves(elements: Array, target: Target) -> _Form | None:
    found = halves(elements)
    if found is None:
        return None
    count = found.words.size
    cost = instructions(count * found.each, target)
    return _Form(Packed(found.type, (count,)), {"halves": ("uint16_t", found.words)}, cost)


def _in_code(elements: Array, ctype: str, form: str) -> _Form | None:
    code = coded(elements)
    if code is None:
        return None
    arrays = {"values": (ctype, code.values), "codes": ("uint16_t", code.words)}
    return _Form(Packed(form, (code.count,)), arrays, code.instructions)


def constants_bytes(program: Program) -> int:
    """Of all arrays in flash; equal ones are stored once."""
    return sum(a.bytes for a in _arrays(program))


def bytes_read(call: Call) -> int:
    """Of the arrays that a call and its subgraphs read, shared ones too."""
    return sum(_elements(o).nbytes for o in _constants(call) if o.array is not None)


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
    chosen = _chosen(room, need - most)
    made = _repacked(program, chosen, pools, file)
    need = constants_bytes(made)
    within = arena_bytes is None or made.memory.size_bytes <= arena_bytes
    if need <= most and within:
        return made
    few = "array" if len(chosen) == 1 else "arrays"
    text = f"{need} bytes of constants are the least found, {len(chosen)} {few} in fewer bytes"
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


def _chosen(arrays: Sequence[_Stored], save_bytes: int) -> list[_Choice]:
    """Arrays and forms that save so many bytes, or as many as can be: those with the fewest
    instructions for each byte first, then without what need not save anything, the dearest
    first."""
    every = [_Choice(array, form) for array in arrays for form in array.forms]
    chosen: dict[int, _Choice] = {}
    for choice in sorted(every, key=lambda c: c.instructions / c.saved_bytes):
        spare = sum(c.saved_bytes for c in chosen.values()) - save_bytes
        if spare >= 0:
            break
        before = chosen.get(id(choice.array))
        if before is None or choice.saved_bytes > before.saved_bytes:
            chosen[id(choice.array)] = choice
    spare = sum(c.saved_bytes for c in chosen.values()) - save_bytes
    kept = []
    for choice in sorted(chosen.values(), key=lambda c: -c.instructions):
        if choice.saved_bytes <= spare:
            spare -= choice.saved_bytes
        else:
            kept.append(choice)
    return kept


def _repacked(
    program: Program, chosen: Sequence[_Choice], pools: Sequence[Pool], file: str
) -> Program:
    calls = list(program.calls)
    for choice in chosen:
        for k in choice.array.steps:
            calls[k] = replace(calls[k], kernel=_unpacking(calls[k].kernel, choice))
    graph, alias = program.graph, program.aliases
    memory = plan_memory(graph, calls, alias, program.workspace_io, pools, file)
    return replace(program, calls=tuple(calls), memory=memory)


def _unpacking(kernel: Kernel, choice: _Choice) -> Kernel:
    """The kernel with the operands that hold the array as scratch, which it fills first."""
    key, form = content_of(choice.array.operand), choice.form
    packed = [o for o in kernel.operands if o.role == "const" and content_of(o) == key]
    operands: list[Operand] = []
    for o in kernel.operands:
        operands += _unpacked(o, form) if o in packed else (o,)
    return replace(
        kernel,
        operands=tuple(operands),
        cost=kernel.cost + form.instructions * len(packed),
        includes=(*kernel.includes, *form.packed.includes),
        packed={**kernel.packed, **{o.name: form.packed for o in packed}},
    )


def _unpacked(operand: Operand, form: _Form) -> tuple[Operand, ...]:
    name, note, size = operand.name, operand.note, _elements(operand).nbytes
    return (
        replace(operand, role="scratch", array=None, bytes=size, note=""),
        *(
            Operand(f"{name}_{end}", of, "const", array=array, note=note)
            for end, (of, array) in form.arrays.items()
        ),
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
        _Stored(next(iter(read.values())), tuple(read), key not in fixed, program.target)
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
