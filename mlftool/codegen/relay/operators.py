"""Rules for elementwise operators, reductions and those that move elements.

A rule writes the calls for one node and returns the expression of its result, one for each output,
or None where Relay has no equivalent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from mlftool.codegen.relay.writer import Site
from mlftool.ir import dtype

Rule = Callable[[Site], "str | tuple[str, ...] | None"]

UNARY = {
    **{op: op.lower() for op in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil")},
    **{op: op.lower() for op in ("Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Sigmoid")},
    **{op: op.lower() for op in ("Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh", "IsNaN")},
    **{"BitwiseNot": "bitwise_not", "Neg": "negative", "Not": "logical_not", "Relu": "nn.relu"},
    "mlf.Copy": "copy",
}
BINARY = {
    **{"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Pow": "power"},
    **{"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Equal": "equal"},
    **{"Less": "less", "LessOrEqual": "less_equal"},
    **{"Greater": "greater", "GreaterOrEqual": "greater_equal"},
    **{f"Bitwise{name}": f"bitwise_{name.lower()}" for name in ("And", "Or", "Xor")},
}
VARIADIC = {"Sum": "add", "Mean": "add", "Max": "maximum", "Min": "minimum"}
REDUCE = {"Mean": "mean", "Sum": "sum", "Max": "max", "Min": "min", "Prod": "prod"}


def _unary(op: str) -> Rule:
    return lambda s: s.call(op, s.arg())


def _binary(op: str) -> Rule:
    def rule(s: Site) -> str | None:
        if s.type(0).dtype != s.type(1).dtype:
            return None  # Pow may mix types; Relay's operators do not
        return s.call(op, s.arg(0), s.arg(1))

    return rule


def _variadic(op: str) -> Rule:
    def rule(s: Site) -> str:
        total = reduce(lambda a, b: s.call(op, a, b), s.args())
        if s.node.op == "Mean":
            return s.call("divide", total, s.literal(s.count))
        return total

    return rule


def _shift(s: Site) -> str:
    way = "left_shift" if s.attr("direction", "LEFT") == "LEFT" else "right_shift"
    return s.call(way, s.arg(0), s.arg(1))


def _mod(s: Site) -> str:
    # Relay's mod truncates, as C does.
    return s.call("mod" if s.attr("fmod", 0) else "floor_mod", s.arg(0), s.arg(1))


def _round(s: Site) -> str:
    """Halves to even; Relay's own round takes them away from zero."""
    below = s.call("subtract", s.arg(), s.literal(0.5))
    low = s.call("ceil", below)
    odd = s.call("equal", s.call("abs", s.call("mod", low, s.literal(2))), s.literal(1))
    up = s.call("logical_and", s.call("equal", low, below), odd)
    return s.call("where", up, s.call("add", low, s.literal(1)), low)


def _is_inf(s: Site) -> str | None:
    both = s.attr("detect_negative", 1) and s.attr("detect_positive", 1)
    return s.call("isinf", s.arg()) if both else None


def _clip(s: Site) -> str | None:
    low, high = s.scalar(1), s.scalar(2)
    if low is not None and high is not None:
        return s.call("clip", s.arg(), a_min=low, a_max=high)
    x = s.arg()
    if s.has(1):
        x = s.call("maximum", x, s.single(1))
    return s.call("minimum", x, s.single(2)) if s.has(2) else x


def _cast(s: Site) -> str:
    return s.call("cast", s.arg(), dtype=str(dtype.BY_ONNX[s.attr("to", 1)]))


def _line(s: Site, x: str, factor: float, offset: float) -> str:
    """factor * x + offset"""
    return s.call("add", s.call("multiply", x, s.literal(factor)), s.literal(offset))


def _unit(s: Site, x: str) -> str:
    return s.call("clip", x, a_min=0.0, a_max=1.0)


def _hard_sigmoid(s: Site) -> str:
    return _unit(s, _line(s, s.arg(), s.attr("alpha", 0.2), s.attr("beta", 0.5)))


def _hard_swish(s: Site) -> str:
    return s.call("multiply", s.arg(), _unit(s, _line(s, s.arg(), 1 / 6, 0.5)))


def _below(s: Site, x: str, inner: str, alpha: float) -> str:
    """relu(x) + alpha * (exp(inner) - 1) where that is negative"""
    rise = s.call("subtract", s.call("exp", inner), s.literal(1))
    fall = s.call("minimum", s.call("multiply", rise, s.literal(alpha)), s.literal(0))
    return s.call("add", s.call("nn.relu", x), fall)


def _elu(s: Site) -> str | None:
    alpha = s.attr("alpha", 1.0)
    return _below(s, s.arg(), s.arg(), alpha) if alpha >= 0 else None


def _celu(s: Site) -> str | None:
    alpha = s.attr("alpha", 1.0)
    if alpha <= 0:
        return None
    return _below(s, s.arg(), s.call("divide", s.arg(), s.literal(alpha)), alpha)


def _selu(s: Site) -> str:
    alpha, gamma = s.attr("alpha", 1.6732631921768188), s.attr("gamma", 1.0507010221481323)
    return s.call("multiply", _below(s, s.arg(), s.arg(), alpha), s.literal(gamma))


def _softplus(s: Site, index: int = 0) -> str:
    return s.call("log", s.call("add", s.call("exp", s.arg(index)), s.literal(1)))


def _softsign(s: Site) -> str:
    return s.call("divide", s.arg(), s.call("add", s.call("abs", s.arg()), s.literal(1)))


def _mish(s: Site) -> str:
    return s.call("multiply", s.arg(), s.call("tanh", _softplus(s)))


def _swish(s: Site) -> str:
    inner = s.call("multiply", s.arg(), s.literal(s.attr("alpha", 1.0)))
    return s.call("multiply", s.arg(), s.call("sigmoid", inner))


def _gelu(s: Site) -> str | None:
    if s.attr("approximate", "none") != "none":
        return None
    inner = s.call("erf", s.call("multiply", s.arg(), s.literal(0.5**0.5)))
    return s.call("multiply", s.arg(), _line(s, inner, 0.5, 0.5))


def _thresholded_relu(s: Site) -> str:
    above = s.call("greater", s.arg(), s.literal(s.attr("alpha", 1.0)))
    return s.call("where", above, s.arg(), s.call("zeros_like", s.arg()))


def _prelu(s: Site) -> str | None:
    """One slope for each channel; other slopes as what they do."""
    negative = s.call("minimum", s.arg(), s.literal(0))
    return s.call("add", s.call("nn.relu", s.arg()), s.call("multiply", negative, s.arg(1)))


def _reshape(s: Site) -> str:
    """Also Flatten, Squeeze and Unsqueeze: the extents are known."""
    return s.call("reshape", s.arg(), newshape=list(s.out.shape))


def _softmax(s: Site) -> str:
    op = "nn.softmax" if s.node.op == "Softmax" else "nn.log_softmax"
    axis = s.axis(-1)
    if not s.attr("mlf.flattened", 0):
        return s.call(op, s.arg(), axis=axis)
    shape = s.type().shape
    rows = 1
    for extent in shape[:axis]:
        rows *= extent
    flat = s.call("reshape", s.arg(), newshape=[rows, s.type().elements // max(rows, 1)])
    return s.call("reshape", s.call(op, flat, axis=1), newshape=list(shape))


def _concat(s: Site) -> str:
    return s.call("concatenate", s.tuple(s.args()), axis=s.axis(0))


def _split(s: Site) -> tuple[str, ...]:
    axis = s.axis(0)
    extents = [s.body.graph.types[o].shape[axis] for o in s.node.outputs]
    ends = [sum(extents[: k + 1]) for k in range(len(extents) - 1)]
    parts = s.call("split", s.arg(), indices_or_sections=ends, axis=axis)
    return tuple(f"{parts}.{k}" for k in range(len(extents)))


def _slice(s: Site) -> str | None:
    starts, ends = s.ints(1), s.ints(2)
    axes = s.ints(3) if s.has(3) else list(range(len(starts or ())))
    steps = s.ints(4) if s.has(4) else [1] * len(starts or ())
    if starts is None or ends is None or axes is None or steps is None:
        return None
    begin, end, strides = [0] * s.rank, list(s.type().shape), [1] * s.rank
    for axis, first, last, step in zip(axes, starts, ends, steps, strict=True):
        extent = s.type().shape[axis]
        low, high, stride = slice(first, last, step).indices(extent)
        # An end before the first element is spelt as one that is negative twice over.
        begin[axis], end[axis] = low, high if high >= 0 else -extent - 1
        strides[axis] = stride
    return s.call("strided_slice", s.arg(), begin=begin, end=end, strides=strides)


def _gather(s: Site) -> str | None:
    axis = s.axis(0)
    index = s.const(1)
    if index is not None and (index >= 0).all():
        return s.call("take", s.arg(0), s.arg(1), axis=axis)
    kind = str(s.type(1).dtype)
    wrapped = s.call("add", s.arg(1), s.literal(s.type().shape[axis], kind))
    negative = s.call("less", s.arg(1), s.literal(0, kind))
    return s.call("take", s.arg(0), s.call("where", negative, wrapped, s.arg(1)), axis=axis)


def _pad(s: Site) -> str | None:
    pads, value = s.ints(1), s.scalar(2, 0.0)
    mode = s.attr("mode", "constant")
    if pads is None or value is None or s.has(3) or mode not in ("constant", "edge", "reflect"):
        return None
    if min(pads, default=0) < 0:
        return None
    widths = [[pads[k], pads[k + s.rank]] for k in range(s.rank)]
    return s.call("nn.pad", s.arg(), s.literal(value), pad_width=widths, pad_mode=mode)


def _axes(s: Site) -> list[int] | None:
    """Axes of a reduction; all of them if none are given."""
    given = s.ints(1) if s.has(1) else s.attr("axes", None)
    if s.has(1) and given is None:
        return None
    if not given:
        return [] if s.attr("noop_with_empty_axes", 0) else list(range(s.rank))
    return [int(a) % s.rank for a in given]


def _reduce(op: str, before: str = "", after: str = "") -> Rule:
    def rule(s: Site) -> str | None:
        axes = _axes(s)
        if axes is None or not s.rank:
            return None
        x = s.arg()
        if before:
            x = s.call("multiply", x, x) if before == "square" else s.call(before, x)
        if axes:
            x = s.call(op, x, axis=axes, keepdims=bool(s.attr("keepdims", 1)))
        return s.call(after, x) if after else x

    return rule


def _arg_reduce(op: str) -> Rule:
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


def _tile(s: Site) -> str | None:
    repeats = s.ints(1)
    return None if repeats is None else s.call("tile", s.arg(), reps=repeats)


def _blocks(op: str) -> Rule:
    def rule(s: Site) -> str:
        size = s.attr("blocksize", 1)
        if op == "nn.space_to_depth":
            return s.call(op, s.arg(), block_size=size, layout="NCHW")
        return s.call(op, s.arg(), block_size=size, layout="NCHW", mode=s.attr("mode", "DCR"))

    return rule


OPERATORS: Mapping[str, Rule] = {
    **{op: _unary(name) for op, name in UNARY.items()},
    **{op: _binary(name) for op, name in BINARY.items()},
    **{op: _variadic(name) for op, name in VARIADIC.items()},
    **{f"Reduce{op}": _reduce(name) for op, name in REDUCE.items()},
    "ReduceL1": _reduce("sum", "abs"),
    "ReduceL2": _reduce("sum", "square", "sqrt"),
    "ReduceSumSquare": _reduce("sum", "square"),
    "ReduceLogSum": _reduce("sum", "", "log"),
    "ReduceLogSumExp": _reduce("sum", "exp", "log"),
    "ArgMax": _arg_reduce("argmax"),
    "ArgMin": _arg_reduce("argmin"),
    "BitShift": _shift,
    "Mod": _mod,
    "Round": _round,
    "IsInf": _is_inf,
    "Clip": _clip,
    "Cast": _cast,
    "Reciprocal": lambda s: s.call("divide", s.literal(1), s.arg()),
    "Identity": lambda s: s.arg(),
    "Where": lambda s: s.call("where", *s.args()),
    "LeakyRelu": lambda s: s.call("nn.leaky_relu", s.arg(), alpha=float(s.attr("alpha", 0.01))),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Elu": _elu,
    "Celu": _celu,
    "Selu": _selu,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Mish": _mish,
    "Swish": _swish,
    "Gelu": _gelu,
    "ThresholdedRelu": _thresholded_relu,
    "PRelu": _prelu,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze"), _reshape),
    "Expand": lambda s: s.call("broadcast_to", s.arg(), shape=list(s.out.shape)),
    "Transpose": lambda s: s.call("transpose", s.arg(), axes=list(s.attr("perm", ()))),
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": lambda s: s.call("gather", s.arg(0), s.arg(1), axis=s.axis(0)),
    "Pad": _pad,
    "Tile": _tile,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "DepthToSpace": _blocks("nn.depth_to_space"),
    "SpaceToDepth": _blocks("nn.space_to_depth"),
}
