"""Quantised networks arrive as float operators between DequantizeLinear and QuantizeLinear; here
what only moves or compares elements is done on the quantised ones.

    %f = DequantizeLinear(%q, s, z)       =>   %p = MaxPool(%q)
    %p = MaxPool(%f)                           %f = DequantizeLinear(%p, s, z)

What is computed between them is the business of passes/integers.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ops import Trait, has


def sink_and_hoist(graph: Graph) -> Graph:
    """Data movement and comparisons work on the quantised values; equal Q(DQ(x)) pairs vanish."""
    e = Editor(graph)
    changed = True
    while changed:
        changed = any(
            [_sink(e, n) or _hoist(e, n) or _cancel(e, n) for n in list(e.nodes) if e.holds(n)]
        )
    return e.finish()


def _commutes(node: Node) -> bool:
    moves = has(node.op, Trait.MOVES_DATA) or has(node.op, Trait.ORDER_PRESERVING)
    return moves and node.attrs.get("reduction", "none") == "none"


# The inputs, and the outputs, that carry elements; the others say where to or where from.
MOVED = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Pad", "mlf.Nearest"), (0,)),
    **dict.fromkeys(("Expand", "Tile", "Slice", "ReverseSequence", "Split"), (0,)),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "TopK", "ArgMax", "ArgMin"), (0,)),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (0, 2)),
}
MADE: dict[str, tuple[int, ...]] = {"ArgMax": (), "ArgMin": (), "TopK": (0,), "MaxPool": (0,)}


def _moved(node: Node) -> tuple[int, ...]:
    return MOVED.get(node.op, tuple(range(len(node.inputs))))


def _made(node: Node) -> tuple[int, ...]:
    return MADE.get(node.op, tuple(k for k, name in enumerate(node.outputs) if name))


def per_tensor(e: Editor, node: Node) -> bool:
    return all(i in e.consts and e.consts[i].size == 1 for i in node.inputs[1:])


def _same_parameters(e: Editor, a: Node, b: Node) -> bool:
    return len(a.inputs) == len(b.inputs) and all(
        np.array_equal(e.consts[i], e.consts[j]) and e.types[i].dtype == e.types[j].dtype
        for i, j in zip(a.inputs[1:], b.inputs[1:], strict=True)
    )


def _sink(e: Editor, node: Node) -> bool:
    """op(DQ(x)) -> DQ(op(x))."""
    if not _commutes(node):
        return False
    sources = [e.producer(node.inputs[i]) for i in _moved(node)]
    if not sources or any(
        s is None or s.op != "DequantizeLinear" or not per_tensor(e, s) for s in sources
    ):
        return False
    first = sources[0]
    assert first is not None
    if any(not _same_parameters(e, first, s) for s in sources if s is not None):
        return False
    row = e.types[first.inputs[0]].dtype
    inputs, outputs = list(node.inputs), list(node.outputs)
    if node.op == "Pad":
        value = _padding(e, node, first)
        if value is None:
            return False
        inputs = _with_padding(e, node, value.astype(row.numpy))
    for i, source in zip(_moved(node), sources, strict=True):
        assert source is not None
        inputs[i] = source.inputs[0]
    after = []
    for k in _made(node):
        shape = e.types[node.outputs[k]].shape
        outputs[k] = e.fresh(node.outputs[k] + ".q", TensorType(row, shape))
        dq = (outputs[k], *first.inputs[1:])
        after.append(replace(first, inputs=dq, outputs=(node.outputs[k],)))
    e.substitute([node], [replace(node, inputs=tuple(inputs), outputs=tuple(outputs)), *after])
    return True


def _padding(e: Editor, pad: Node, by: Node) -> Array | None:
    """The value that a Pad adds, quantised as `by` does or undoes; None if it is not known, or, in
    front of a DequantizeLinear, no value of the quantised type."""
    name = pad.inputs[2] if len(pad.inputs) > 2 else ""
    if (name and name not in e.consts) or (len(by.inputs) < 3 and by.op == "QuantizeLinear"):
        return None
    value = e.consts[name].reshape(()) if name else np.zeros((), np.float32)
    scale = e.consts[by.inputs[1]].reshape(())
    zero = e.consts[by.inputs[2]].reshape(()) if len(by.inputs) > 2 else np.zeros((), np.int32)
    row = e.types[(by.inputs if by.op == "DequantizeLinear" else by.outputs)[0]].dtype
    if row.is_float or scale.dtype != np.float32 or not np.isfinite(value):
        return None
    stored = np.clip(np.rint(value / scale) + zero.astype(np.int64), *row.range)
    back = (stored - zero.astype(np.int64)).astype(np.float32) * scale
    return stored if by.op == "QuantizeLinear" or back == value else None


def _with_padding(e: Editor, pad: Node, value: Array) -> list[str]:
    """A Pad's inputs with another value."""
    inputs = [*pad.inputs, "", ""]
    inputs[2] = e.const(pad.inputs[0] + ".padding", value)
    return inputs[: max(3, len(pad.inputs))]


def _hoist(e: Editor, node: Node) -> bool:
    """Q(op(x)) -> op(Q(x))."""
    if node.op != "QuantizeLinear" or not per_tensor(e, node):
        return False
    move = e.producer(node.inputs[0])
    if (
        move is None
        or not _commutes(move)
        or len(move.outputs) > 1
        or not _made(move)
        or e.only_user(node.inputs[0]) is not node
    ):
        return False
    out, moved = e.types[node.outputs[0]], [move.inputs[i] for i in _moved(move)]
    # Where it picks some elements the others need no quantisation.
    if sum(e.types[name].elements for name in moved) > out.elements:
        return False
    inputs = list(move.inputs)
    if move.op == "Pad":
        value = _padding(e, move, node)
        if value is None:
            return False
        inputs = _with_padding(e, move, value.astype(out.dtype.numpy))
    before = []
    for i, name in zip(_moved(move), moved, strict=True):
        early = TensorType(out.dtype, e.types[name].shape)
        inputs[i] = e.fresh(node.outputs[0] + ".q", early)
        before.append(replace(node, inputs=(name, *node.inputs[1:]), outputs=(inputs[i],)))
    e.substitute([move, node], [*before, replace(move, inputs=tuple(inputs), outputs=node.outputs)])
    return True


def _cancel(e: Editor, node: Node) -> bool:
    """Q(DQ(x)) with equal parameters -> x."""
    if node.op != "QuantizeLinear" or not per_tensor(e, node):
        return False
    source = e.producer(node.inputs[0])
    if (
        source is None
        or source.op != "DequantizeLinear"
        or not per_tensor(e, source)
        or not _same_parameters(e, source, node)
        or e.types[source.inputs[0]].dtype != e.types[node.outputs[0]].dtype
    ):
        return False
    if node.outputs[0] in e.outputs:
        e.substitute([node], [replace(node, op="Reshape", inputs=source.inputs[:1], attrs={})])
    else:
        e.remove(node)
        e.rename(node.outputs[0], source.inputs[0])
    return True
