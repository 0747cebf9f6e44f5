"""Extents known only at run time.

A tensor that has one is typed by its upper bounds and lies in a box of that size (ops/extents.py).
Each such extent is a *symbol*: the name of an int32 tensor that holds it, which the node that makes
the box stores too. onnx's own inference carries symbols from tensor to tensor as `dim_param`s. What
follows holds for the rest of the compiler: there are only static tensors.

An operator whose result depends on what lies beyond the extents gets its input filled with what
changes nothing: zeros for a sum, the least value for a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto, helper

from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.boxes import counted, filled, filling, greatest, keep_shape, least
from mlftool.onnx_rules.protos import attributes, op_name
from mlftool.onnx_rules.scope import (
    KEEP,
    Next,
    Outcome,
    Refuse,
    Replace,
    Rule,
    Scope,
    Symbols,
    Work,
    stepwise,
)
from mlftool.onnx_rules.steps import Steps, standing_for
from mlftool.ops import Trait, has

# What producers.py keeps, whatever its inputs.
PRODUCERS = (
    *("Compress", "NonMaxSuppression", "NonZero", "StringNormalizer", "StringSplit", "Unique"),
)


def adapted(scope: Scope, node: NodeProto) -> Outcome:
    """The node in a form that is right on boxes."""
    if not any(scope.symbols_of(n) for n in node.input):
        return Next(node)
    name = op_name(node)
    changed = NodeProto()
    changed.CopyFrom(node)
    if name in PRODUCERS:
        return Next(changed)  # producers.py knows what to do with a box
    rule = RULES.get(name)
    if rule is None and not has(name, Trait.ELEMENTWISE):
        supported = ", ".join(sorted((*RULES, *PRODUCERS)))
        text = (
            "reads a tensor whose extents are known only at run time; supported there: elementwise"
        )
        return Refuse("MLF0302", f"{text} operators, {supported}")
    return (rule or _elementwise)(scope, changed)


def _elementwise(scope: Scope, node: NodeProto) -> Outcome:
    """Equal bounds, or 1: a box of one extent cannot stretch to another's."""
    shapes = [scope.types[n].shape for n in node.input if n]
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    for extents in zip(*padded, strict=True):
        if len(set(extents) - {1}) > 1:
            shown = " and ".join(map(str, extents))
            return Refuse("MLF0302", f"extents up to {shown} do not match for certain")
    return Next(node)


def _as_it_is(scope: Scope, node: NodeProto) -> Outcome:
    return Next(node)


@stepwise
def _top(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """k elements along an axis, of which there must be as many as that; other extents stay."""
    attrs, name = attributes(node), node.input[0]
    row, symbols = scope.types[name].dtype, scope.symbols[name]
    axis = attrs.get("axis", -1) % len(symbols)
    filled(scope, node, 0, (least if attrs.get("largest", 1) else greatest)(row))
    yield Replace([node], scope.hiding(scope.symbols))
    others = tuple("" if a == axis else s for a, s in enumerate(symbols))
    for out in node.output:
        if out in scope.types:  # k itself may be known only at run time
            own = scope.symbols.get(out, ("",) * len(others))
            scope.symbols[out] = tuple(k or s for k, s in zip(own, others, strict=True))
    return KEEP


@stepwise
def _mean(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """ReduceMean: the sum over how many there are."""
    type_ = scope.types[node.input[0]]
    axes = _axes(scope, node, len(type_.shape))
    if axes is None:
        return Refuse("MLF0302", "axes are known only at run time")
    symbols = scope.symbols[node.input[0]]
    factor = math.prod(type_.shape[a] for a in axes if not symbols[a])
    count = scope.fresh(f"{node.output[0]}.count")
    scope.types[count] = TensorType(type_.dtype, ())
    inputs = tuple(symbols[a] for a in axes if symbols[a])
    scope.nodes.append(Node("mlf.Count", inputs, (count,), {"factor": factor}, count))
    total = NodeProto()
    total.CopyFrom(node)
    total.op_type, total.output[0] = "ReduceSum", scope.fresh(f"{node.output[0]}.sum")
    if scope.opsets[""] < 18 and scope.opsets[""] >= 13:  # there axes became an input earlier
        del total.attribute[:]
        total.attribute.extend(a for a in node.attribute if a.name != "axes")
        given = scope.new_const(f"{total.output[0]}.axes", np.array(axes, np.int64))
        total.input.append(given)
    yield Replace([total])
    return Replace([helper.make_node("Div", [total.output[0], count], [node.output[0]])])


def _axes(scope: Scope, node: NodeProto, rank: int) -> list[int] | None:
    axes = attributes(node).get("axes")
    if len(node.input) > 1 and node.input[1]:
        given = scope.consts.get(node.input[1])
        axes = None if given is None else given.reshape(-1).tolist()
        if axes is None:
            return None
    return [a % rank for a in axes] if axes else list(range(rank))


@stepwise
def _gather(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """Indices beyond their extents must be indices too; those from the end count from the true one:

    %y = Gather(%x, %i)   =>   %y = Gather(%x, Where(%i < 0, %i + extent, %i))
    """
    data, out = node.input[0], node.output[0]
    filled(scope, node, 1, 0)
    indices, symbols = node.input[1], scope.symbols_of(data)
    first, last = _indexed_axes(scope, node)
    if not any(symbols[first:last]) or _never_negative(scope, indices):
        return Next(node)
    end = scope.fresh(f"{out}.end")
    keep_shape(scope, data, end, scope.types[indices].dtype, slice(first, last))
    steps = Steps(node, ())
    zero = steps.const(0, scope.types[indices].dtype.numpy)
    whole = steps("Add", indices, end)
    node.input[1] = steps("Where", steps("Less", indices, zero), whole, indices)
    yield standing_for(scope, steps.made)
    return Next(node)


def _indexed_axes(scope: Scope, node: NodeProto) -> tuple[int, int]:
    """The first and the end of the axes of the data that indices count along."""
    attrs, rank = attributes(node), len(scope.types[node.input[0]].shape)
    if node.op_type == "GatherND":
        first = attrs.get("batch_dims", 0)
        return first, first + scope.types[node.input[1]].shape[-1]
    axis = attrs.get("axis", 0) % max(1, rank)
    return axis, axis + 1


PLACES = {"NonZero": 0, "TopK": 1, "ArgMax": 0, "ArgMin": 0}  # which output holds places
MOVES = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Cast", "Identity", "mlf.FillBeyond")


def _never_negative(scope: Scope, name: str) -> bool:
    if name in scope.consts:
        return bool(scope.consts[name].min(initial=0) >= 0)
    node = next((n for n in reversed(scope.nodes) if name in n.outputs), None)
    if node is None:
        return False
    if node.op in MOVES:
        return _never_negative(scope, node.inputs[0])
    return PLACES.get(node.op) == node.outputs.index(name)


def _shape(scope: Scope, node: NodeProto) -> Outcome:
    name, attrs = node.input[0], attributes(node)
    part = slice(attrs.get("start", 0), attrs.get("end"))
    keep_shape(scope, name, node.output[0], dtype.int64, part)
    return KEEP


def _size(scope: Scope, node: NodeProto) -> Outcome:
    name = node.input[0]
    symbols, shape = scope.symbols[name], scope.types[name].shape
    counted(scope, node.output[0], symbols, shape, dtype.int64)
    return KEEP


def _concat(scope: Scope, node: NodeProto) -> Outcome:
    """Along an axis with symbols the parts are joined; along another the box's kernel is right."""
    types = [scope.types[n] for n in node.input]
    axis = attributes(node)["axis"] % len(types[0].shape)
    rows = [scope.symbols_of(n) or ("",) * len(types[0].shape) for n in node.input]
    others = [tuple(s for a, s in enumerate(r) if a != axis) for r in rows]
    if len(set(others)) > 1:
        return Refuse("MLF0302", "tensors whose other extents may differ")
    if not any(r[axis] for r in rows):
        return Next(node)
    out, shape = node.output[0], list(types[0].shape)
    shape[axis] = sum(t.shape[axis] for t in types)
    symbol = scope.fresh(f"{out}.extent")
    scope.types[symbol] = TensorType(dtype.int32, ())
    scope.types[out] = TensorType(types[0].dtype, tuple(shape))
    same = _joined_before(scope, node, axis)
    scope.symbols[out] = (*rows[0][:axis], same or symbol, *rows[0][axis + 1 :])
    extents = [-1 if r[axis] else t.shape[axis] for r, t in zip(rows, types, strict=True)]
    inputs = (*node.input, *(r[axis] for r in rows if r[axis]))
    attrs = {"axis": axis, "extents": extents}
    scope.nodes.append(Node("mlf.Join", inputs, (out, symbol), attrs, node.name or out))
    return KEEP


def _joined_before(scope: Scope, node: NodeProto, axis: int) -> str:
    """The extent of an earlier join of parts that have the same extents, "" if there is none: the
    two results go together."""

    def extents(names: Sequence[str], along: int) -> list[int | str]:
        shapes = [scope.types[n].shape for n in names]
        rows = [scope.symbols_of(n) for n in names]
        return [
            r[along] if any(r[along:][:1]) else s[along] for r, s in zip(rows, shapes, strict=True)
        ]

    wanted, count = extents(node.input, axis), len(node.input)
    for other in scope.nodes:
        if other.op == "mlf.Join" and len(other.attrs["extents"]) == count:
            along = other.attrs["axis"]
            if extents(other.inputs[:count], along) == wanted:
                found: Symbols = scope.symbols_of(other.outputs[0])
                return found[along] if found else ""
    return ""


def _reshape(scope: Scope, node: NodeProto) -> Outcome:
    """Where only the first extent is a symbol, a box is as contiguous as a tensor."""
    name, out = node.input[0], node.output[0]
    type_, symbols = scope.types[name], scope.symbols[name]
    if any(symbols[1:]):
        return Refuse("MLF0302", "only a first extent may be known at run time here")
    inner = math.prod(type_.shape[1:])
    target = _target(scope, node, type_.shape)
    if target is None:
        return Refuse("MLF0302", "the new shape is known only at run time")
    rest = math.prod(target[1:])
    if target[0] != -1 or any(n < 0 for n in target[1:]) or rest == 0 or inner % rest:
        rows = f"supported: [-1, ...], which leaves rows of {inner} whole or splits them"
        return Refuse("MLF0302", f"to {target}; {rows}")
    symbol = symbols[0]
    if inner != rest:
        symbol = scope.fresh(f"{out}.extent")
        counted(scope, symbol, (symbols[0], ""), (0, inner // rest), dtype.int32)
    bound = type_.shape[0] * (inner // rest)
    scope.types[out] = TensorType(type_.dtype, (bound, *target[1:]))
    scope.symbols[out] = (symbol, *("" for _ in target[1:]))
    shape = scope.new_const(f"{out}.target", np.array([bound, *target[1:]], np.int64))
    scope.nodes.append(Node("Reshape", (name, shape), (out,), {}, node.name or out))
    return KEEP


def _target(scope: Scope, node: NodeProto, shape: Sequence[int]) -> list[int] | None:
    """The shape that a Reshape or Flatten asks for, its first extent -1 where that is the rest."""
    if node.op_type == "Flatten":
        axis = attributes(node).get("axis", 1) % (len(shape) + 1)
        return [-1, math.prod(shape[axis:])] if axis else [1, -1]
    given = scope.consts.get(node.input[1])
    if given is None:
        return None
    keep = not attributes(node).get("allowzero", 0)
    target = [int(n) for n in given.reshape(-1)]
    target = [shape[k] if n == 0 and keep and k else n for k, n in enumerate(target)]
    if target and target[0] == 0 and keep:
        target[0] = -1
        rest = math.prod(shape[1:]) // max(1, -math.prod(target[1:]))
        target = [target[0], *(rest if n == -1 else n for n in target[1:])]
    return target


@stepwise
def _slice(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """Static windows; along an axis with a symbol, from the front and by steps of one."""
    name, out = node.input[0], node.output[0]
    type_, symbols = scope.types[name], scope.symbols[name]
    values = [scope.consts.get(n) if n else None for n in node.input[1:]]
    if scope.opsets[""] < 10:
        return Refuse("MLF0302", "windows in attributes, as before opset 10")
    starts, ends, axes, steps = (*values, None, None)[:4] if len(values) < 4 else values[:4]
    if starts is None or ends is None:
        return Next(node)  # shaped.py makes a box of it
    axes = np.arange(len(starts)) if axes is None else axes % len(type_.shape)
    moved = list(symbols)
    for k, axis in enumerate(axes):
        if not symbols[axis]:
            continue
        start, end = int(starts[k]), int(ends[k])
        if start < 0 or end < 0 or (steps is not None and steps[k] != 1):
            text = "windows that count from an end which is known only at run time"
            return Refuse("MLF0302", text)
        end = min(end, type_.shape[axis])
        if (start, end) == (0, type_.shape[axis]):
            continue  # the whole, which goes together with what it is of
        symbol = scope.fresh(f"{out}.extent")
        scope.types[symbol] = TensorType(dtype.int32, ())
        attrs = {"start": start, "end": max(start, end)}
        scope.nodes.append(Node("mlf.Window", (symbols[axis],), (symbol,), attrs, symbol))
        moved[axis] = symbol
    yield Replace([node], scope.hiding(scope.symbols))
    if out in scope.types:
        scope.symbols[out] = tuple(moved)
    return KEEP


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Transpose", "Unsqueeze", "Squeeze", "Identity", "Cast"), _as_it_is),
    **dict.fromkeys(
        ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), filling(lambda row: 0)
    ),
    **dict.fromkeys(("ReduceMax", "ArgMax", "Softmax", "LogSoftmax"), filling(least)),
    **dict.fromkeys(("ReduceMin", "ArgMin"), filling(greatest)),
    "ReduceProd": filling(lambda row: 1),
    "TopK": _top,
    "ReduceMean": _mean,
    **dict.fromkeys(("MatMul", "Gemm"), filling(lambda row: 0, 2)),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), _gather),
    "Shape": _shape,
    "Size": _size,
    "Concat": _concat,
    **dict.fromkeys(("Reshape", "Flatten"), _reshape),
    "Slice": _slice,
}
