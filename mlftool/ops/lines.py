"""Operators that look along one axis: a template each, inside the same walk over all lines.

A line is the `n` elements of an axis, `inner` apart. Where the axis is computed, so are the numbers
that say where lines lie (lines.c.j2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import NodeProto

from mlftool.ir import dtype
from mlftool.ir.graph import View
from mlftool.ir.operations import NOTHING, Operations, of_text, times
from mlftool.ir.relay import Rule, Site
from mlftool.onnx_rules.boxes import ZEROS, filled, filling, first_alone, greatest, least
from mlftool.onnx_rules.draft import attr_to_input, flattened
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import KEEP, Outcome, Replace, Scope, Work, stepwise
from mlftool.onnx_rules.shaping import Box, Shaping
from mlftool.ops import folded
from mlftool.ops.base import Kernel, Moved, Operand, Trait, UnsupportedError, of_form, op, shown
from mlftool.ops.elementwise import Maths
from mlftool.ops.reduce import joined
from mlftool.ops.scalar import literal, settle, tensor_operand


def along(
    v: View,
    name: str,
    axis: int | str,
    flattened: bool = False,
    reads: Sequence[Operand] = (),
    each: Operations = NOTHING,
    **params: Any,
) -> Kernel:
    """A kernel whose template is `name`; `axis` is a number, or C text of one known at run time.
    `each`: what it does with an element, beyond loading and counting it."""
    row, shape = v.x(0).dtype, v.x(0).shape
    for type_ in (row, v.y.dtype):
        if type_.packed or type_.codec:
            text = "supported: types that C has, 16-bit floats"
            raise UnsupportedError(f"{v.core.op} on {type_}; {text}")
    if isinstance(axis, str):
        place = {"outer": "outer", "n": "n", "inner": "inner", "n_inner": "n * inner"}
    else:
        axis %= max(1, len(shape))
        n = shape[axis] if shape else 1
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        if flattened:  # opset 12 and older: all axes from `axis` are one
            n, inner = n * inner, 1
        place = {"outer": outer, "n": n, "inner": inner, "n_inner": n * inner}  # type: ignore[dict-item]
    outputs = [n for n in v.node.outputs if n]
    names = ["y"] if len(v.node.outputs) == 1 else [f"y{k}" for k in range(len(v.node.outputs))]
    return Kernel(
        f"portable.{name}",
        f"{name}.c.j2",
        {
            "axis": axis if isinstance(axis, str) else "",
            "shape": shape,
            "type": row.c,
            "float": row.is_float,
            **place,
            **params,
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            *reads,
            *(Operand(n, v.type(o).dtype.c, "out", o) for n, o in zip(names, outputs, strict=True)),
        ),
        operations=v.x(0).elements * (each + times(load=1, loop=1, whole=1)),
        includes=("mlf/kernel.h", "mlf/math.h", "mlf/index.h"),
    )


def _relay_arg(op: str) -> Rule:
    def rule(s: Site) -> str:
        found = s.call(
            op,
            s.arg(),
            axis=[s.axis(0)],
            keepdims=bool(s.attr("keepdims", 1)),
            select_last_index=bool(s.attr("select_last_index", 0)),
        )
        return s.call("cast", found, dtype="int64")  # Relay finds int32

    return rule


# What comparing an element with the best one takes, by whether they are floats.
FIND = times(load=1, whole=1, choose=1), times(load=1, less=1.5, choose=2)
LINES = (Trait.SAME_RANK, Trait.AXIS)
PLACES = Moved((0,), ())


@first_alone
@stepwise
def _top_of_boxes(scope: Scope, node: NodeProto) -> Work[Outcome]:
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


def arg_max(v: View) -> Kernel:
    """Where the largest (smallest) element of each line is: the first such, or the last. A nan is
    larger and smaller than all."""
    return along(
        v,
        "lines_best",
        v.attr("axis", 0),
        each=FIND[v.x(0).dtype.is_float],
        sign=("<" if v.core.op == "ArgMin" else ">"),
        last=bool(v.attr("select_last_index", 0)),
    )


for _name, _worst in (("ArgMax", least), ("ArgMin", greatest)):
    op(
        _name,
        *(Trait.ORDER_PRESERVING, Trait.AXIS),
        moved=PLACES,
        relay=_relay_arg(_name.lower()),
        extents=filling(_worst),
        places=0,
    )(arg_max)


@op("Hardmax", *LINES, older=((13, flattened),), extents=filling(least), constant=folded.hardmax)
def hardmax(v: View) -> Kernel:
    """1 where the first largest element of each line is, 0 elsewhere."""
    return along(
        v,
        "lines_hardmax",
        v.attr("axis", -1),
        flattened=bool(v.attr("mlf.flattened", 0)),
        each=FIND[v.x(0).dtype.is_float] + times(whole=1, choose=1, store=1, loop=1),
        sign=">",
        last=False,
        one=literal(1, v.y.dtype),
        zero=literal(0, v.y.dtype),
    )


# Of the running sum and product, whose axis is an input.
HAS_AXIS = (lambda f: f.beyond(1, -len(f.x), len(f.x) - 1, "axis"),)


@op(
    "CumSum",
    Trait.SAME_RANK,
    extents=ZEROS,
    forms=of_form("*", "."),
    checks=HAS_AXIS,
    constant=folded.cumulative,
)
def cumulative(v: View) -> Kernel:
    """The sum (product) of all elements before, and of the element itself unless `exclusive`."""
    row = v.y.dtype
    axis = v.const(1)
    step = joined("Add" if v.core.op == "CumSum" else "Mul", row, "acc", "value")
    return along(
        v,
        "lines_cumulative",
        int(axis.item()) if axis is not None else "axis[0]",
        reads=() if axis is not None else [tensor_operand(v.graph, "axis", v.core.inputs[1])],
        each=of_text(step, row) + times(store=1, whole=1),
        start=literal(0 if v.core.op == "CumSum" else 1, row),
        step=step,
        reverse=bool(v.attr("reverse", 0)),
        exclusive=bool(v.attr("exclusive", 0)),
    )


op("CumProd", forms=of_form("*", "."), checks=HAS_AXIS, extents=ZEROS)(cumulative)


def _top_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """As many as there can be; the true number is k, which may be a minimum with a constant."""
    shape, k = s.type(0).shape, s.steps.x(1)
    axis = attrs.get("axis", -1) % len(shape)
    if s.type(1).elements != 1:
        raise UnsupportedError(f"k is {s.type(1)}; expected one element")
    (most_k,) = s.most(k)
    bounds = list(shape)
    least = [] if most_k is None else [max(0, most_k)]
    bounds[axis] = min([shape[axis], *least, *s.limit[axis:][:1]])
    named = s.steps.node.output
    s.result("TopK", s.steps.x(0), s.number([bounds[axis]]), **attrs)
    if s.steps.wants(1):
        s.steps.made[-1].output.append(named[1])
    extents, known = s.true_extents(), [*s.symbols[:axis], "", *s.symbols[axis + 1 :]]
    extents[axis] = s("Cast", s("Reshape", k, s.number([])), to=dtype.int64.onnx)
    return Box(tuple(bounds), tuple(extents), tuple(known))


@op(
    "TopK",
    *(Trait.ORDER_PRESERVING, *LINES),
    moved=Moved((0,), (0,)),
    older=((10, attr_to_input("k", 1)),),
    extents=_top_of_boxes,
    shaped=_top_in_box,
    places=1,
)
def top_k(v: View) -> Kernel:
    """The k largest (smallest) of each line, in order, and where they stood; of equal ones the
    first. k is the output's type."""
    if len(v.node.outputs) < 2 or not all(v.node.outputs):
        raise UnsupportedError("TopK with one output left out; supported: Values and Indices")
    x, made = v.x(0).shape, [v.type(o).shape for o in v.node.outputs]
    axis = v.attr("axis", -1) % len(x)
    k = (*v.y.shape, 0)[min(axis, len(v.y.shape))]
    if set(made) != {(*x[:axis], k, *x[axis + 1 :])} or k > x[axis]:
        raise UnsupportedError(f"TopK of {shown(x)} to {' and '.join(map(shown, made))}")
    sign = ">" if v.attr("largest", 1) else "<"
    each = _sorted(x[axis], k, v.x(0).dtype.is_float)
    return along(v, "lines_top", axis, each=each, sign=sign, k=k)


def _sorted(n: int, k: int, floats: bool) -> Operations:
    """What an element of n takes of which the k best are kept in order, in a random order: how many
    are kept, and move half of the better ones."""
    kept = sum(min(1.0, k / (e + 1)) for e in range(n)) / max(1, n)
    compare = times(less=1) if floats else times(whole=1)
    moved = compare + times(load=3, store=3, loop=1, whole=2, choose=2)
    return compare + times(whole=5, choose=3, load=1) + kept * (times(store=3) + k / 2 * moved)


@op("LpNormalization", *LINES, extents=ZEROS, constant=folded.lp_normalization)
def lp_normalization(v: View) -> Kernel:
    """Each line divided by its sum of sizes, or the root of its sum of squares; zeros stay."""
    row = v.y.dtype
    m = Maths(row, row)
    if not row.is_float or v.attr("p", 2) not in (1, 2):
        raise UnsupportedError(
            f"LpNormalization on {row}, p={v.attr('p', 2)}; supported: floats, 1 or 2"
        )
    squares = v.attr("p", 2) == 2
    size = "value * value" if squares else settle(row, m.size("value"))
    again = of_text("norm == 0 && line[k] / norm", row) + times(store=1, loop=1, whole=1)
    return along(
        v,
        "lines_normalised",
        v.attr("axis", -1),
        each=of_text(f"sum += {size}", row) + again,
        zero=literal(0, row),
        size=size,
        norm=m.root("sum") if squares else "sum",
    )
