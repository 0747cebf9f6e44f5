"""What the second generator puts into networks, in the spelling of each opset."""

from __future__ import annotations

import math

import numpy as np
from grow import Network, NotThisError, is_large, session_of
from onnx import TensorProto, helper
from other import BOOL, F16, F32, F64, INT64, SIGNED, UNSIGNED, Maker
from other_deep import DEEP
from theirs import LAST_OF_SLICES

ONE = (
    *("Abs", "Neg", "Floor", "Ceil", "Sqrt", "Exp", "Log"),
    *("Sigmoid", "Tanh", "Relu", "Softplus", "Softsign", "Reciprocal", "Identity"),
    *("Elu", "Selu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Sin", "Cos"),
    *("Tan", "Asin", "Acos", "Atan", "Erf", "Sign", "Sinh"),
    *("Cosh", "Asinh", "Acosh", "Atanh", "Round", "Celu", "HardSwish"),
    *("Mish", "Gelu", "Shrink", "Dropout"),
)
REDUCED_INTEGERS = ("Sum", "Mean", "Max", "Min", "L1", "SumSquare")
REDUCED = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
PAIRS = ("Add", "Sub", "Mul", "Div", "Add", "Mul", "Pow", "PRelu", "Max", "Min", "Mean", "Sum")
BROAD = {F32, F64, *map(np.dtype, ("int32", "int64", "uint32", "uint64"))}


def one(m: Maker) -> None:
    op = m.pick(ONE)
    if op == "ThresholdedRelu" and m.opset < 10:
        raise NotThisError  # onnxruntime has it in opsets that do not
    m.do(op, m.any(lambda a: a.dtype.kind == "f"))


def fellow(m: Maker, x: str) -> str:
    """What broadcasts with x: itself, a tensor of its type, or a constant of fewer axes."""
    dtype, shape = m.dtype(x), m.shape(x)
    if m.odds(0.1):
        return x
    if m.odds(0.5):
        return m.any(lambda a: a.dtype == dtype and _fits(a.shape, shape))
    sub = [n if m.odds(0.6) else 1 for n in shape][m.upto(0, len(shape)) :]
    if m.odds(0.1) and len(shape) < 6:
        sub = [m.upto(1, 2), *([1] * (len(shape) - len(sub))), *sub]
    if dtype.kind == "b":
        return m.const(m.rng.integers(0, 2, size=sub), dtype)
    values = m.rng.normal(size=sub) if dtype.kind == "f" else m.rng.integers(1, 9, size=sub)
    return m.const(values, dtype)


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(a, b)) <= 800
    except ValueError:
        return False


def two(m: Maker) -> None:
    x = m.any(lambda a: a.dtype.kind in "fiu")
    y, op = fellow(m, x), m.pick(PAIRS)
    if op == "Div" and m.dtype(x).kind in "iu" and y not in m.consts:
        raise NotThisError  # a divisor of zero
    if op == "Pow" and m.dtype(x).kind in "iu":
        raise NotThisError
    pair = [x, y]
    if op not in ("Div", "Pow", "PRelu") and m.odds(0.4):
        pair.reverse()
    m.do(op, *pair)


def compare(m: Maker) -> None:
    x = m.any(lambda a: a.dtype.kind in "fiu")
    ops = ["Equal", "Less", "Greater"] + ["LessOrEqual", "GreaterOrEqual"] * (m.opset >= 12)
    m.do(m.pick(ops), x, fellow(m, x))


def logic(m: Maker) -> None:
    x = m.any(lambda a: a.dtype == BOOL)
    op = m.pick(("And", "Or", "Xor", "Not"))
    m.do(op, *([x] if op == "Not" else [x, fellow(m, x)]))


def choice(m: Maker) -> None:
    c = m.any(lambda a: a.dtype == BOOL)
    shape = m.shape(c)
    x = m.any(lambda a: a.dtype.kind in "fiu" and _fits(a.shape, shape))
    m.do("Where", c, x, fellow(m, x))


def bits(m: Maker) -> None:
    x = m.any(lambda a: a.dtype.kind in "iu")
    if m.odds(0.4) and m.dtype(x).kind == "u":
        m.do("BitShift", x, fellow(m, x), direction=m.pick(("LEFT", "RIGHT")))
    else:
        m.do(m.pick(("BitwiseAnd", "BitwiseOr", "BitwiseXor")), x, fellow(m, x))


def remainder(m: Maker) -> None:
    x = m.any(lambda a: a.dtype.kind in "fiu")
    dtype, shape = m.dtype(x), m.shape(x)
    if dtype.kind == "f":
        m.do("Mod", x, fellow(m, x), fmod=1)
    else:
        sub = shape[m.upto(0, len(shape)) :]
        m.do("Mod", x, m.const(m.rng.integers(1, 20, size=sub), dtype), fmod=m.upto(0, 1))


def cast(m: Maker) -> None:
    x = m.any()
    kind = m.pick((F32, F32, F64, F16, BOOL, *SIGNED, *UNSIGNED))
    m.do("Cast", x, to=helper.np_dtype_to_tensor_dtype(kind))


def clip(m: Maker) -> None:
    if m.opset < 11:
        m.do("Clip", m.real(), min=-0.5, max=m.pick((0.25, 6.0)))
        return
    x = m.any(lambda a: a.dtype in BROAD)
    kind = m.dtype(x)
    ends = [m.const(v, kind) if m.odds(0.7) else "" for v in (1, 3)]
    m.do("Clip", x, *ends)


def reduce(m: Maker) -> None:
    kind = m.pick(REDUCED)
    x = m.real() if m.odds(0.8) else m.any(lambda a: a.dtype in (F64, np.int32) and a.size > 0)
    if m.dtype(x) == np.int32 and kind not in REDUCED_INTEGERS:
        raise NotThisError  # beyond its range onnxruntime computes in floats, which saturate
    rank = len(m.shape(x))
    axes = sorted(int(a) for a in m.rng.permutation(rank)[: m.upto(1, rank)])
    axes = [a - rank if m.odds(0.3) and m.opset >= 11 else a for a in axes]
    keep = m.pick((None, 0, 1))
    late = m.opset >= (13 if kind == "Sum" else 18)
    if not rank or m.odds(0.15):
        empty = m.pick((None, 0, 1)) if late else None
        m.do(f"Reduce{kind}", x, keepdims=keep, noop_with_empty_axes=empty)
    elif late:
        m.do(f"Reduce{kind}", x, m.ints(*axes), keepdims=keep)
    else:
        m.do(f"Reduce{kind}", x, axes=axes, keepdims=keep)


def best(m: Maker) -> None:
    x = m.any(lambda a: a.dtype in (F32, F64, np.int32) and a.ndim > 0 and a.size > 0)
    axis = m.upto(0, len(m.shape(x)) - 1)
    if m.odds(0.5):
        last = m.pick((None, 1)) if m.opset >= 12 else None
        m.do(
            m.pick(("ArgMax", "ArgMin")),
            x,
            axis=axis,
            keepdims=m.upto(0, 1),
            select_last_index=last,
        )
        return
    k = m.upto(1, m.shape(x)[axis])
    if m.opset < 10:
        m.do("TopK", x, outs=2, axis=axis, k=k)
    else:
        down = m.upto(0, 1) if m.opset >= 11 else None
        m.do("TopK", x, m.ints(k), outs=2, axis=axis, largest=down)


def shaped(m: Maker) -> None:
    """A Reshape to constants, or to extents that nodes compute."""
    x = m.any(lambda a: a.size > 0)
    size = m.arrays[x].size
    if m.odds(0.3):
        parts = m.do("Shape", x)
        picked = m.do("Gather", parts, m.ints(0)) if len(m.shape(x)) else m.ints(1)
        m.do("Reshape", x, m.do("Concat", picked, m.ints(-1), axis=0))
        return
    extents = []
    for _ in range(m.upto(0, 5)):
        extents.append(m.pick([d for d in range(1, 9) if size % d == 0]))
        size //= extents[-1]
    extents.insert(m.upto(0, len(extents)), -1 if m.odds(0.3) else size)
    m.do("Reshape", x, m.ints(*extents))


def axes(m: Maker) -> None:
    """Squeeze, Unsqueeze, Flatten, Transpose."""
    x = m.any()
    shape, late = m.shape(x), m.opset >= 13
    kind = m.pick(("Squeeze", "Unsqueeze", "Flatten", "Transpose", "Transpose"))
    if kind == "Transpose":
        m.do(kind, x, perm=m.rng.permutation(len(shape)).tolist() if m.odds(0.8) else None)
    elif kind == "Flatten":
        m.do(kind, x, axis=m.upto(0, len(shape)))
    else:
        ones = [k for k, n in enumerate(shape) if n == 1]
        if kind == "Squeeze" and m.odds(0.3):
            m.do(kind, x)
            return
        at = m.pick(ones) if kind == "Squeeze" else m.upto(0, len(shape))
        if late:
            m.do(kind, x, m.ints(at))
        else:
            m.do(kind, x, axes=[at])


def join(m: Maker) -> None:
    x = m.any(lambda a: a.ndim > 0)
    shape, dtype = m.shape(x), m.dtype(x)
    axis = m.upto(0, len(shape) - 1)
    rest = (*shape[:axis], *shape[axis + 1 :])

    def fits(a: np.ndarray) -> bool:
        same = a.dtype == dtype and a.ndim == len(shape)
        return same and (*a.shape[:axis], *a.shape[axis + 1 :]) == rest

    m.do("Concat", *(m.any(fits) for _ in range(m.upto(1, 4))), axis=axis)


def part(m: Maker) -> None:
    x = m.any(lambda a: a.ndim > 0 and max(a.shape) > 1)
    axis = m.pick([k for k, n in enumerate(m.shape(x)) if n > 1])
    n = m.shape(x)[axis]
    cuts = sorted(m.upto(0, n) for _ in range(m.upto(1, 3)))
    sizes = np.diff([0, *cuts, n]).tolist()
    if m.opset >= 13:
        m.do("Split", x, m.ints(*sizes), outs=len(sizes), axis=axis)
    else:
        m.do("Split", x, outs=len(sizes), split=sizes, axis=axis)


def slice_(m: Maker) -> None:
    x = m.any(lambda a: a.ndim > 0)
    shape = m.shape(x)
    picked = sorted(m.rng.permutation(len(shape))[: m.upto(1, 2)].tolist())
    starts = [m.upto(-shape[a] - 1, shape[a] + 1) for a in picked]
    ends = [m.upto(-shape[a], shape[a] + 2) for a in picked]
    if m.opset < 10:
        m.do("Slice", x, starts=starts, ends=ends, axes=picked)
    else:
        steps = [m.pick((1, 1, 2, 3, -1, -2)) for _ in picked]
        ends = [LAST_OF_SLICES if m.odds(0.3) else e for e in ends]
        m.do("Slice", x, *(m.ints(*v) for v in (starts, ends, picked, steps)))


def pad(m: Maker) -> None:
    x = m.real(1, 2, 3, 4, 5)
    shape = m.shape(x)
    mode = m.pick(("constant", "reflect", "edge"))
    pads = [m.upto(0, 3) if m.odds(0.4) else 0 for _ in range(2 * len(shape))]
    if mode == "reflect":
        pads = [min(p, shape[k % len(shape)] - 1) for k, p in enumerate(pads)]
    if m.opset < 11:
        m.do("Pad", x, pads=pads, mode=mode, value=0.5)
    else:
        extra = [m.const(m.pick((-1.5, 0.0)))] if mode == "constant" and m.odds(0.6) else []
        m.do("Pad", x, m.ints(*pads), *extra, mode=mode)


def repeat(m: Maker) -> None:
    x = m.any(lambda a: 0 < a.size < 150)
    shape = m.shape(x)
    if shape and m.odds(0.5):
        m.do("Tile", x, m.ints(*(m.upto(1, 3) for _ in shape)))
    elif m.opset >= 8:
        wider = [m.upto(1, 3) if n == 1 else n for n in shape]
        m.do("Expand", x, m.ints(*([m.upto(1, 2)] * m.upto(0, 6 - len(wider))), *wider))


def index(m: Maker) -> None:
    x = m.any(lambda a: a.ndim > 0 and a.size > 0)
    shape = m.shape(x)
    axis = m.upto(0, len(shape) - 1)
    n, kind = shape[axis], m.pick(("Gather", "Gather", "Elements", "ND", "Scatter", "ScatterND"))
    low = -n if m.opset >= 11 else 0
    dtype = m.pick((np.int64, np.int32))
    if kind == "Gather":
        at = m.pick(((), (1,), (2, 2), (3,), (0,), (1, 1, 2)))
        m.do("Gather", x, m.const(m.rng.integers(low, n, size=at), dtype), axis=axis)
    elif kind == "Elements":
        m.do("GatherElements", x, m.const(m.rng.integers(low, n, size=shape), dtype), axis=axis)
    elif kind == "ND":
        depth = m.upto(1, len(shape))
        rows = [[m.upto(0, shape[k] - 1) for k in range(depth)] for _ in range(m.upto(1, 3))]
        m.do("GatherND", x, m.const(rows, np.int64))
    elif kind == "Scatter":
        few = [1 if k == axis else k_n for k, k_n in enumerate(shape)]
        values = m.const(np.ones(few), m.dtype(x))
        at = m.const(m.rng.integers(0, n, size=few), np.int64)
        m.do("ScatterElements" if m.opset >= 11 else "Scatter", x, at, values, axis=axis)
    else:
        rows = m.rng.permutation(shape[0])[:2].reshape(-1, 1)
        values = m.const(np.ones((len(rows), *shape[1:])), m.dtype(x))
        m.do("ScatterND", x, m.const(rows, np.int64), values)


def sequence(m: Maker) -> None:
    """Made of shapes and constants alone, or counted along an axis."""
    x = m.any(lambda a: a.ndim > 0)
    kind = m.pick(("CumSum", "OneHot", "EyeLike", "ConstantOfShape", "Range", "Size", "Trilu"))
    if kind == "CumSum":
        x = m.any(lambda a: a.ndim > 0 and a.dtype in (F32, F64, np.int32, np.int64))
        axis = m.const(m.upto(-1, len(m.shape(x)) - 1), np.int64)
        m.do(kind, x, axis, exclusive=m.upto(0, 1), reverse=m.upto(0, 1))
    elif kind == "OneHot":
        x = m.any(lambda a: a.dtype == INT64 and a.ndim < 4)
        m.do(kind, x, m.const(m.upto(1, 6), np.int64), m.const([-0.5, 2.0]), axis=-1)
    elif kind == "EyeLike":
        m.do(kind, m.any(lambda a: a.ndim == 2), dtype=TensorProto.FLOAT, k=m.upto(-1, 2))
    elif kind == "ConstantOfShape":
        value = helper.make_tensor("v", TensorProto.FLOAT, [1], [m.pick((0.0, 1.5))])
        m.do("Add", m.do(kind, m.do("Shape", x), value=value), m.const(0.5))
    elif kind == "Range":
        count = m.do("Gather", m.do("Shape", x), m.const(0, np.int64))
        m.do(kind, m.const(0, np.int64), count, m.const(m.upto(1, 3), np.int64))
    elif kind == "Size":
        m.do("Cast", m.do(kind, x), to=TensorProto.FLOAT)
    else:
        x = m.any(lambda a: a.ndim >= 2 and a.dtype in (F32, F64, np.int64))
        m.do(kind, x, m.const(m.upto(-2, 2), np.int64), upper=m.upto(0, 1))


def softmax(m: Maker) -> None:
    x = m.real(1, 2, 3, 4, 5)
    low = 0 if m.opset < 11 else -len(m.shape(x))
    m.do(m.pick(("Softmax", "LogSoftmax", "Hardmax")), x, axis=m.upto(low, len(m.shape(x)) - 1))


def again(m: Maker) -> None:
    m.again()


SHALLOW = (
    *(one, one, one, two, two, two, two, compare, logic, choice, bits, remainder, cast, cast),
    *(clip, reduce, reduce, best, shaped, shaped, axes, axes, join, join, part, slice_, slice_),
    *(pad, repeat, index, index, sequence, softmax, again),
)
MENU = (*SHALLOW, *DEEP)


def made(seed: int, index: int) -> Network:
    """Network `index` of a seed, the same whenever it is asked for."""
    attempt = 0
    while True:
        maker = Maker(np.random.default_rng([77, seed, index, attempt]))
        wanted = maker.upto(9, 16) if is_large(index) else maker.upto(3, 8)
        network = _filled(maker, f"o{seed}_{index}", wanted)
        try:
            session = session_of(network.model)
            for feed in network.feeds:
                session.run(None, feed)
        except Exception:  # onnx infers other shapes than onnxruntime's kernels give, or allow
            attempt += 1
        else:
            return network


def _filled(maker: Maker, name: str, wanted: int) -> Network:
    for _ in range(maker.upto(1, 4)):
        rank = maker.pick((0, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6))
        extents = [maker.upto(1, (64, 30, 12, 9, 7, 4, 3)[rank]) for _ in range(rank)]
        if extents and maker.odds(0.04):
            extents[maker.upto(0, rank - 1)] = 0
        others = (F32, F32, F32, F32, F32, F64, F16, *SIGNED, *UNSIGNED, BOOL)
        maker.input(extents, maker.pick(others))
    maker.input((1, maker.upto(1, 6), maker.upto(1, 9), maker.upto(1, 9)))
    for _ in range(15 * wanted):
        if len(maker.nodes) >= wanted:
            break
        try:
            maker.pick(MENU)(maker)
        except NotThisError:
            continue
    return maker.network(name)
