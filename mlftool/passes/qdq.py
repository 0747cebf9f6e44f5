"""Quantised networks arrive as float operators between DequantizeLinear and QuantizeLinear; here
what only moves or compares elements is done on the quantised ones.

    %f = DequantizeLinear(%q, s, z)       =>   %p = MaxPool(%q)
    %p = MaxPool(%f)                           %f = DequantizeLinear(%p, s, z)

What is computed between them is the business of passes/integers.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlftool.ir.dtype import DType
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Trait, is_a, record
from mlftool.passes.order import rewrite
from mlftool.signs import commutes


@rewrite(after="spread_batchnorm", level=2, tvm="FakeQuantizationToInteger")
def sink_and_hoist(graph: Graph) -> Graph:
    """Data movement and comparisons work on the quantised values; equal Q(DQ(x)) pairs vanish."""
    e = Editor(graph)
    changed = True
    while changed:
        changed = any(
            [_sink(e, n) or _hoist(e, n) or _cancel(e, n) for n in list(e.nodes) if e.holds(n)]
        )
    return e.finish()


def per_tensor(e: Editor, node: Node) -> bool:
    return all(i in e.consts and e.consts[i].size == 1 for i in node.inputs[1:])


def _rises(e: Editor, node: Node) -> bool:
    """Whether a greater integer is a greater number, so that comparing one compares the other."""
    return bool(e.consts[node.inputs[1]].reshape(()) > 0)


def _is_told_apart(e: Editor, dq: Node) -> bool:
    """Whether every stored number is another one after a DequantizeLinear of one scale, and the
    same again after QuantizeLinear: 16 bits are not in float16, nor 8 in bfloat16."""
    row, real = e.types[dq.inputs[0]].dtype, e.types[dq.outputs[0]].dtype.numpy
    if row.bits > 16:
        return False
    scale = e.consts[dq.inputs[1]].reshape(())
    if row.is_float:
        stored = np.arange(1 << row.bits, dtype=row.raw.numpy).view(row.numpy).astype(np.float32)
    else:
        zero = int(e.consts[dq.inputs[2]].item()) if len(dq.inputs) > 2 else 0
        stored = (np.arange(row.range[0], row.range[1] + 1) - zero).astype(np.float32)
    with np.errstate(all="ignore"):
        numbers = (stored * scale.astype(np.float32)).astype(real)
        steps = (numbers / scale).astype(np.float32)
        again = steps.astype(row.numpy).astype(np.float32) if row.is_float else np.rint(steps)
    return np.array_equal(again, stored, equal_nan=True)


def _takes(node: Node, row: DType) -> bool:
    """Whether its kernels read and store elements of a quantised type."""
    return is_a(node, Trait.ANY_BITS) or not (row.packed or row.codec)


def _same_parameters(e: Editor, a: Node, b: Node) -> bool:
    return len(a.inputs) == len(b.inputs) and all(
        np.array_equal(e.consts[i], e.consts[j]) and e.types[i].dtype == e.types[j].dtype
        for i, j in zip(a.inputs[1:], b.inputs[1:], strict=True)
    )


def _sink(e: Editor, node: Node) -> bool:
    """op(DQ(x)) -> DQ(op(x))."""
    if not commutes(node):
        return False
    moved = record(node).moved
    found = [e.producer(node.inputs[i]) for i in moved.read(node)]
    sources = [s for s in found if is_a(s, Trait.DEQUANTISER) and per_tensor(e, s) and _rises(e, s)]
    if not found or len(sources) < len(found):
        return False
    first = sources[0]
    if any(not _same_parameters(e, first, s) for s in sources):
        return False
    row = e.types[first.inputs[0]].dtype
    if not _takes(node, row):
        return False
    # Places of elements that only integers tell apart.
    if len(moved.made(node)) < len(node.outputs) and not _is_told_apart(e, first):
        return False
    inputs, outputs = list(node.inputs), list(node.outputs)
    if moved.fill is not None:
        value = _padding(e, node, moved.fill, first)
        if value is None:
            return False
        inputs = _with_padding(e, node, moved.fill, value.astype(row.numpy))
    for i, source in zip(moved.read(node), sources, strict=True):
        inputs[i] = source.inputs[0]
    after = []
    for k in moved.made(node):
        shape = e.types[node.outputs[k]].shape
        outputs[k] = e.fresh(node.outputs[k] + ".q", TensorType(row, shape))
        dq = (outputs[k], *first.inputs[1:])
        after.append(replace(first, inputs=dq, outputs=(node.outputs[k],)))
    e.substitute([node], [replace(node, inputs=tuple(inputs), outputs=tuple(outputs)), *after])
    return True


def _padding(e: Editor, pad: Node, fill: int, by: Node) -> Array | None:
    """The value that a Pad adds, quantised as `by` does or undoes; None if it is not known, or, in
    front of a DequantizeLinear, no value of the quantised type."""
    name = pad.inputs[fill] if len(pad.inputs) > fill else ""
    stores = is_a(by, Trait.QUANTISER)
    if stores and Rounding.of(by) is not Rounding.EVEN:
        return None
    if (name and name not in e.consts) or (len(by.inputs) < 3 and stores):
        return None
    value = e.consts[name].reshape(()) if name else np.zeros((), np.float32)
    scale = e.consts[by.inputs[1]].reshape(())
    zero = e.consts[by.inputs[2]].reshape(()) if len(by.inputs) > 2 else np.zeros((), np.int32)
    row = e.types[(by.outputs if stores else by.inputs)[0]].dtype
    if row.is_float or scale.dtype != np.float32 or not np.isfinite(value):
        return None
    with np.errstate(over="ignore"):  # what is cut off may be as large as infinity
        ratio = np.rint(value / scale)
    stored = np.clip(ratio + zero.astype(np.int64), *row.range)
    back = (stored - zero.astype(np.int64)).astype(np.float32) * scale
    return stored if stores or back == value else None


def _with_padding(e: Editor, pad: Node, fill: int, value: Array) -> list[str]:
    """A Pad's inputs with another value."""
    inputs = [*pad.inputs, *[""] * (fill + 1 - len(pad.inputs))]
    inputs[fill] = e.const(pad.inputs[0] + ".padding", value)
    return inputs


def _hoist(e: Editor, node: Node) -> bool:
    """Q(op(x)) -> op(Q(x))."""
    if not is_a(node, Trait.QUANTISER) or not per_tensor(e, node):
        return False
    move = e.producer(node.inputs[0])
    if move is None or not commutes(move) or len(move.outputs) > 1:
        return False
    rule = record(move).moved
    if not rule.made(move) or e.only_user(node.inputs[0]) is not node:
        return False
    out, moved = e.types[node.outputs[0]], [move.inputs[i] for i in rule.read(move)]
    # Where it picks some elements the others need no quantisation.
    many = sum(e.types[name].elements for name in moved) > out.elements
    if many or not _takes(move, out.dtype):
        return False
    inputs = list(move.inputs)
    if rule.fill is not None:
        value = _padding(e, move, rule.fill, node)
        if value is None:
            return False
        inputs = _with_padding(e, move, rule.fill, value.astype(out.dtype.numpy))
    before = []
    for i, name in zip(rule.read(move), moved, strict=True):
        early = TensorType(out.dtype, e.types[name].shape)
        inputs[i] = e.fresh(node.outputs[0] + ".q", early)
        before.append(replace(node, inputs=(name, *node.inputs[1:]), outputs=(inputs[i],)))
    e.substitute([move, node], [*before, replace(move, inputs=tuple(inputs), outputs=node.outputs)])
    return True


def _cancel(e: Editor, node: Node) -> bool:
    """Q(DQ(x)) with equal parameters -> x."""
    if not is_a(node, Trait.QUANTISER) or not per_tensor(e, node):
        return False
    source = e.producer(node.inputs[0])
    if (
        not is_a(source, Trait.DEQUANTISER)
        or not per_tensor(e, source)
        or not _same_parameters(e, source, node)
        or e.types[source.inputs[0]].dtype != e.types[node.outputs[0]].dtype
        or not _is_told_apart(e, source)
    ):
        return False
    if node.outputs[0] in e.outputs:
        e.substitute([node], [replace(node, op="Reshape", inputs=source.inputs[:1], attrs={})])
    else:
        e.remove(node)
        e.rename(node.outputs[0], source.inputs[0])
    return True
