"""A Program as Layouts, one for its own calls and one for each subgraph's; and what it states of
itself: lifetimes, sizes, bounds.

Reads the planner's results (`memory.place`, `aliases`) and none of its functions. Where bytes are
comes from the results; what they hold follows from the graph alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlftool.frozen import frozen
from mlftool.ir.dtype import stored
from mlftool.ir.graph import Graph, Node
from mlftool.ops.base import Operand, Trait, is_a
from mlftool.plan.program import Call, Program
from mlftool.proof.layout import CONSTANT, READ, SCRATCH, WRITE, Access, Layout, Place, Step
from mlftool.proof.walk import ALIGNMENT_BYTES

LOCAL_BYTES = 1024  # scratch up to here, if it is not `planned`, is an array of the C function
WORKSPACE = "workspace"


def aligned(size: int) -> int:
    return (size + ALIGNMENT_BYTES - 1) // ALIGNMENT_BYTES * ALIGNMENT_BYTES


def layouts(
    program: Program, inputs: Sequence[str], outputs: Sequence[str], symbols: Sequence[str] = ()
) -> tuple[Layout, ...]:
    """The program's own layout, then its subgraphs'. `inputs` and `outputs` are the C parameters of
    the graph's, `symbols` the C functions of the calls where they are known."""
    return tuple(_layouts(program, inputs, outputs, symbols, "main"))


def _layouts(
    program: Program, inputs: Sequence[str], outputs: Sequence[str], symbols: Sequence[str],
    path: str,
) -> Iterator[Layout]:  # fmt: skip
    yield _Reader(program, inputs, outputs).layout(symbols, path)
    for k, call in enumerate(program.calls):
        for key, part in call.parts.items():
            ins = [f"in{i}" for i in range(len(part.graph.inputs))]
            outs = [f"out{i}" for i in range(len(part.graph.outputs))]
            yield from _layouts(part, ins, outs, (), f"{path}.{k}.{key}")


def pool_name(pool: str) -> str:
    """The C parameter of a pool, or of the workspace."""
    return f"{pool}_pool" if pool else WORKSPACE


@frozen
class _Reader:
    """A program and the C parameters of its inputs and outputs."""

    program: Program
    inputs: Sequence[str]
    outputs: Sequence[str]

    @property
    def graph(self) -> Graph:
        return self.program.graph

    def layout(self, symbols: Sequence[str], path: str) -> Layout:
        program, graph = self.program, self.graph
        outside = {} if program.workspace_io else self._outside()
        roots = _roots(graph, program.calls)
        memories = {pool_name(r.pool.name): r.size_bytes for r in program.memory.regions}
        memories |= {name: graph.types[t].bytes for t, name in outside.items()}
        steps = tuple(
            Step(symbol, tuple(self._accesses(k, call, outside, roots)))
            for k, (call, symbol) in enumerate(
                zip(program.calls, symbols or [""] * len(program.calls), strict=True)
            )
        )
        given = [(self._place(name, outside), name) for name in graph.inputs]
        kept = [(self._place(name, outside), roots[name]) for name in graph.outputs]
        return Layout(path, memories, tuple(given), tuple(kept), steps)

    def _outside(self) -> dict[str, str]:
        """Input or output -> its C parameter."""
        named = dict(zip(self.graph.inputs, self.inputs, strict=True))
        return named | dict(zip(self.graph.outputs, self.outputs, strict=True))

    def _place(self, name: str, outside: Mapping[str, str]) -> Place:
        size = self.graph.types[name].bytes
        storage = self.program.storage(name)
        if storage in outside:
            return Place(outside[storage], 0, size)
        buffer = self.program.memory.place.get(storage)
        if buffer is None:
            return Place("", 0, size)
        return Place(pool_name(buffer.pool), buffer.offset_bytes, size)

    def _accesses(
        self, k: int, call: Call, outside: Mapping[str, str], roots: Mapping[str, str]
    ) -> Iterator[Access]:
        """The arguments of a call, parameter by parameter."""
        several = len([name for name in call.node.outputs if name]) > 1
        apart = {} if several else dict(call.kernel.overlap)
        apart |= dict.fromkeys(call.kernel.inplace, (0, 0))
        scratch = 0
        for o in call.kernel.operands:
            if o.role == "const":
                size = 0 if o.array is None else stored(o.array).nbytes
                yield Access(CONSTANT, "", Place("", 0, size))
            elif o.role == "scratch":
                if not is_local(o):
                    yield Access(SCRATCH, "", self._scratch(k, scratch, o))
                    scratch += aligned(o.bytes)
            elif o.role == "in":
                content = roots.get(o.value, o.value)
                yield Access(READ, content, self._place(o.value, outside), apart.get(o.value))
            else:
                yield Access(WRITE, roots.get(o.value, ""), self._place(o.value, outside))

    def _scratch(self, k: int, offset: int, operand: Operand) -> Place:
        buffer = self.program.memory.place.get(f"scratch of step {k}")
        if buffer is None:
            return Place("", 0, operand.bytes)
        return Place(pool_name(buffer.pool), buffer.offset_bytes + offset, operand.bytes)


def is_local(operand: Operand) -> bool:
    """Whether a scratch area is an array of the C function."""
    return operand.role == "scratch" and operand.bytes <= LOCAL_BYTES and not operand.planned


def _called(calls: Sequence[Call]) -> set[tuple[str, ...]]:
    return {call.node.outputs for call in calls}


def _roots(graph: Graph, calls: Sequence[Call]) -> dict[str, str]:
    """Tensor -> the one whose bytes it has: its own, or those that a view shows."""
    roots = {name: name for name in (*graph.inputs, *graph.consts)}
    called = _called(calls)
    for node in graph.nodes:
        if node.outputs in called:
            roots |= {name: name for name in node.outputs if name}
        else:
            roots[node.outputs[0]] = roots[node.inputs[0]]
    return roots


def program_faults(program: Program) -> Iterator[str]:
    """What is wrong with a program apart from its layout; subgraphs are read too."""
    yield from _nodes(program)
    yield from _figures(program)
    yield from _lifetimes(program)
    graph = program.graph
    read = {*graph.outputs, *(name for node in graph.nodes for name in node.inputs)}
    for k, call in enumerate(program.calls):
        yield from (f"call {k}: {text}" for text in _operands(graph, call, read))
        for key, part in call.parts.items():
            yield from (f"call {k}, {key}: {text}" for text in program_faults(part))


def _nodes(program: Program) -> Iterator[str]:
    """Every node is a call, or a view that changes no byte, in the graph's order."""
    graph = program.graph
    called = _called(program.calls)
    order = [n.outputs for n in graph.nodes if n.outputs in called]
    if order != [c.node.outputs for c in program.calls]:
        yield "calls are not the graph's nodes in their order"
    for node in graph.nodes:
        if node.outputs not in called and (text := _no_view(graph, node)):
            yield f"{node.label} is not called: {text}"


def _no_view(graph: Graph, node: Node) -> str:
    if not is_a(node, Trait.VIEW) or len(node.outputs) != 1:
        return "it is not a view"
    x, y = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    return "" if x.bytes == y.bytes else f"{x.bytes} bytes cannot be viewed as {y.bytes}"


def _figures(program: Program) -> Iterator[str]:
    """Sizes, bounds and pools as the plan states them."""
    memory = program.memory
    if memory.size_bytes != sum(r.size_bytes for r in memory.regions):
        yield "the plan's size is not the sum of its regions"
    for r in memory.regions:
        if r.pool.name and r.size_bytes > r.pool.size_bytes:
            yield f"pool {r.pool.name} of {r.pool.size_bytes} bytes holds {r.size_bytes}"
        if r.lower_bound_bytes > r.size_bytes:
            yield f"the lower bound {r.lower_bound_bytes} is above the size {r.size_bytes}"
        if r.proof == "liveness" and r.lower_bound_bytes != r.size_bytes:
            yield f"called optimal at {r.size_bytes} bytes with a bound of {r.lower_bound_bytes}"
        ends = [b.offset_bytes + b.size_bytes for b in memory.buffers if b.pool == r.pool.name]
        if max(ends, default=0) != r.size_bytes:
            yield f"buffers end at {max(ends, default=0)}, the plan has {r.size_bytes} bytes"


def _lifetimes(program: Program) -> Iterator[str]:
    """Each buffer's stated life covers every call that uses it, and its bytes what is stored."""
    graph, place = program.graph, program.memory.place
    end = max(0, len(program.calls) - 1)
    uses: list[tuple[str, int, int]] = []
    for k, call in enumerate(program.calls):
        names = [o.value for o in call.kernel.operands if o.role in ("in", "out")]
        uses += [(program.storage(n), k, graph.types[n].bytes) for n in names if n]
        areas = [o for o in call.kernel.operands if o.role == "scratch" and not is_local(o)]
        if areas:
            uses.append((f"scratch of step {k}", k, sum(aligned(o.bytes) for o in areas)))
    if program.workspace_io:
        uses += [(program.storage(n), end, graph.types[n].bytes) for n in graph.outputs]
        uses += [(program.storage(n), 0, graph.types[n].bytes) for n in graph.inputs]
    for name, step, size in uses:
        buffer = place.get(name)
        if buffer is None:
            continue  # outside, or a fault of the layout
        if not buffer.first_step <= step <= buffer.last_step:
            life = f"{buffer.first_step} to {buffer.last_step}"
            yield f"'{name}' is used at step {step}, its buffer lives from {life}"
        if size > buffer.size_bytes:
            yield f"'{name}' of {size} bytes has a buffer of {buffer.size_bytes}"


def _operands(graph: Graph, call: Call, read: set[str]) -> Iterator[str]:
    """A kernel's parameters are its node's tensors, with their types; a subgraph has its arena.
    `read` is what nodes and the graph's outputs read."""
    node, operands = call.node, call.kernel.operands
    for o in operands:
        if o.role not in ("in", "out"):
            continue
        if o.value not in (node.inputs if o.role == "in" else node.outputs):
            yield f"{node.label} has no {o.role}put '{o.value}'"
        elif graph.types[o.value].dtype.c != o.ctype:
            yield f"{node.label}: '{o.value}' is {graph.types[o.value].dtype}, not {o.ctype}"
    written = [o.value for o in operands if o.role == "out"]
    # A kernel may leave out what has no bytes; and what is never read, as walk.py sees.
    expected = [n for n in node.outputs if n and graph.types[n].bytes and n in read]
    if not set(expected) <= set(written) or len(set(written)) != len(written):
        yield f"{node.label} writes {written}; expected {expected}"
    if call.parts:
        need = max(p.memory.size_bytes for p in call.parts.values())
        arena = next((o.bytes for o in operands if o.role == "scratch" and o.planned), 0)
        if arena < need:
            yield f"{node.label} gives its subgraphs {arena} bytes; they need {need}"
