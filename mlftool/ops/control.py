"""Control flow: If, Loop and Scan call the C functions of their subgraphs.

A subgraph is closed: what it reads of the graph around it arrives as inputs after its formal ones
(importer/subgraphs.py). Each is planned on its own (plan/lower.py); its workspace is the `arena` of
the node's call, so nesting needs no recursion and its memory is known.

    If(condition, captures...)                       branch(captures...)
    Loop(count, goes on, state..., captures...)      body(iteration, goes on, state..., captures...)
    Scan(state..., sequences..., captures...)        body(state..., elements..., captures...)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlftool.ir.graph import Graph, View
from mlftool.ir.operations import copies, times, total
from mlftool.ir.relay import Site
from mlftool.ops.base import Kernel, Operand, Trait, UnsupportedError, op
from mlftool.ops.scalar import tensor_operand


@dataclass
class _Call:
    """Parameters of the kernel, collected while the arguments of a body are named."""

    v: View
    operands: list[Operand] = field(default_factory=list)

    def reads(self, names: tuple[str, ...], prefix: str) -> list[str]:
        """Parameters through which the kernel reads `names`."""
        for k, name in enumerate(names):
            self.operands.append(tensor_operand(self.v.graph, f"{prefix}{k}", name))
        return [f"{prefix}{k}" for k in range(len(names))]

    def writes(self, names: tuple[str, ...], prefix: str) -> list[str]:
        for k, name in enumerate(names):
            self.operands.append(Operand(f"{prefix}{k}", self.v.type(name).dtype.c, "out", name))
        return [f"{prefix}{k}" for k in range(len(names))]

    def scratch(self, like: tuple[str, ...], prefix: str) -> list[str]:
        """A buffer of the size of each of `like`."""
        for k, name in enumerate(like):
            t = self.v.type(name)
            self.operands.append(Operand(f"{prefix}{k}", t.dtype.c, "scratch", bytes=t.bytes))
        return [f"{prefix}{k}" for k in range(len(like))]

    def kernel(self, name: str, template: str, turns: int | None = None, **params: Any) -> Kernel:
        """`turns`: how often the subgraph runs, if that is known. States are copied each time."""
        states = [m[3] for m in params.get("moves", ())]
        each = times(call=1, loop=1, whole=4) + total(*map(copies, states))
        return Kernel(
            name,
            template,
            params,
            tuple(self.operands),
            turns={} if turns is None else dict.fromkeys(self.v.node.graphs, turns),
            operations=(1 if turns is None else turns) * each,
        )


def _step(v: View, name: str, length: int) -> int:
    """From one element of a stack of `length` to the next, in elements of its type in C."""
    row, count = v.type(name).dtype, v.type(name).elements // max(1, length)
    if not row.packed:
        return count
    if count * row.bits % 8:
        raise UnsupportedError(f"a stack of tensors of {count} {row}; supported: whole bytes")
    return count * row.bits // 8


def _bytes(v: View, names: tuple[str, ...]) -> list[int]:
    return [v.type(name).bytes for name in names]


def _relay_if(s: Site) -> tuple[str, ...]:
    """The node's inputs are the condition and what both branches may read."""
    condition = s.single(0)
    branches = [s.branch(key) for key in ("then_branch", "else_branch")]
    made = s.bind(f"if ({condition}) {branches[0]} else {branches[1]}")
    if len(s.node.outputs) == 1:
        return (made,)
    return tuple(f"{made}.{k}" for k in range(len(s.node.outputs)))


@op("If", Trait.BRANCH, graphs=("then_branch", "else_branch"), relay=_relay_if)
def if_(v: View) -> Kernel:
    """One of two branches, with the captures as inputs."""
    call = _Call(v)
    condition = call.reads(v.node.inputs[:1], "condition")
    captures = call.reads(v.node.inputs[1:], "c")
    outs = call.writes(v.node.outputs, "y")
    return call.kernel(
        "portable.if", "control_if.c.j2", condition=condition[0], arguments=[*captures, *outs]
    )


@op("Loop", Trait.LOOP, graphs=("body",))
def loop(v: View) -> Kernel:
    """The state lives in the outputs; an iteration writes the next state to scratch."""
    body: Graph = v.node.graphs["body"]
    count, condition = v.node.inputs[:2]
    states = len(body.outputs) - 1 - v.attr("mlf.scans", 0)
    first, captured = v.node.inputs[2 : 2 + states], v.node.inputs[2 + states :]
    counts = v.attr("mlf.counts", 0)
    stop = len(v.node.outputs) - counts
    finals, scans = v.node.outputs[:states], v.node.outputs[states:stop]
    call = _Call(v)
    limit = call.reads((count,), "count") if count else []
    start = call.reads((condition,), "condition") if condition else []
    initial = call.reads(first, "v")
    captures = call.reads(captured, "c")
    state = call.writes(finals, "y")
    scanned = call.writes(scans, "s")
    counted = call.writes(v.node.outputs[stop:], "iterations")
    following = call.scratch(finals, "n")
    each = [_step(v, name, v.type(name).shape[0]) for name in scans]
    most = min((v.type(name).shape[0] for name in scans), default=None)
    known = v.graph.consts.get(count) if count else None
    bounds = [n for n in (most, None if known is None else int(known.item())) if n is not None]
    return call.kernel(
        "portable.loop",
        "control_loop.c.j2",
        min(bounds, default=None),
        count=limit[0] if limit else "",
        most=most,
        condition=start[0] if start else "",
        moves=list(zip(initial, state, following, _bytes(v, finals), strict=True)),
        captures=captures,
        scans=[f"{name} + i * {step}" for name, step in zip(scanned, each, strict=True)],
        boxes=list(zip(scanned, _bytes(v, scans), strict=True)) if counts else [],
        counted=counted[0] if counts else "",
    )


@op("Scan", Trait.SCAN, graphs=("body",))
def scan(v: View) -> Kernel:
    """Sequences along their first axis, forwards or backwards."""
    body: Graph = v.node.graphs["body"]
    sequences = v.attr("num_scan_inputs")
    states = v.attr("mlf.states")
    inputs = v.node.inputs
    first, read = inputs[:states], inputs[states : states + sequences]
    finals, scans = v.node.outputs[:states], v.node.outputs[states:]
    length = v.type(read[0]).shape[0]
    call = _Call(v)
    initial = call.reads(first, "v")
    elements = call.reads(read, "x")
    captures = call.reads(inputs[states + sequences :], "c")
    state = call.writes(finals, "y")
    scanned = call.writes(scans, "s")
    following = call.scratch(finals, "n")

    def walk(names: list[str], tensors: tuple[str, ...], attr: str) -> list[str]:
        """Where each sequence stands in iteration `i`."""
        backwards = v.attr(attr) or [0] * len(names)
        each = [_step(v, t, length) for t in tensors]
        return [
            f"{name} + {f'({length - 1} - i)' if back else 'i'} * {step}"
            for name, back, step in zip(names, backwards, each, strict=True)
        ]

    assert len(body.inputs) == len(inputs)
    return call.kernel(
        "portable.scan",
        "control_scan.c.j2",
        length,
        length=length,
        moves=list(zip(initial, state, following, _bytes(v, finals), strict=True)),
        elements=walk(elements, read, "scan_input_directions"),
        captures=captures,
        scans=walk(scanned, scans, "scan_output_directions"),
    )
