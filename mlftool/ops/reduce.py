"""Reductions over any axes: one loop nest, of which a member fills three holes.

A member is what an accumulator starts as, what becomes of it with each value, and what is stored in
the end. Floats are summed in ascending order of the indexes, along the innermost reduced axes in
blocks of at most BLOCK, as contractions are.

Axes that are computed choose at run time to which element of the output each one of the input is
added; the output's type then is what the model declares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import NodeProto, helper

from mlftool.frozen import frozen
from mlftool.ir.dtype import DType, float32, float64, int32, int64
from mlftool.ir.graph import Node, View
from mlftool.ir.operations import Operations, of_text, times
from mlftool.ir.relay import Rule, Site
from mlftool.onnx_rules.boxes import ZEROS, counted, filling, greatest, least
from mlftool.onnx_rules.draft import attr_to_input
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import CONSTANT, Outcome, Refuse, Replace, Scope, Work, stepwise
from mlftool.onnx_rules.scope import Rule as BoxRule
from mlftool.onnx_rules.shaping import Bounds, Element, largest_of, least_of
from mlftool.ops import folded
from mlftool.ops.base import FIRST, Facts, Kernel, Trait, UnsupportedError, Value, op, shown
from mlftool.ops.elementwise import Maths, index_text, row_major
from mlftool.ops.scalar import (
    Scalar,
    around,
    expressed,
    integer_of,
    literal,
    settle,
    tensor_operand,
)

BLOCK = 256


@frozen
class Member:
    """`step`: the elementwise operator that joins two, or mlf.LogAddExp; `start`: its neutral
    element; `value`: what is made of an element first, if anything; `total`: the accumulator's
    type; `finish`: of the accumulator and the number of elements; whether it `picks` one of the
    elements."""

    step: str
    relay: Rule
    start: Callable[[DType], float] = lambda row: 0
    value: Callable[[Maths, str], str] | None = None
    total: Callable[[DType], DType] = lambda row: row  # the accumulator's type
    finish: Callable[[Maths, str, str], str] = lambda m, acc, count: acc
    picks: bool = False
    constant: Value | None = None
    quantised: str = ""
    extents: BoxRule | None = None
    bounds: Bounds | None = None


def joined(operator: str, row: DType, a: str, b: str) -> str:
    """C text of `a operator b`, settled to the type: wrapped if it is an integer."""
    if operator == "mlf.LogAddExp":
        return _log_add_exp(Maths(row, row), a, b)
    if row.name == "bool" and operator == "Mul":
        operator = "And"  # gcc warns of products that become truth values
    args = [Scalar(a, row), Scalar(b, row)]
    return settle(row, expressed(Node(operator, (), ()), row, args))


def _magnitude(m: Maths, x: str) -> str:
    if m.dtype.is_float:
        return m.size(x)
    if m.dtype.kind == "u":
        return x
    return f"({x} < 0 ? ({m.dtype.c})(0U - (uint{max(32, m.dtype.bits)}_t){x}) : {x})"


def _square(m: Maths, x: str) -> str:
    return joined("Mul", m.dtype, x, x)


def _root(m: Maths, acc: str, count: str) -> str:
    """Of integers the greatest one where the root leaves the type, as onnxruntime's."""
    if m.dtype.is_float:
        return m.root(acc)
    root, most = f"sqrt((double){acc})", m.dtype.range[1]
    fits = f"{root} < {literal(float(most + 1), float64)}"
    whole = f"({m.dtype.c}){integer_of(m.dtype, float64, root)}"
    return f"{fits} ? {whole} : {literal(most, m.dtype)}"


def _log(m: Maths, acc: str, count: str) -> str:
    if m.dtype.is_float:
        return m.call("log", acc)
    return f"({m.dtype.c}){integer_of(m.dtype, float64, f'mlf_log((double){acc})')}"


def _log_add_exp(m: Maths, a: str, b: str) -> str:
    """log(e^a + e^b) without overflow; equal infinities stay, a nan falls through."""
    above = f"{b} + {m.call('log1p', m.call('exp', f'{a} - {b}'))}"
    below = f"{a} + {m.call('log1p', m.call('exp', f'{b} - {a}'))}"
    return f"{b} > {a} ? {above} : ({b} == {a} ? {a} + {m.lit(math.log(2))} : {below})"


def _mean(m: Maths, acc: str, count: str) -> str:
    """Integers towards zero; of nothing, 0."""
    if m.dtype.is_float:
        return f"{acc} / ({m.dtype.c}){count}"
    return f"({m.dtype.c})({count} == 0 ? 0 : {acc} / ({m.dtype.c}){count})"


def _wide(row: DType) -> DType:
    """A type for sums of integers of which only what is made of them must fit."""
    return row if row.is_float or row.bits > 32 else int64


def _relay_axes(s: Site) -> list[int] | None:
    """Axes of a reduction; all of them if none are given."""
    given = s.ints(1) if s.has(1) else s.attr("axes", None)
    if s.has(1) and given is None:
        return None
    if not given:
        return [] if s.attr("noop_with_empty_axes", 0) else list(range(s.rank))
    return [int(a) % s.rank for a in given]


def _relay(op: str, before: str = "", after: str = "") -> Rule:
    def rule(s: Site) -> str | None:
        axes = _relay_axes(s)
        if axes is None or not s.rank:
            return None
        x = s.arg()
        if before:
            x = s.call("multiply", x, x) if before == "square" else s.call(before, x)
        if axes:
            x = s.call(op, x, axis=axes, keepdims=bool(s.attr("keepdims", 1)))
        return s.call(after, x) if after else x

    return rule


@stepwise
def _mean_of_boxes(scope: Scope, node: NodeProto) -> Work[Outcome]:
    """ReduceMean: the sum over how many there are, of integers in 64 bits."""
    type_ = scope.types[node.input[0]]
    wide = _wide(type_.dtype)
    if wide != type_.dtype:
        x, y = scope.fresh(f"{node.output[0]}.wide"), scope.fresh(f"{node.output[0]}.mean")
        mean = NodeProto.FromString(node.SerializeToString())
        mean.input[0], mean.output[0] = x, y
        yield Replace([helper.make_node("Cast", [node.input[0]], [x], to=wide.onnx)])
        yield Replace([mean])
        return Replace([helper.make_node("Cast", [y], [node.output[0]], to=type_.dtype.onnx)])
    axes = _axes_known(scope, node, len(type_.shape))
    if axes is None:
        return Refuse("MLF0302", "axes are known only at run time", CONSTANT)
    symbols = scope.symbols[node.input[0]]
    count = scope.fresh(f"{node.output[0]}.count")
    along = [type_.shape[a] for a in axes]
    counted(scope, count, tuple(symbols[a] for a in axes), along, type_.dtype)
    total = NodeProto.FromString(node.SerializeToString())
    total.op_type, total.output[0] = "ReduceSum", scope.fresh(f"{node.output[0]}.sum")
    if scope.opsets[""] < 18 and scope.opsets[""] >= 13:  # there axes became an input earlier
        del total.attribute[:]
        total.attribute.extend(a for a in node.attribute if a.name != "axes")
        given = scope.new_const(f"{total.output[0]}.axes", np.array(axes, np.int64))
        total.input.append(given)
    yield Replace([total])
    return Replace([helper.make_node("Div", [total.output[0], count], [node.output[0]])])


def _axes_known(scope: Scope, node: NodeProto, rank: int) -> list[int] | None:
    axes = attributes(node).get("axes")
    if len(node.input) > 1 and node.input[1]:
        given = scope.consts.get(node.input[1])
        axes = None if given is None else given.reshape(-1).tolist()
        if axes is None:
            return None
    return [a % rank for a in axes] if axes else list(range(rank))


def _each(pick: Callable[[Sequence[Element]], Element]) -> Bounds:
    """What is known of each element of the result by what is known of those that it is made of."""

    def bounds(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element] | None:
        shape, row = scope.types[node.inputs[0]].shape, scope.types[node.result].dtype
        listed = len(node.inputs) > 1 and node.inputs[1]
        given = scope.consts.get(node.inputs[1]) if listed else np.zeros(0, np.int64)
        if given is None or row.is_float:
            return None
        if not given.size and node.attrs.get("noop_with_empty_axes", 0):
            return parts[0]
        axes = [int(a) % len(shape) for a in given.reshape(-1)] or range(len(shape))
        kept = [a for a in range(len(shape)) if a not in axes]
        places = np.arange(math.prod(shape)).reshape(shape).transpose(*kept, *axes)
        lines = places.reshape(math.prod(shape[a] for a in kept), -1).tolist() if shape else [[0]]
        found = [pick([parts[0][k] for k in line]) for line in lines]
        first, last = row.range
        fits = all(first <= n <= last for e in found for n in (e.least, e.most) if n is not None)
        return found if fits else None

    return bounds


def _sum_of(line: Sequence[Element]) -> Element:
    """How many of a mask are true, for one."""
    least = [e.least for e in line if e.least is not None]
    most = [e.most for e in line if e.most is not None]
    known = len(least) == len(most) == len(line)
    return Element(sum(most), least=sum(least)) if known else Element()


def _greatest_of(line: Sequence[Element]) -> Element:
    least = max((e.least for e in line if e.least is not None), default=None)
    return Element(largest_of(line).most, least=least)


def _extreme(
    join: str, start: Callable[[DType], float], pick: Callable[[Sequence[Element]], Element]
) -> Member:
    return Member(
        join, _relay(join.lower()), start, picks=True, extents=filling(start), bounds=_each(pick)
    )


PASSED = ("quantised", "relay", "constant", "extents", "bounds")
MEMBERS = {
    "ReduceSum": Member(
        "Add", _relay("sum"), quantised="mlf.QLinearReduceSum", extents=ZEROS, bounds=_each(_sum_of)
    ),
    "ReduceMean": Member(
        "Add",
        _relay("mean"),
        total=_wide,
        finish=_mean,
        constant=folded.reduce_mean,
        quantised="mlf.QLinearReduceMean",
        extents=_mean_of_boxes,
    ),
    "ReduceProd": Member("Mul", _relay("prod"), lambda row: 1, extents=filling(lambda row: 1)),
    "ReduceMax": _extreme("Max", least, _greatest_of),
    "ReduceMin": _extreme("Min", greatest, least_of),
    "ReduceL1": Member("Add", _relay("sum", "abs"), value=_magnitude, extents=ZEROS),
    "ReduceL2": Member(
        "Add",
        _relay("sum", "square", "sqrt"),
        value=_square,
        total=lambda row: row if row.is_float else float64,  # squares of integers overflow
        finish=_root,
        constant=folded.reduce_l2,
        extents=ZEROS,
    ),
    "ReduceSumSquare": Member(
        "Add",
        _relay("sum", "square"),
        value=_square,
        constant=folded.reduce_sum_square,
        extents=ZEROS,
    ),
    "ReduceLogSum": Member(
        "Add",
        _relay("sum", "", "log"),
        total=_wide,
        finish=_log,
        constant=folded.reduce_log_sum,
        extents=ZEROS,
    ),
    "ReduceLogSumExp": Member(
        "mlf.LogAddExp",
        _relay("sum", "exp", "log"),
        lambda row: -math.inf,
        constant=folded.reduce_log_sum_exp,
        extents=filling(least),
    ),
}


def reduced_axes(v: View, at: int = 1) -> list[int] | None:
    """The axes that vanish or become 1, named by input `at`; None if they are computed."""
    rank = len(v.x(0).shape)
    axes = v.const(at) if v.has(at) else np.zeros(0, np.int64)
    if axes is None:
        return None
    if axes.size == 0:
        return [] if v.attr("noop_with_empty_axes", 0) else list(range(rank))
    return sorted(int(a) % rank for a in axes.reshape(-1))


def reduce(v: View) -> Kernel:
    """The output's elements one after the other, each from all that are reduced to it."""
    axes, row = reduced_axes(v), v.y.dtype
    if row.packed or row.codec:
        raise UnsupportedError(f"{v.core.op} on {row}; supported: types that C has, 16-bit floats")
    if v.core.op == "ReduceLogSumExp" and not row.is_float:
        text = "its exponentials are rounded, of which implementations differ"
        raise UnsupportedError(f"ReduceLogSumExp on {row}: {text}; cast to float before and back")
    if axes is None:
        return _axes_at_run_time(v)
    return nest(v, axes, row, lambda index, count: _texts(v, index, count))


def nest(
    v: View, axes: list[int], row: DType, texts: Callable[[str, str], dict[str, str]]
) -> Kernel:
    """The loops over `axes`, with sums of type `row`; `texts` fill the holes, given the index of an
    element and how many are joined."""
    shape = v.x(0).shape
    groups = [(f"{'r' if g[2] else 'o'}{k}", *g) for k, g in enumerate(_groups(shape, axes))]
    kept, gone = ([(name, n) for name, n, _, is_gone in groups if is_gone == k] for k in (0, 1))
    terms = [name if step == 1 else f"{name} * {step}" for name, _, step, _ in groups]
    made = texts(" + ".join(terms) or "0", str(math.prod(n for _, n in gone)))
    return Kernel(
        "portable.reduce",
        "reduce.c.j2",
        {
            "outer": kept,
            "inner": gone,
            "block": BLOCK if row.is_float and gone and gone[-1][1] > BLOCK else 0,
            "y": index_text(row_major([n for _, n in kept]), [name for name, _ in kept]),
            **made,
        },
        around(v),
        operations=math.prod(shape) * _joins(made, row)
        + v.y.elements * (of_text(made["finish"], row) + times(store=1, loop=2)),
        includes=("mlf/kernel.h", "mlf/math.h", "mlf/convert.h"),
    )


def _joins(texts: Mapping[str, str], row: DType) -> Operations:
    """Of an element: loading it and joining it with the others."""
    return of_text(texts["value"], row) + of_text(texts["step"], row) + times(loop=1)


def _texts(v: View, index: str, count: str) -> dict[str, str]:
    """The member's holes as C."""
    row = v.y.dtype
    member, m = MEMBERS[v.core.op], Maths(row, row)
    total, element = member.total(row), f"x[{index}]"
    if total != row:
        element = f"({total.c}){element}"
    inner = Maths(total, total)
    return {
        "type": total.c,
        "start": literal(member.start(total), total),
        "value": settle(total, member.value(inner, element)) if member.value else element,
        "step": joined(member.step, total, "acc", "value"),
        "join": joined(member.step, total, "acc", "part"),
        "part": joined(member.step, total, "part", "value"),
        "finish": member.finish(m, "acc", count),
    }


def _groups(shape: tuple[int, ...], axes: list[int]) -> list[tuple[int, int, bool]]:
    """Extent, stride and whether it is reduced, of axes and their merged neighbours of one kind."""
    groups: list[tuple[int, int, bool]] = []
    for k, n in enumerate(shape):
        gone, step = k in axes, math.prod(shape[k + 1 :])
        if n == 1:
            continue
        if groups and groups[-1][2] == gone:
            groups[-1] = (groups[-1][0] * n, step, gone)
        else:
            groups.append((n, step, gone))
    return groups


def _axes_at_run_time(v: View) -> Kernel:
    shape = v.x(0).shape or (1,)  # a scalar has the axis 0 or none
    texts = _texts(v, index_text(row_major(shape)), "count")
    return Kernel(
        "portable.reduce_any",
        "reduce_any.c.j2",
        {
            "shape": shape,
            "axes": v.x(1).elements,
            "all": not v.attr("noop_with_empty_axes", 0) and v.x(1).elements == 0,
            "elements": v.y.elements,
            **texts,
        },
        around(v, tensor_operand(v.graph, "axes", v.core.inputs[1])),
        operations=math.prod(shape) * (_joins(texts, v.y.dtype) + times(whole=4, loop=1)),
        includes=("mlf/kernel.h", "mlf/math.h", "mlf/convert.h", "mlf/index.h"),
    )


def _fits_declared(f: Facts) -> str:
    """What is wrong with an output that is declared, as axes are computed, or ""."""
    shape, y, axes = f.x, f.output.shape, f.inputs[1] if len(f.inputs) > 1 else None
    if axes is None or f.values[1] is not None or not shape:
        return ""
    count = axes.elements or (0 if f.attrs.get("noop_with_empty_axes", 0) else len(shape))
    if f.attrs.get("keepdims", 1):
        gone = [n for n, out in zip(shape, y, strict=False) if n != out]
        kept = [out in (1, n) for n, out in zip(shape, y, strict=False)]
        fits = len(y) == len(shape) and len(gone) <= count and all(kept)
    else:
        left = iter(shape)
        fits = len(y) == len(shape) - count and all(n in left for n in y)
    text = f"output {shown(y)} does not fit input {shown(shape)} along {count} of its axes"
    return "" if fits else text


for _name, _member in MEMBERS.items():
    op(
        _name,
        *((Trait.ORDER_PRESERVING,) if _member.picks else ()),
        moved=FIRST,
        checks=(lambda f: f.has_axes() if f.attrs.get("axes") else "", _fits_declared),
        older=((13 if _name == "ReduceSum" else 18, attr_to_input("axes", 1)),),
        **{name: getattr(_member, name) for name in PASSED},
    )(reduce)


@op("mlf.QLinearReduceMean", reads=(0,), stores=3)
def quantised_reduce(v: View) -> Kernel:
    """Integers are added, then rescaled once. Inputs are x, its scale and zero point, y's, axes.

    y = sat(round(sum(x - x_zero_point) * factor) + y_zero_point), the factor in float32: x_scale /
    y_scale, for a mean x_scale / (y_scale * count). Without an output scale y is a float."""
    axes = reduced_axes(v, 5)
    if axes is None:
        raise UnsupportedError("quantised ReduceMean along computed axes; supported: known axes")
    mean, lowest, highest = v.core.op == "mlf.QLinearReduceMean", *v.x(0).dtype.range
    row = int32 if v.x(0).elements * (highest - lowest) < 2**31 else int64

    def texts(index: str, count: str) -> dict[str, str]:
        factor = np.float32(v.known(1).item())
        by = np.float32(v.known(3).item()) if v.has(3) else np.float32(1)
        factor = factor / (by * np.float32(count)) if mean else factor / by
        zero = int(v.known(2).item()) * int(count)
        total = f"(acc - {literal(zero, row)})" if zero else "acc"
        scaled = f"(float){total} * {literal(factor, float32)}"
        lo, hi = v.y.dtype.range if v.has(3) else (0, 0)
        stored = f"mlf_quantize({scaled}, {int(v.known(4).item())}, {lo}, {hi})" if v.has(3) else ""
        return {
            "type": row.c,
            "start": "0",
            "value": f"x[{index}]",
            "step": "acc + value",
            "finish": f"({v.y.dtype.c}){stored}" if stored else scaled,
        }

    return nest(v, axes, row, texts)


op("mlf.QLinearReduceSum", reads=(0,), stores=3)(quantised_reduce)
