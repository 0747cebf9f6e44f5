"""Sums of products between DequantizeLinear and QuantizeLinear become integer arithmetic.

    QuantizeLinear(Relu(Conv(DequantizeLinear(%x), DequantizeLinear(w), DequantizeLinear(b))))
                                          =>   QLinearConv(%x, w, b) with its range cut at zero

Where no QuantizeLinear follows, or a bias is no multiple of the accumulator's unit, the integer
form has no output scale: it gives float(accumulator) * x_scale * w_scale, and what follows stays as
it is, to be fused into the kernel's store:

    Sigmoid(Conv(DequantizeLinear(%x), DequantizeLinear(w), b))
                                          =>   Sigmoid(Add(QLinearConv(%x, w), b))
"""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.dtype import DType
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ir.rounding import IN_FLOATS, Rounding
from mlftool.ops.base import OPS, Contracts, Layout, Trait, contracts, is_a, record
from mlftool.passes.order import rewrite
from mlftool.passes.qdq import per_tensor


@frozen
class _Match:
    """A float contraction with everything quantised around it. What there is no `q` for is made in
    float from the accumulator."""

    core: Node
    x: Node  # DequantizeLinear
    w: Node  # DequantizeLinear
    b: Node | None  # DequantizeLinear of an int32 constant, in units of the accumulator
    addend: str  # any other bias
    activations: tuple[Node, ...]  # Relu, Clip
    q: Node | None  # QuantizeLinear


@rewrite(after="sink_and_hoist", level=2, tvm="FakeQuantizationToInteger")
def to_integer(graph: Graph) -> Graph:
    """Contractions of dequantised tensors become QLinearConv, QGemm and their kin."""
    e = Editor(graph)
    for node in list(e.nodes):
        match = _match(e, node) if record(node).quantised else None
        if match:
            _replace(e, match)
    return e.finish()


@rewrite(after="fold_constants", level=2, tvm="FakeQuantizationToInteger")
def average_to_integer(graph: Graph) -> Graph:
    """Q(AveragePool(DQ(x))) becomes QLinearAveragePool, which sums integers; means and sums along
    axes likewise, where no Q follows in the form that gives floats; and what rescales rows."""
    e = Editor(graph)
    for node in list(e.nodes):
        form = "" if contracts(node) else record(node).quantised
        x = e.producer(node.inputs[0]) if form else None
        if not _meant_in_integers(x) or len(node.outputs) > 1:
            continue
        row = e.types[x.inputs[0]].dtype
        others = node.inputs[1:]
        if not (_is_stored(row) and not row.packed and per_tensor(e, x)):
            continue
        known = all(name in e.consts for name in others if name)
        if e.types[node.outputs[0]].dtype.name != "float32" or not known:
            continue
        found = _stored_by(e, node)
        q = found[1] if found and not found[0] else None
        if q is None and is_a(node, Trait.PROLOGUE):
            continue  # its kernel dequantises what it loads
        ys = q.inputs[1:] if q else ("", "")
        last = q or node
        inputs = (*x.inputs, *_no_zero_point(e, x), *ys, *others)
        made = Node(form, inputs, last.outputs, node.attrs, node.name)
        if _is_taken(e, node, made):
            e.substitute([node, q] if q else [node], [made])
    return e.finish()


def _is_taken(e: Editor, node: Node, made: Node) -> bool:
    """Whether the quantised form of a node has these types and numbers."""
    asked, values = record(node).quantises, [e.consts.get(name) for name in made.inputs]
    x, y = (e.types[name] for name in (made.inputs[0], made.outputs[0]))
    return asked is None or asked(made.attrs, x, y, values)


def _meant_in_integers(dq: Node | None) -> TypeGuard[Node]:
    """Whether there is a DequantizeLinear, and what reads it may be done on integers."""
    return is_a(dq, Trait.DEQUANTISER) and not dq.attrs.get(IN_FLOATS, 0)


def _is_stored(row: DType) -> bool:
    """Whether a quantised tensor of the type can be multiplied by integer kernels."""
    return row.kind in "iu" and row.bits <= 16


def _match(e: Editor, core: Node) -> _Match | None:
    c = contracts(core)
    if c is None:
        return None
    x, w = e.producer(core.inputs[0]), e.producer(core.inputs[c.weights])
    if not _meant_in_integers(x) or not _meant_in_integers(w):
        return None
    if e.types[core.outputs[0]].dtype.name != "float32" or not per_tensor(e, x):
        return None
    if not _is_stored(e.types[x.inputs[0]].dtype) or e.types[x.inputs[0]].dtype.packed:
        return None
    if not _is_stored(e.types[w.inputs[0]].dtype) or not _are_weights(e, core, c, w):
        return None
    bias = core.inputs[c.bias] if c.bias is not None and len(core.inputs) > c.bias else ""
    b = e.producer(bias) if bias else None
    if b is not None and not _is_accumulator_bias(e, x, w, b):
        b = None
    if bias and b is None:
        return _Match(core, x, w, None, bias, (), None)
    if b is not None and w.inputs[0] not in e.consts:
        return _Match(core, x, w, None, bias, (), None)
    found = _stored_by(e, core)
    chain, q = found if found else ((), None)
    return _Match(core, x, w, b, "", chain, q)


def _are_weights(e: Editor, core: Node, c: Contracts, w: Node) -> bool:
    """Whether the second operand's parameters can leave the sum: there is one, or, of constant
    weights, one for each output channel, which a vector has none of."""
    if w.inputs[0] not in e.consts:
        row = e.types[w.inputs[0]].dtype
        return bool(c.computed) and not row.packed and per_tensor(e, w)
    rank = len(e.types[w.inputs[0]].shape)
    axis = c.axis(core.attrs, rank) if rank > 1 else None
    return all(
        name in e.consts and all(n == 1 for k, n in enumerate(e.types[name].shape) if k != axis)
        for name in w.inputs[1:]
    )


def _stored_by(e: Editor, core: Node) -> tuple[tuple[Node, ...], Node] | None:
    """The activations after a contraction and the QuantizeLinear after them."""
    chain: list[Node] = []
    while True:
        user = e.only_user((chain[-1] if chain else core).outputs[0])
        if user is None:
            return None
        if is_a(user, Trait.QUANTISER):
            row = e.types[user.outputs[0]].dtype
            plain = per_tensor(e, user) and Rounding.of(user) is Rounding.EVEN
            fits = plain and len(user.inputs) > 2 and not row.packed
            return (tuple(chain), user) if fits and _is_stored(row) else None
        if _limits(e, user) is None:
            return None
        chain.append(user)


def _is_accumulator_bias(e: Editor, x: Node, w: Node, b: Node) -> bool:
    """Whether the bias is stored in units of the accumulator, x_scale * w_scale."""
    known = all(name in e.consts for name in (*b.inputs, x.inputs[1], w.inputs[1]) if name)
    if not is_a(b, Trait.DEQUANTISER) or not known:
        return False
    if e.consts[b.inputs[0]].dtype != np.int32 or (
        len(b.inputs) > 2 and np.any(e.consts[b.inputs[2]])
    ):
        return False
    unit = e.consts[x.inputs[1]].reshape(-1) * e.consts[w.inputs[1]].reshape(-1)
    scale = e.consts[b.inputs[1]].reshape(-1)
    if scale.size not in (1, unit.size) and unit.size != 1:
        return False
    return bool(np.allclose(scale, unit, rtol=1e-5, atol=0.0))


def _replace(e: Editor, m: _Match) -> None:
    xs = (*m.x.inputs, *_no_zero_point(e, m.x))
    ws = _weights(e, m)
    ys = m.q.inputs[1:] if m.q else ("", "")
    bias = m.b.inputs[0] if m.b else ""
    op = _form(e, m.core, ws[0])
    inputs = _operands(OPS[op].contracts, xs, ws, ys, bias)
    attrs = {k: a for k, a in m.core.attrs.items() if k not in ("alpha", "beta", "transA")}
    if m.q:
        attrs["activation"] = _range(e, m.q, m.activations)
        node = Node(op, inputs, m.q.outputs, attrs, m.core.name)
        e.substitute([m.core, *m.activations, m.q], [node])
    elif m.addend:
        product = e.fresh(m.core.outputs[0] + ".product", e.types[m.core.outputs[0]])
        node = Node(op, inputs, (product,), attrs, m.core.name)
        spread = _spread(e, m)
        add = e.add("Add", (product, spread[0]), m.core, m.core.outputs[0])
        e.substitute([m.core], [node, *spread[1], add])
    else:
        e.substitute([m.core], [Node(op, inputs, m.core.outputs, attrs, m.core.name)])


def _form(e: Editor, core: Node, w: str) -> str:
    """The quantised form that takes these weights."""
    c = contracts(core)
    packed = w in e.consts and len(e.types[w].shape) == 2 and e.types[w].elements > 0
    return c.computed if c and c.computed and not packed else record(core).quantised


def _operands(
    c: Contracts | None,
    xs: tuple[str, ...],
    ws: tuple[str, ...],
    ys: tuple[str, ...],
    bias: str,
) -> tuple[str, ...]:
    """Inputs in the order of a quantised form; a bias that is left out at the end is not there."""
    assert c is not None
    assert c.y_scale is not None
    if c.bias is not None and c.bias < c.y_scale:
        return (*xs, *ws, bias, *ys)
    return (*xs, *ws, *ys, *((bias,) if bias else ()))


def _no_zero_point(e: Editor, dq: Node) -> tuple[str, ...]:
    """The zero point that a DequantizeLinear left out."""
    if len(dq.inputs) > 2:
        return ()
    return (e.const(dq.inputs[0] + ".zero_point", np.zeros((), e.types[dq.inputs[0]].dtype.numpy)),)


def _weights(e: Editor, m: _Match) -> tuple[str, ...]:
    """The second operand with its parameters, of constants one for each output channel."""
    w, scale, zero = (*m.w.inputs, *_no_zero_point(e, m.w))
    if w not in e.consts:
        return w, scale, zero
    c = contracts(m.core)
    groups = c.groups(m.core.attrs) if c else 1
    w, zero = _centred(e, w, zero)
    if e.consts[zero].size > 1:
        zero = e.const(zero + ".channels", np.tile(e.consts[zero].reshape(-1), groups))
    scales = e.consts[scale]
    if scales.size > 1 and groups > 1:
        scale = e.const(scale + ".channels", np.tile(scales.reshape(-1), groups))
    return w, scale, zero


def _centred(e: Editor, w: str, zero: str) -> tuple[str, str]:
    """Constant weights less their zero point, which must broadcast, where that fits into as many
    bits: kernels are fastest without one. 4 bits become 8."""
    stored, zeros = e.consts[w], e.consts[zero]
    bits = max(8, e.types[w].dtype.bits)
    kind = np.dtype(f"int{bits}")
    if kind != stored.dtype or zeros.any():
        # Twice the bits hold every difference, and weights may be 100 MB.
        wide = np.dtype(f"int{2 * bits}")
        centred = stored.astype(wide) - zeros.astype(wide)
        least, most = centred.min(initial=0), centred.max(initial=0)
        if least < np.iinfo(kind).min or most > np.iinfo(kind).max:
            return w, zero
        w = e.const(w + ".centred", centred.astype(kind))
    return w, e.const(zero + ".centred", np.zeros((), kind))


@rewrite(after="to_integer")
def settle_weights(graph: Graph) -> Graph:
    """Operators that arrive in integers get the form that kernels pack: QLinearMatMul with constant
    weights is a QGemm on the rows of x, and weights are centred at zero."""
    e = Editor(graph)
    for node in list(e.nodes):
        c = contracts(node)
        if c is not None and c.quantised and c.rows:
            node = _as_gemm(e, node, c)
            c = contracts(node)
        if c is not None and c.quantised and c.layout in (Layout.CONVOLUTION, Layout.MATRIX):
            _centre(e, node, c)
    return e.finish()


def _as_gemm(e: Editor, node: Node, c: Contracts) -> Node:
    """x[..., K] @ w[K, N] with x quantised as a whole."""
    x, w, y = (e.types[i] for i in (node.inputs[0], node.inputs[c.weights], node.outputs[0]))
    known = all(i in e.consts for i in node.inputs[1:] if i)
    one = all(e.types[node.inputs[k]].elements == 1 for k in (1, 2))
    fit = all(e.types[i].elements in (1, w.shape[-1]) for i in node.inputs[4:6] if i)
    if not (known and one and fit and w.elements) or len(w.shape) != 2:
        return node
    rows = math.prod(x.shape[:-1])
    flat = e.fresh(node.inputs[0] + ".rows", TensorType(x.dtype, (rows, x.shape[-1])))
    made = e.fresh(node.outputs[0] + ".rows", TensorType(y.dtype, (rows, y.shape[-1])))
    inputs = _operands(
        OPS[c.rows].contracts, (flat, *node.inputs[1:3]), node.inputs[3:6], node.inputs[6:], ""
    )
    gemm = Node(c.rows, inputs, (made,), node.attrs, node.name)
    before = e.add("Reshape", (node.inputs[0],), node, flat)
    e.substitute([node], [before, gemm, e.add("Reshape", (made,), node, node.outputs[0])])
    return gemm


def _centre(e: Editor, node: Node, c: Contracts) -> None:
    w, zero = node.inputs[3], node.inputs[5]
    if w not in e.consts or zero not in e.consts:
        return
    zeros = e.consts[zero].reshape(-1)
    rank = len(e.types[w].shape)
    axis = c.axis(node.attrs, rank)
    if zeros.size not in (1, e.types[w].shape[axis]):
        return  # the kernel refuses it
    spread = e.const(zero + ".spread", zeros.reshape([-1 if k == axis else 1 for k in range(rank)]))
    inputs = list(node.inputs)
    inputs[3], inputs[5] = _centred(e, w, spread)
    if inputs[3] != w:
        e.substitute([node], [replace(node, inputs=tuple(inputs))])


def _spread(e: Editor, m: _Match) -> tuple[str, list[Node]]:
    """The bias in a shape that broadcasts to the output."""
    b, rank = e.types[m.addend], len(e.types[m.core.outputs[0]].shape)
    if not is_a(m.core, Trait.SPATIAL) or b.elements == 1:
        return m.addend, []
    shape = (1, b.elements, *(1,) * (rank - 2))
    if m.addend in e.consts:
        return e.const(m.addend + ".spread", e.consts[m.addend].reshape(shape)), []
    name = e.fresh(m.addend + ".spread", TensorType(b.dtype, shape))
    return name, [e.add("Reshape", (m.addend,), m.core, name)]


def _range(e: Editor, q: Node, activations: tuple[Node, ...]) -> tuple[int, int]:
    """What is left of the stored type's range when activations have cut it."""
    dtype = e.types[q.outputs[0]].dtype
    scale, zero_point = e.consts[q.inputs[1]], e.consts[q.inputs[2]]
    lo, hi = dtype.range
    for activation in activations:
        limits = _limits(e, activation) or (-np.inf, np.inf)
        low, high = (_stored(n, scale, zero_point, dtype.range) for n in limits)
        lo, hi = (min(max(n, low), high) for n in (lo, hi))  # of Clip, max wins over min
    return lo, hi


def _limits(e: Editor, activation: Node) -> tuple[float, float] | None:
    """What an activation cuts its input off at, if it does no more and that is known."""
    limits = record(activation).limits
    if limits is None or not all(not i or i in e.consts for i in activation.inputs[1:]):
        return None
    return limits([e.consts.get(i) for i in activation.inputs])


def _stored(value: float, scale: Array, zero_point: Array, limits: tuple[int, int]) -> int:
    """QuantizeLinear of one value; it is monotonic, so a clamp before it is a clamp after it."""
    if np.isinf(value):
        return limits[0] if value < 0 else limits[1]
    ratio = np.float32(value) / np.float32(scale.item())
    return int(np.clip(np.rint(ratio) + int(zero_point.item()), *limits))
