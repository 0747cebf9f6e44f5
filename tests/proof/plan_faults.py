"""Faults of a planner: functions from a Program to one that is wrong, or None where it has nothing
that could be wrong in this way. Each is a real fault, never another right plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from mlftool.plan.program import Buffer, Call, MemoryPlan, Program

T = TypeVar("T")
Fault = Callable[[random.Random, Program], "Program | None"]


def one(rng: random.Random, items: Sequence[T]) -> T | None:
    return rng.choice(items) if items else None


def with_memory(program: Program, **changes: object) -> Program:
    return replace(program, memory=replace(program.memory, **changes))  # type: ignore[arg-type]


def with_buffer(program: Program, old: Buffer, new: Buffer) -> Program:
    """The plan with one buffer changed, wherever it is named."""
    memory = program.memory
    buffers = tuple(new if b == old else b for b in memory.buffers)
    place = {name: new if b == old else b for name, b in memory.place.items()}
    return with_memory(program, buffers=buffers, place=place)


def with_call(program: Program, k: int, call: Call) -> Program:
    return replace(program, calls=(*program.calls[:k], call, *program.calls[k + 1 :]))


def used(memory: MemoryPlan) -> list[Buffer]:
    return [b for b in memory.buffers if b.size_bytes]


def misaligned(rng: random.Random, program: Program) -> Program | None:
    b = one(rng, used(program.memory))
    return b and with_buffer(
        program, b, replace(b, offset_bytes=b.offset_bytes + rng.randint(1, 15))
    )


def beyond_the_end(rng: random.Random, program: Program) -> Program | None:
    b = one(rng, used(program.memory))
    if b is None:
        return None
    size = next(r.size_bytes for r in program.memory.regions if r.pool.name == b.pool)
    at = size - b.size_bytes + 16 * rng.randint(1, 4)
    return with_buffer(program, b, replace(b, offset_bytes=at))


def negative(rng: random.Random, program: Program) -> Program | None:
    b = one(rng, used(program.memory))
    return b and with_buffer(program, b, replace(b, offset_bytes=-16 * rng.randint(1, 4)))


def over_a_neighbour(rng: random.Random, program: Program) -> Program | None:
    """A block where another is that is written before this one's last use, and used after."""
    pairs = [
        (a, b)
        for a in used(program.memory)
        for b in used(program.memory)
        if a is not b and a.pool == b.pool
        and a.first_step < b.first_step < a.last_step < b.last_step
        and not b.name.startswith("scratch")
    ]  # fmt: skip
    pair = one(rng, pairs)
    return pair and with_buffer(
        program, pair[1], replace(pair[1], offset_bytes=pair[0].offset_bytes)
    )


def scratch_over_operand(rng: random.Random, program: Program) -> Program | None:
    pairs = [
        (s, b)
        for s in used(program.memory)
        for b in used(program.memory)
        if s.name.startswith("scratch") and s is not b and s.pool == b.pool
        and b.first_step < s.first_step < b.last_step
    ]  # fmt: skip
    pair = one(rng, pairs)
    return pair and with_buffer(
        program, pair[0], replace(pair[0], offset_bytes=pair[1].offset_bytes)
    )


def late_birth(rng: random.Random, program: Program) -> Program | None:
    b = one(rng, [b for b in used(program.memory) if b.last_step > b.first_step])
    return b and with_buffer(program, b, replace(b, first_step=b.first_step + 1))


def early_death(rng: random.Random, program: Program) -> Program | None:
    b = one(rng, [b for b in used(program.memory) if b.last_step > b.first_step])
    return b and with_buffer(program, b, replace(b, last_step=b.last_step - 1))


def dropped_output(rng: random.Random, program: Program) -> Program | None:
    """An output in the workspace that dies with the last step but one."""
    place = program.memory.place
    outputs = [n for n in program.graph.outputs if program.storage(n) in place]
    name = one(rng, outputs)
    if name is None or not program.workspace_io:
        return None
    b = place[program.storage(name)]
    end = len(program.calls) - 1
    if b.last_step < end or not b.size_bytes or b.first_step == b.last_step:
        return None
    return with_buffer(program, b, replace(b, last_step=end - 1))


def small_buffer(rng: random.Random, program: Program) -> Program | None:
    b = one(rng, used(program.memory))
    return b and with_buffer(program, b, replace(b, size_bytes=b.size_bytes - 16))


def wrong_size(rng: random.Random, program: Program) -> Program | None:
    """A region that is stated larger or smaller than it is."""
    regions = program.memory.regions
    k = rng.randrange(len(regions)) if regions else 0
    if not regions or not regions[k].size_bytes:
        return None
    by = 16 * rng.choice((-3, -2, -1, 1, 2, 3))
    changed = replace(regions[k], size_bytes=max(0, regions[k].size_bytes + by))
    return with_memory(program, regions=(*regions[:k], changed, *regions[k + 1 :]))


def wrong_sum(rng: random.Random, program: Program) -> Program | None:
    return with_memory(program, size_bytes=program.memory.size_bytes + 16 * rng.randint(1, 9))


def no_optimum(rng: random.Random, program: Program) -> Program | None:
    regions = program.memory.regions
    if not regions or not regions[0].size_bytes:
        return None
    low = max(0, regions[0].lower_bound_bytes - 16 * rng.randint(1, 4))
    changed = replace(regions[0], lower_bound_bytes=low, proof="liveness")
    return with_memory(program, regions=(changed, *regions[1:]))


def other_pool(rng: random.Random, program: Program) -> Program | None:
    """A buffer in a pool that does not reach to its end."""
    sizes = {r.pool.name: r.size_bytes for r in program.memory.regions}
    found = [
        (b, pool)
        for b in used(program.memory)
        for pool, size in sizes.items()
        if pool != b.pool and size < b.offset_bytes + b.size_bytes
    ]
    pair = one(rng, found)
    return pair and with_buffer(program, pair[0], replace(pair[0], pool=pair[1]))


def places_swapped(rng: random.Random, program: Program) -> Program | None:
    """Two tensors in each other's buffers, of which one is too small or dead."""
    place = dict(program.memory.place)
    names = [n for n in place if place[n].size_bytes]
    pairs = [(a, b) for a in names for b in names if place[a].size_bytes < place[b].size_bytes]
    pair = one(rng, pairs)
    if pair is None:
        return None
    place[pair[0]], place[pair[1]] = place[pair[1]], place[pair[0]]
    return with_memory(program, place=place)


def forgotten_place(rng: random.Random, program: Program) -> Program | None:
    place = dict(program.memory.place)
    name = one(rng, [n for n in place if place[n].size_bytes])
    if name is None:
        return None
    del place[name]
    return with_memory(program, place=place)


def wrong_alias(rng: random.Random, program: Program) -> Program | None:
    """A view of a tensor whose bytes it does not show."""
    view = one(rng, [n for n in program.aliases if program.graph.types[n].bytes])
    if view is None:
        return None
    right, types, place = program.storage(view), program.graph.types, program.memory.place
    others = [
        n
        for c in program.calls
        for n in c.node.outputs
        if n and program.storage(n) != right and types[n].bytes == types[view].bytes
        and (program.storage(n) not in place or place[program.storage(n)] != place.get(right))
    ]  # fmt: skip
    other = one(rng, others)
    return other and replace(program, aliases={**program.aliases, view: other})


def calls_swapped(rng: random.Random, program: Program) -> Program | None:
    calls = program.calls
    if len(calls) < 2:
        return None
    k = rng.randrange(len(calls) - 1)
    return replace(program, calls=(*calls[:k], calls[k + 1], calls[k], *calls[k + 2 :]))


def call_dropped(rng: random.Random, program: Program) -> Program | None:
    if not program.calls:
        return None
    k = rng.randrange(len(program.calls))
    if any(program.graph.types[n].bytes == 0 for n in program.calls[k].node.outputs if n):
        return None
    return replace(program, calls=(*program.calls[:k], *program.calls[k + 1 :]))


def call_repeated(rng: random.Random, program: Program) -> Program | None:
    if not program.calls:
        return None
    k = rng.randrange(len(program.calls))
    return replace(program, calls=(*program.calls[: k + 1], *program.calls[k:]))


def other_operand(rng: random.Random, program: Program) -> Program | None:
    """A kernel that reads a tensor which is not its node's."""
    k = rng.randrange(len(program.calls)) if program.calls else 0
    if not program.calls:
        return None
    call = program.calls[k]
    reads = [i for i, o in enumerate(call.kernel.operands) if o.role == "in"]
    others = [n for n in program.graph.types if n not in call.node.inputs]
    at, name = one(rng, reads), one(rng, others)
    if at is None or name is None:
        return None
    operands = list(call.kernel.operands)
    operands[at] = replace(operands[at], value=name)
    kernel = replace(call.kernel, operands=tuple(operands))
    return with_call(program, k, replace(call, kernel=kernel))


def other_type(rng: random.Random, program: Program) -> Program | None:
    k = rng.randrange(len(program.calls)) if program.calls else 0
    if not program.calls:
        return None
    call = program.calls[k]
    at = one(rng, [i for i, o in enumerate(call.kernel.operands) if o.role in ("in", "out")])
    if at is None:
        return None
    operands = list(call.kernel.operands)
    other = "int16_t" if operands[at].ctype != "int16_t" else "float"
    operands[at] = replace(operands[at], ctype=other)
    return with_call(
        program, k, replace(call, kernel=replace(call.kernel, operands=tuple(operands)))
    )


def small_arena(rng: random.Random, program: Program) -> Program | None:
    """A node whose subgraphs get less memory than one of them needs."""
    found = [k for k, c in enumerate(program.calls) if any(o.planned for o in c.kernel.operands)]
    k = one(rng, [k for k in found if program.calls[k].parts])
    if k is None:
        return None
    call = program.calls[k]
    operands = tuple(
        replace(o, bytes=o.bytes - 16) if o.planned else o for o in call.kernel.operands
    )
    return with_call(program, k, replace(call, kernel=replace(call.kernel, operands=operands)))


def inside_a_part(rng: random.Random, program: Program) -> Program | None:
    """A fault of the plan of a subgraph."""
    k = one(rng, [k for k, c in enumerate(program.calls) if c.parts])
    if k is None:
        return None
    call = program.calls[k]
    key = rng.choice(sorted(call.parts))
    fault = rng.choice((misaligned, beyond_the_end, wrong_size, early_death, over_a_neighbour))
    wrong = fault(rng, call.parts[key])
    return wrong and with_call(program, k, replace(call, parts={**call.parts, key: wrong}))


PLAN_FAULTS: tuple[Fault, ...] = (
    misaligned, beyond_the_end, negative, over_a_neighbour, scratch_over_operand, late_birth,
    early_death, dropped_output, small_buffer, wrong_size, wrong_sum, no_optimum, other_pool,
    places_swapped, forgotten_place, wrong_alias, calls_swapped, call_dropped, call_repeated,
    other_operand, other_type, small_arena, inside_a_part,
)  # fmt: skip
