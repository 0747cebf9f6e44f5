"""Quantised networks arrive as float operators between DequantizeLinear and QuantizeLinear; here
they become integer arithmetic.

    %f = DequantizeLinear(%q, s, z)       =>   %p = MaxPool(%q)
    %p = MaxPool(%f)                           %f = DequantizeLinear(%p, s, z)

    QuantizeLinear(Relu(Conv(DequantizeLinear(%x), DequantizeLinear(w), DequantizeLinear(b))))
                                          =>   QLinearConv(%x, w, b) with its range cut at zero
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ops import Trait, has

QUANTISED_FORM = {"Conv": "QLinearConv", "Gemm": "com.microsoft.QGemm"}


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
    return has(node.op, Trait.MOVES_DATA) or has(node.op, Trait.ORDER_PRESERVING)


# Of operators that move data, the inputs that are moved; the others say where to.
MOVED = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), (0,)),
    **dict.fromkeys(("Expand", "Tile", "Slice", "ReverseSequence"), (0,)),
}


def _moved(node: Node) -> tuple[int, ...]:
    return MOVED.get(node.op, tuple(range(len(node.inputs))))


def _per_tensor(e: Editor, node: Node) -> bool:
    return all(i in e.consts and e.consts[i].size == 1 for i in node.inputs[1:])


def _same_parameters(e: Editor, a: Node, b: Node) -> bool:
    return len(a.inputs) == len(b.inputs) and all(
        np.array_equal(e.consts[i], e.consts[j]) and e.types[i].dtype == e.types[j].dtype
        for i, j in zip(a.inputs[1:], b.inputs[1:], strict=True)
    )


def _sink(e: Editor, node: Node) -> bool:
    """op(DQ(x)) -> DQ(op(x))."""
    if not _commutes(node) or len(node.outputs) > 1:
        return False
    sources = [e.producer(node.inputs[i]) for i in _moved(node)]
    if not sources or any(
        s is None or s.op != "DequantizeLinear" or not _per_tensor(e, s) for s in sources
    ):
        return False
    first = sources[0]
    assert first is not None
    if any(not _same_parameters(e, first, s) for s in sources if s is not None):
        return False
    out = e.types[node.outputs[0]]
    moved = e.fresh(node.outputs[0] + ".q", TensorType(e.types[first.inputs[0]].dtype, out.shape))
    inputs = list(node.inputs)
    for i, source in zip(_moved(node), sources, strict=True):
        assert source is not None
        inputs[i] = source.inputs[0]
    e.substitute(
        [node],
        [
            replace(node, inputs=tuple(inputs), outputs=(moved,)),
            replace(first, inputs=(moved, *first.inputs[1:]), outputs=node.outputs),
        ],
    )
    return True


def _hoist(e: Editor, node: Node) -> bool:
    """Q(op(x)) -> op(Q(x))."""
    if node.op != "QuantizeLinear" or not _per_tensor(e, node):
        return False
    move = e.producer(node.inputs[0])
    if (
        move is None
        or not _commutes(move)
        or len(_moved(move)) != 1
        or len(move.outputs) > 1
        or e.only_user(node.inputs[0]) is not node
    ):
        return False
    source, out = e.types[move.inputs[0]], e.types[node.outputs[0]]
    if source.elements > out.elements:  # it picks some elements: the others need no quantisation
        return False
    early = e.fresh(node.outputs[0] + ".q", TensorType(out.dtype, source.shape))
    e.substitute(
        [move, node],
        [
            replace(node, inputs=(move.inputs[0], *node.inputs[1:]), outputs=(early,)),
            replace(move, inputs=(early, *move.inputs[1:]), outputs=node.outputs),
        ],
    )
    return True


def _cancel(e: Editor, node: Node) -> bool:
    """Q(DQ(x)) with equal parameters -> x."""
    if node.op != "QuantizeLinear" or not _per_tensor(e, node):
        return False
    source = e.producer(node.inputs[0])
    if (
        source is None
        or source.op != "DequantizeLinear"
        or not _per_tensor(e, source)
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


@dataclass(frozen=True)
class _Match:
    """A float contraction with everything quantised around it."""

    core: Node
    x: Node  # DequantizeLinear
    w: Node  # DequantizeLinear of a constant
    b: Node | None  # DequantizeLinear of an int32 constant
    activations: tuple[Node, ...]  # Relu, Clip
    q: Node  # QuantizeLinear


def to_integer(graph: Graph) -> Graph:
    """Contractions between DQ and Q become QLinearConv and QGemm."""
    e = Editor(graph)
    for node in list(e.nodes):
        match = _match(e, node) if node.op in QUANTISED_FORM else None
        if match:
            _replace(e, match)
    return e.finish()


def average_to_integer(graph: Graph) -> Graph:
    """Q(AveragePool(DQ(x))) becomes QLinearAveragePool, which sums integers."""
    e = Editor(graph)
    for node in list(e.nodes):
        x = e.producer(node.inputs[0]) if node.op == "AveragePool" else None
        q = e.only_user(node.outputs[0])
        if x is None or x.op != "DequantizeLinear" or q is None or q.op != "QuantizeLinear":
            continue
        eight_bits = e.types[x.inputs[0]].dtype.is_int8 and e.types[q.outputs[0]].dtype.is_int8
        if not eight_bits or any(len(n.inputs) < 3 or not _per_tensor(e, n) for n in (x, q)):
            continue
        inputs = (*x.inputs, *q.inputs[1:])
        pool = Node("com.microsoft.QLinearAveragePool", inputs, q.outputs, node.attrs, node.name)
        e.substitute([node, q], [pool])
    return e.finish()


def _match(e: Editor, core: Node) -> _Match | None:
    sources = [e.producer(i) if i else None for i in core.inputs]
    if any(s is None or s.op != "DequantizeLinear" for s in sources[:2]):
        return None
    x, w = sources[0], sources[1]
    b = sources[2] if len(sources) > 2 else None
    assert x is not None
    assert w is not None
    if not _per_tensor(e, x) or w.inputs[0] not in e.consts or len(x.inputs) < 3:
        return None
    if not e.types[x.inputs[0]].dtype.is_int8 or not e.types[w.inputs[0]].dtype.is_int8:
        return None
    if not all(_per_output_channel(e, core, name) for name in w.inputs[1:]):
        return None
    if len(core.inputs) > 2 and (b is None or not _is_accumulator_bias(e, core, x, w, b)):
        return None
    chain, at = [], core
    while True:
        user = e.only_user(at.outputs[0])
        if user is None:
            return None
        if user.op == "QuantizeLinear":
            break
        if user.op != "Relu" and not (
            user.op == "Clip" and all(not i or i in e.consts for i in user.inputs[1:])
        ):
            return None
        chain.append(user)
        at = user
    if not _per_tensor(e, user) or len(user.inputs) < 3:
        return None
    if not e.types[user.outputs[0]].dtype.is_int8:
        return None
    return _Match(core, x, w, b, tuple(chain), user)


def _per_output_channel(e: Editor, core: Node, name: str) -> bool:
    """Whether a parameter of the weights can leave the sum: one value, or one per output."""
    if name not in e.consts:
        return False
    shape = e.types[name].shape
    axis = 0 if core.op == "Conv" or core.attrs.get("transB", 0) else 1
    return all(n == 1 for k, n in enumerate(shape) if k != axis)


def _is_accumulator_bias(e: Editor, core: Node, x: Node, w: Node, b: Node) -> bool:
    """Whether the bias is stored in units of the accumulator, x_scale * w_scale."""
    if b.op != "DequantizeLinear" or b.inputs[0] not in e.consts:
        return False
    if e.consts[b.inputs[0]].dtype != np.int32 or (
        len(b.inputs) > 2 and np.any(e.consts[b.inputs[2]])
    ):
        return False
    unit = e.consts[x.inputs[1]].reshape(-1) * e.consts[w.inputs[1]].reshape(-1)
    scale = e.consts[b.inputs[1]].reshape(-1)
    return bool(np.allclose(scale, unit, rtol=1e-5, atol=0.0))


def _replace(e: Editor, m: _Match) -> None:
    dtype = e.types[m.q.outputs[0]].dtype
    y_scale, y_zero_point = e.consts[m.q.inputs[1]], e.consts[m.q.inputs[2]]
    lo, hi = dtype.range
    for activation in m.activations:
        low, high = _bounds(e, activation)
        lo = max(lo, _quantised(low, y_scale, y_zero_point, dtype.range))
        hi = min(hi, _quantised(high, y_scale, y_zero_point, dtype.range))
    w_zero_point = (
        m.w.inputs[2]
        if len(m.w.inputs) > 2
        else e.const(m.w.inputs[0] + ".zero_point", np.zeros((), e.consts[m.w.inputs[0]].dtype))
    )
    xs, ws = m.x.inputs, (m.w.inputs[0], m.w.inputs[1], w_zero_point)
    bias = (m.b.inputs[0],) if m.b else ()
    attrs = {**m.core.attrs, "activation": (lo, hi)}
    if m.core.op == "Conv":
        inputs = (*xs, *ws, *m.q.inputs[1:], *bias)
    else:
        inputs = (*xs, *ws, bias[0] if bias else "", *m.q.inputs[1:])
    node = Node(QUANTISED_FORM[m.core.op], inputs, m.q.outputs, attrs, m.core.name)
    e.substitute([m.core, *m.activations, m.q], [node])


def _bounds(e: Editor, activation: Node) -> tuple[float, float]:
    if activation.op == "Relu":
        return 0.0, float("inf")
    low, high = (*activation.inputs[1:], "", "")[:2]
    return (
        float(e.consts[low].item()) if low else float("-inf"),
        float(e.consts[high].item()) if high else float("inf"),
    )


def _quantised(value: float, scale: Array, zero_point: Array, limits: tuple[int, int]) -> int:
    """QuantizeLinear of one value; it is monotonic, so a clamp before it is a clamp after it."""
    if np.isinf(value):
        return limits[0] if value < 0 else limits[1]
    ratio = np.float32(value) / np.float32(scale.item())
    return int(np.clip(np.rint(ratio) + int(zero_point.item()), *limits))
