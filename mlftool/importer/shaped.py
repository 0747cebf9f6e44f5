"""Operators whose output has a shape that is computed: Reshape, Expand, Slice, Range ...

Their result lies in a box (importer/extents.py) whose greatest extents are worked out from the
inputs, or given by the user: `--input-shape y:4,6` says of a tensor `y` within the model that it is
never larger. The operator itself becomes others that fill the whole box, and the true shape, an
int64 vector, is computed beside it:

%y = Slice(%x, %starts, %ends)   =>   %at = clip(%starts + [0, 1 ...]);  %y = Gather(%x, %at)
                                      %y.shape = [clip(%ends) - clip(%starts)]

A shape that turns out larger than its box is cut off: nothing is ever written beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.importer.most import elements
from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.protos import attributes, op_name
from mlftool.onnx_rules.scope import KEEP, Next, Outcome, Refuse, Rule, Scope, Work, stepwise
from mlftool.onnx_rules.shaping import INT64, Box, Shaper, Shaping
from mlftool.onnx_rules.steps import Steps, standing_for
from mlftool.ops import UnsupportedError


def shaped(scope: Scope, node: NodeProto) -> Outcome:
    """A node of such an operator becomes a box with its true shape if its shape is not known."""
    rule = MAKERS.get(op_name(node))
    if rule is None or _is_static(scope.inferred.get(node.output[0])):
        return Next(node)
    return rule(scope, node)


def _box_of(maker: Shaper) -> Rule:
    def work(scope: Scope, node: NodeProto) -> Work[Outcome]:
        limit = scope.limit(node.output[0])
        types = [scope.types.get(n) for n in node.input]
        symbols = scope.symbols_of(node.input[0])
        of_value = partial(elements, scope)
        shaping = Shaping(Steps(node, types), scope.consts, limit, symbols, of_value)
        try:
            box = maker(shaping, attributes(node))
        except UnsupportedError as error:
            return Refuse("MLF0206", str(error))
        if box is None or (limit and len(limit) != len(box.bounds)):
            out = node.output[0]
            text = f"shape of output '{out}' is not known before run time"
            help = f"say how large it gets at most: --input-shape {out}:4,6 (input_shapes)"
            return Refuse("MLF0206", text, help)
        kept = _known(scope, box)
        extents = [
            "" if known else _limited(shaping, e, n)
            for e, n, known in zip(box.extents, box.bounds, kept, strict=True)
        ]
        # What stands for the node works on boxes.
        yield standing_for(scope.hiding({node.input[0]}), shaping.steps.made)
        made = [n for n in node.output if n in scope.types]
        if made:
            fresh = (_symbol(scope, e, node) for e in extents)
            found = tuple(known or new for known, new in zip(kept, fresh, strict=True))
            scope.symbols.update(dict.fromkeys(made, found))
        return KEEP

    return stepwise(work)


def _known(scope: Scope, box: Box) -> tuple[str, ...]:
    """Those of the known extents that the box does not cut off."""
    bounds = scope.bounds
    known = box.known or ("",) * len(box.bounds)
    return tuple(
        s if s in bounds and bounds[s] <= n else "" for s, n in zip(known, box.bounds, strict=True)
    )


def _is_static(proto: Any) -> bool:
    dims = proto.tensor_type.shape.dim if proto is not None else ()
    has_shape = proto is not None and proto.tensor_type.HasField("shape")
    return has_shape and all(d.HasField("dim_value") for d in dims)


def _limited(s: Shaping, extent: int | str, bound: int) -> str:
    """An extent within its box; "" for a static one."""
    if isinstance(extent, int):
        return ""
    return s("Cast", s("Clip", extent, s.number(0), s.number(bound)), to=dtype.int32.onnx)


def _symbol(scope: Scope, extent: str, node: NodeProto) -> str:
    """The int32 scalar that holds an extent, of the value that computes it."""
    if not extent:
        return ""
    symbol = scope.fresh(f"{node.output[0]}.extent")
    scope.types[symbol] = TensorType(dtype.int32, ())
    shape = scope.new_const(f"{symbol}.shape", np.zeros(0, INT64))
    scope.nodes.append(Node("Reshape", (extent, shape), (symbol,), {}, f"extent of {symbol}"))
    return symbol


# -- the operators -------------------------------------------------------------------------------


def _range(s: Shaping, attrs: Mapping[str, Any]) -> Box | None:
    """start + k * delta for all k below ceil((limit - start) / delta)."""
    bounds = s.bounds([_steps_at_most(s)])
    if bounds is None:
        return None
    start, limit, delta = (s.steps.x(k) for k in range(3))
    row = s.type(0).dtype
    span = s("Sub", limit, start)
    if row.is_float:
        count = s("Cast", s("Ceil", s("Div", span, delta)), to=dtype.int64.onnx)
    else:  # rounded up whatever the signs: Div rounds towards zero
        span, by = (s("Cast", v, to=dtype.int64.onnx) for v in (span, delta))
        rest = s("Cast", s("Not", s("Equal", s("Mod", span, by), s.number(0))), to=dtype.int64.onnx)
        floor = s("Div", s("Sub", span, s("Mod", span, by)), by)
        count = s("Add", floor, rest)
    steps = s.steps.const(np.arange(bounds[0]), row.numpy)
    s.result("Add", s("Mul", steps, delta), start)
    return Box(bounds, (count,))


def _steps_at_most(s: Shaping) -> int | None:
    """Upwards by constant steps from a constant start, to a limit of which the most is known."""
    start, delta = s.known(0), s.known(2)
    if start is None or delta is None or s.type(0).dtype.is_float or delta <= 0:
        return None
    (limit,) = s.most(s.steps.x(1))
    return None if limit is None else max(0, -(-(limit - int(start)) // int(delta)))


def _constant_of_shape(s: Shaping, attrs: Mapping[str, Any]) -> Box | None:
    rank = s.type(0).elements
    given = s.elements(s.steps.x(0))
    bounds = s.bounds([element.most for element in given])
    if bounds is None:
        return None
    value = attrs.get("value")
    s.result("ConstantOfShape", s.number(bounds), **({"value": value} if value else {}))
    extents = tuple(s.at(s.steps.x(0), k) for k in range(rank))
    return Box(bounds, extents, tuple(element.symbol for element in given))


def _expand(s: Shaping, attrs: Mapping[str, Any]) -> Box | None:
    """Axes of x that are no 1 keep their extent."""
    x, asked = s.type(0).shape, s.type(1).elements
    rank = max(len(x), asked)
    own = (1,) * (rank - len(x)) + x
    first, most_asked = rank - asked, s.most(s.steps.x(1))
    best = [n if n != 1 or k < first else most_asked[k - first] for k, n in enumerate(own)]
    bounds = s.bounds(best)
    if bounds is None:
        return None
    s.result("Expand", s.steps.x(0), s.number(bounds))
    extents: list[int | str] = [
        s.at(s.steps.x(1), k - first) if n == 1 and k >= first else n for k, n in enumerate(own)
    ]
    return Box(bounds, tuple(extents))


def _tile(s: Shaping, attrs: Mapping[str, Any]) -> Box | None:
    x = s.type(0).shape
    times = s.most(s.steps.x(1))
    bounds = s.bounds([t if t is None else t * n for t, n in zip(times, x, strict=True)])
    if bounds is None:
        return None
    value = s.steps.x(0)
    for k, n in enumerate(bounds):
        value = s("Gather", value, s.number(np.arange(n) % max(1, x[k])), axis=k)
    s.result("Identity", value)
    counts = [s("Mul", s.at(s.steps.x(1), k), s.number(n)) for k, n in enumerate(x)]
    return Box(bounds, tuple(counts))


def _slice(s: Shaping, attrs: Mapping[str, Any]) -> Box | None:
    """No axis gets longer: the input's extents are bounds."""
    if "starts" in attrs:
        return None
    x = s.type(0).shape
    count = s.type(1).elements
    axes = np.arange(count) if not s.steps.x(3) else s.known(3)
    if axes is None:
        raise UnsupportedError("its axes are known only at run time; expected constant axes")
    steps = np.ones(count, INT64) if not s.steps.x(4) else s.known(4)
    if steps is None:
        raise UnsupportedError("its steps are known only at run time; expected constant steps")
    at_axes = [int(a) % len(x) for a in axes]
    best: list[int | None] = list(x)
    for axis, step in zip(at_axes, steps, strict=True):
        best[axis] = -(-x[axis] // max(1, abs(int(step))))
    bounds = s.bounds(best)
    assert bounds is not None
    value = s.steps.x(0)
    extents = s.true_extents()
    for k, (axis, step) in enumerate(zip(at_axes, map(int, steps), strict=True)):
        ends = s.at(s.steps.x(1), k), s.at(s.steps.x(2), k)
        first, extent = _window(s, *ends, extents[axis], step)
        away = s("Add", first, s.number(np.arange(bounds[axis]) * step))
        at = s("Clip", away, s.number(0), s.number(max(0, x[axis] - 1)))
        value = s("Gather", value, at, axis=axis)
        extents[axis] = extent
    s.result("Identity", value)
    return Box(bounds, tuple(extents))


def _window(s: Shaping, start: str, end: str, n: int | str, step: int) -> tuple[str, str]:
    """The first index of a window of an axis of `n`, and how many there are."""
    extent = s.extent(n)
    low = s.number(0 if step > 0 else -1)
    high = extent if step > 0 else s("Sub", extent, s.number(1))

    def inside(at: str) -> str:
        whole = s("Where", s("Less", at, s.number(0)), s("Add", at, extent), at)
        return s("Max", s("Min", whole, high), low)

    first, last = inside(start), inside(end)
    span = s("Sub", last, first) if step > 0 else s("Sub", first, last)
    if abs(step) > 1:
        up = s("Add", s("Max", span, s.number(0)), s.number(abs(step) - 1))
        span = s("Div", up, s.number(abs(step)))
    return first, span


def _pad(s: Shaping, attrs: Mapping[str, Any]) -> Box | None:
    """By amounts known only at run time; they may be negative."""
    x, mode = s.type(0).shape, attrs.get("mode", b"constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode not in ("constant", "edge"):
        raise UnsupportedError(f"mode '{mode}' by computed amounts; supported: constant, edge")
    axes = np.arange(len(x)) if not s.steps.x(3) else s.known(3)
    if axes is None:
        raise UnsupportedError("its axes are known only at run time; expected constant axes")
    at_axes = [int(a) % len(x) for a in axes]
    bounds = s.bounds([None if k in at_axes else n for k, n in enumerate(x)])
    if bounds is None:
        return None
    value, outside = s.steps.x(0), ""
    extents: list[int | str] = list(x)
    for k, axis in enumerate(at_axes):
        before, after = s.at(s.steps.x(1), k), s.at(s.steps.x(1), k + len(at_axes))
        at = s("Sub", s.number(np.arange(bounds[axis])), before)
        last = s.number(max(0, x[axis] - 1))
        value = s("Gather", value, s("Clip", at, s.number(0), last), axis=axis)
        beyond = s("Or", s("Less", at, s.number(0)), s("Greater", at, last))
        shape = [bounds[axis] if a == axis else 1 for a in range(len(x))]
        beyond = s("Reshape", beyond, s.number(shape))
        outside = s("Or", outside, beyond) if outside else beyond
        extents[axis] = s("Add", s("Add", before, after), s.number(x[axis]))
    if mode == "constant" and outside:
        filler = s.steps.x(2) or s.steps.const(0, s.type(0).dtype.numpy)
        s.result("Where", outside, filler, value)
    else:
        s.result("Identity", value)
    return Box(bounds, tuple(extents))


def _reshape(s: Shaping, attrs: Mapping[str, Any]) -> Box | None:
    """Element [i0, i1 ...] of the box is the one of x that stands there for the true extents."""
    x, rank = s.type(0), s.type(1).elements
    bounds = s.bounds([x.elements if rank == 1 else None] * rank)
    if bounds is None:
        return None
    if math.prod(bounds) > 2**31 - 1:
        raise UnsupportedError(f"a box of {bounds} is too large")
    asked = [s.at(s.steps.x(1), k) for k in range(rank)]
    if not attrs.get("allowzero", 0):
        for k, n in enumerate(x.shape[:rank]):
            asked[k] = s("Where", s("Equal", asked[k], s.number(0)), s.number(n), asked[k])
    product = asked[0] if asked else s.number(1)
    for extent in asked[1:]:
        product = s("Mul", product, extent)
    # With -1 among them, the product is minus that of the others.
    others = s("Max", s("Abs", product), s.number(1))
    rest = s("Div", s.number(x.elements), others)
    extents = [s("Where", s("Less", e, s.number(0)), rest, e) for e in asked]
    flat = s.number(np.zeros((1,) * rank))
    for k, extent in enumerate(extents):
        flat = s("Add", s("Mul", flat, extent), s.indexes(bounds[k], k, rank))
    at = s("Clip", flat, s.number(0), s.number(max(0, x.elements - 1)))
    s.result("Gather", s("Reshape", s.steps.x(0), s.number([-1])), at)
    return Box(bounds, tuple(extents))


def _top_k(s: Shaping, attrs: Mapping[str, Any]) -> Box | None:
    """As many as there can be; the true number is k, which may be a minimum with a constant."""
    shape, k = s.type(0).shape, s.steps.x(1)
    axis = attrs.get("axis", -1) % len(shape)
    (most_k,) = s.most(k)
    bounds = list(shape)
    bounds[axis] = min(
        [shape[axis], *([] if most_k is None else [max(0, most_k)]), *s.limit[axis:][:1]]
    )
    named = s.steps.node.output
    s.result("TopK", s.steps.x(0), s.number([bounds[axis]]), **attrs)
    if s.steps.wants(1):
        s.steps.made[-1].output.append(named[1])
    extents: list[int | str] = [*shape]
    extents[axis] = s("Cast", s("Reshape", k, s.number([])), to=dtype.int64.onnx)
    return Box(tuple(bounds), tuple(extents))


MAKERS: Mapping[str, Rule] = {
    "Range": _box_of(_range),
    "ConstantOfShape": _box_of(_constant_of_shape),
    "Expand": _box_of(_expand),
    "Tile": _box_of(_tile),
    "Slice": _box_of(_slice),
    "Pad": _box_of(_pad),
    "Reshape": _box_of(_reshape),
    "TopK": _box_of(_top_k),
}
