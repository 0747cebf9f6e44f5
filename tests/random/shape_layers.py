"""The third generator's layers: an operator each, with the attributes that choose its forms."""

from __future__ import annotations

import numpy as np
from grow import NotThisError
from onnx import TensorProto
from other import F32, Maker, numbers
from shape_layers_bytes import BYTE_LAYERS
from shape_parts import Layer, axes_of, group_of, like, there_and_back, window
from theirs import most_of_weights

REDUCED = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare")
UNARY = ("Relu", "Sigmoid", "Tanh", "HardSwish", "Erf", "Exp", "Softplus", "Elu", "Gelu", "Sqrt")
ANY_KIND = (np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64, np.float16)


def conv(m: Maker, x: str) -> str:
    c, *spatial = m.shape(x)[1:]
    attrs, group = window(m, tuple(spatial)), group_of(m, c)
    out = group * m.pick((1, 1, 2, 3) if group > 1 else (1, 2, 3, 5, 8, 17))
    w = m.weights(out, c // group, *attrs["kernel_shape"], scale=0.5)
    if m.odds(0.08):
        w = m.do("Tanh", w)
    bias = [m.weights(out)] if m.odds(0.5) else []
    return m.do("Conv", x, w, *bias, group=group, **attrs)


def conv_transpose(m: Maker, x: str) -> str:
    c, *spatial = m.shape(x)[1:]
    attrs, group = window(m, tuple(spatial), 3), group_of(m, c)
    attrs.pop("auto_pad", None)
    w = m.weights(c, m.pick((1, 2, 3, 5)), *attrs["kernel_shape"], scale=0.5)
    if "strides" in attrs and m.odds(0.3):
        attrs["output_padding"] = [m.upto(0, s - 1) for s in attrs["strides"]]
    return m.do("ConvTranspose", x, w, group=group, **attrs)


def pool(m: Maker, x: str) -> str:
    op = m.pick(("MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"))
    if op.startswith("Global"):
        return m.do(op, x)
    attrs = window(m, m.shape(x)[2:], dilated=op == "MaxPool")
    if op == "AveragePool":
        attrs["count_include_pad"] = m.upto(0, 1)
    if op != "LpPool" and m.odds(0.3) and "auto_pad" not in attrs:
        attrs["ceil_mode"] = 1
    return m.do(op, x, **attrs)


def resize(m: Maker, x: str) -> str:
    """Of any axes."""
    shape = m.shape(x)
    mode = m.pick(("nearest", "linear", "linear", "cubic"))
    if mode == "cubic" and len(shape) != 4:
        raise NotThisError
    way = m.pick(("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"))
    attrs = {"mode": mode, "coordinate_transformation_mode": way}
    sizes = [n if k < 2 else m.upto(1, 2 * n + 1) for k, n in enumerate(shape)]
    return m.do("Resize", x, "", "", m.ints(*sizes), **attrs)


def matmul(m: Maker, x: str) -> str:
    """Operands broadcast on either side; one of them may be constant, or a vector."""
    shape = m.shape(x)
    n, out = shape[-1], m.pick((1, 2, 3, 5, 8, 17))
    batch = [k if m.odds(0.5) else 1 for k in shape[:-2]][m.upto(0, len(shape[:-2])) :]
    if m.odds(0.2) and len(shape) < 5:
        batch = [2, *[1] * (len(shape) - 2 - len(batch)), *batch]
    first = m.odds(0.25) and len(shape) > 1
    n = shape[-2] if first else n
    own = [out, n] if first else [n, out]
    own = [n] if m.odds(0.1) else [*batch, *own]
    if m.odds(0.5):
        w = m.weights(*own, scale=max(n, 1) ** -0.5)
    else:
        w = m.input(own)
        m.arrays[w] = m.rng.normal(size=own).astype(np.float32)
    return m.do("MatMul", *((w, x) if first else (x, w)))


def gemm(m: Maker, x: str) -> str:
    rows, n = m.shape(x)
    ta, tb, out = m.upto(0, 1), m.upto(0, 1), m.pick((1, 2, 3, 5, 8, 17))
    rows, n = (n, rows) if ta else (rows, n)
    w = m.weights(*((out, n) if tb else (n, out)), scale=max(n, 1) ** -0.5)
    bias = m.weights(*m.pick(((out,), (1, out), (rows, 1), (rows, out), (1, 1), ())))
    more = {"alpha": m.pick((1.0, 0.5)), "beta": m.pick((1.0, 2.0))} if m.odds(0.5) else {}
    return m.do("Gemm", x, w, *([bias] if m.odds(0.8) else []), transA=ta, transB=tb, **more)


def einsum(m: Maker, x: str) -> str:
    b, i, j = m.shape(x)
    text = m.pick(("bij,bjk->bik", "bij,jk->bik", "bij,jk->kib", "bij,kj->bk", "bij,bij->bi"))
    sizes = {"b": b, "i": i, "j": j, "k": m.pick((1, 3, 5))}
    return m.do("Einsum", x, m.weights(*(sizes[a] for a in text[4:].split("->")[0])), equation=text)


def binary(m: Maker, x: str) -> str:
    pair = [x, like(m, x)]
    m.rng.shuffle(pair)
    return m.do(m.pick(("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum", "PRelu")), *pair)


def whole(m: Maker, x: str) -> str:
    """Integers of all widths."""
    kind = np.dtype(m.pick((np.int32, np.int64, np.uint8, np.int8, np.uint32)))
    shape = [n if m.odds(0.6) else 1 for n in m.shape(x)]
    a = m.input(m.shape(x), kind)
    b = m.const(m.rng.integers(1, 20, size=shape), kind)
    pair = (a, b) if m.odds(0.6) else (b, a)
    op = m.pick(("Add", "Sub", "Mul", "Mod", "Max", "Min", "Equal", "Less", "Greater"))
    if op == "Mod":
        pair = (a, b)
    return m.do(op, *pair)


def where(m: Maker, x: str) -> str:
    other = like(m, x)
    return m.do("Where", m.do("Greater", like(m, x), m.const(0.1)), x, other)


def unary(m: Maker, x: str) -> str:
    return m.do(m.pick(UNARY), m.do("Abs", x))


def reduce(m: Maker, x: str) -> str:
    kind, axes = m.pick(REDUCED), axes_of(m, len(m.shape(x)))
    keep = m.upto(0, 1)
    if m.opset >= 18 or kind == "Sum":
        return m.do(f"Reduce{kind}", x, m.ints(*axes), keepdims=keep)
    return m.do(f"Reduce{kind}", x, axes=axes, keepdims=keep)


def best(m: Maker, x: str) -> str:
    axis = m.upto(0, len(m.shape(x)) - 1)
    if m.odds(0.5):
        last = m.pick((None, 1))
        op = m.pick(("ArgMax", "ArgMin"))
        return m.do(op, x, axis=axis, keepdims=m.upto(0, 1), select_last_index=last)
    k = m.ints(m.upto(1, m.shape(x)[axis]))
    return m.do("TopK", x, k, outs=2, axis=axis, largest=m.upto(0, 1))


def line(m: Maker, x: str) -> str:
    """Along one axis."""
    axis = m.upto(-len(m.shape(x)), len(m.shape(x)) - 1)
    op = m.pick(("Softmax", "Softmax", "LogSoftmax", "Hardmax", "CumSum", "LpNormalization"))
    if op == "CumSum":
        return m.do(op, x, m.const(axis, np.int64), exclusive=m.upto(0, 1), reverse=m.upto(0, 1))
    return m.do(op, x, axis=axis, **({"p": m.upto(1, 2)} if op[0] == "L" and op[1] == "p" else {}))


def norm(m: Maker, x: str) -> str:
    shape = m.shape(x)
    c = shape[1]
    op = m.pick(("Instance", "Batch", "Layer", "LRN", "Mean", "Group"))
    if op == "LRN":
        return m.do(op, x, size=m.pick((1, 3, 5)), alpha=0.3, bias=1.5)
    if op == "Mean":
        return m.do("MeanVarianceNormalization", x, axes=axes_of(m, len(shape)))
    if op == "Layer":
        axis = m.upto(1, len(shape) - 1)
        own = shape[axis:]
        return m.do("LayerNormalization", x, m.weights(*own), m.weights(*own), axis=axis)
    if op == "Group":
        groups = m.pick([d for d in range(1, c + 1) if c % d == 0])
        n = groups if m.opset < 21 else c
        return m.do("GroupNormalization", x, m.weights(n), m.weights(n), num_groups=groups)
    given = [m.weights(c), m.weights(c)]
    if op == "Batch":
        given += [m.weights(c), m.const(m.rng.uniform(0.5, 2, size=c))]
    return m.do(f"{op}Normalization", x, *given)


def moved(m: Maker, x: str) -> str:
    """One of the movements, of a type of any width."""
    kind = m.pick(ANY_KIND)
    if kind != np.float32:
        x = m.input(m.shape(x), kind)
    shape, rank = m.shape(x), len(m.shape(x))
    axis = m.upto(0, rank - 1)
    n = shape[axis]
    op = m.pick(("turn", "cut", "pad", "tile", "pick", "join", "split", "expand", "depth", "turn"))
    if op == "turn":
        return m.do("Transpose", x, perm=m.rng.permutation(rank).tolist())
    if op == "cut":
        step = m.pick((1, 2, 3, -1, -2))
        ends = (m.upto(0, n), m.upto(0, n)) if step > 0 else (n, m.pick((0, -n - 1)))
        return m.do("Slice", x, *(m.ints(int(v)) for v in (*sorted(ends), axis, step)[:4]))
    if op == "pad":
        mode = m.pick(("constant", "constant", "reflect", "edge"))
        most = max(0, min(shape) - 1) if mode == "reflect" else 3
        low = -1 if mode == "constant" and min(shape) > 2 else 0
        pads = [m.upto(low, most) if m.odds(0.6) else 0 for _ in range(2 * rank)]
        return m.do("Pad", x, m.ints(*pads), mode=mode)
    if op == "tile":
        return m.do("Tile", x, m.ints(*(m.pick((1, 1, 2, 3)) for _ in shape)))
    if op == "expand":
        one = m.do("Slice", x, m.ints(0), m.ints(1), m.ints(axis))
        return m.do("Expand", one, m.ints(m.upto(1, 2), *(1 for _ in shape[1:]), m.upto(1, 1)))
    if op == "pick":
        own = [m.upto(1, 3) for _ in range(m.upto(0, 2))]
        return m.do("Gather", x, m.const(m.rng.integers(-n, n, size=own), np.int64), axis=axis)
    if op == "join":
        cut = m.do("Slice", x, m.ints(0), m.ints(m.upto(1, n)), m.ints(axis))
        return m.do("Concat", *m.pick(((x, cut), (cut, x), (x, cut, x), (x, x))), axis=axis)
    if op == "split":
        first = m.upto(0, n)
        return m.do("Split", x, m.ints(first, n - first), outs=2, axis=axis)
    block = m.pick((1, 2))
    if m.odds(0.5):
        return m.do("SpaceToDepth", x, blocksize=block)
    return m.do("DepthToSpace", x, blocksize=block, mode=m.pick(("DCR", "CRD")))


def scattered(m: Maker, x: str) -> str:
    shape = m.shape(x)
    axis = m.upto(0, len(shape) - 1)
    own = [m.upto(1, n) for n in shape]
    at = m.const(m.rng.integers(-shape[axis], shape[axis], size=own), np.int64)
    if m.odds(0.4):
        return m.do("GatherElements", x, at, axis=axis)
    how = m.pick(("add", "mul", "max", "min")) if m.opset >= 18 else "add"
    if m.opset < 16:
        raise NotThisError
    return m.do("ScatterElements", x, at, m.weights(*own), axis=axis, reduction=how)


def by_rows(m: Maker, x: str) -> str:
    shape = m.shape(x)
    deep = m.upto(1, len(shape))
    own = [m.upto(1, 3) for _ in range(m.upto(0, 2))]
    batch = 0
    index = np.stack([m.rng.integers(-n, n, size=own) for n in shape[batch:deep]], -1)
    at = m.const(index, np.int64)
    if m.odds(0.5):
        return m.do("GatherND", x, at)
    if m.opset < 16:
        raise NotThisError
    return m.do("ScatterND", x, at, m.weights(*own, *shape[deep:]), reduction="add")


def sampled(m: Maker, x: str) -> str:
    n, _, *spatial = m.shape(x)
    if m.opset < 20 and len(spatial) > 2:
        raise NotThisError
    grid = m.rng.uniform(-1.2, 1.2, size=(n, *(m.upto(1, 4) for _ in spatial), len(spatial)))
    modes = ("linear", "nearest") if m.opset >= 20 else ("bilinear", "nearest")
    pad = m.pick(("zeros", "border", "reflection"))
    return m.do(
        "GridSample",
        x,
        m.const(grid),
        mode=m.pick(modes),
        padding_mode=pad,
        align_corners=m.upto(0, 1),
    )


def recurrent(m: Maker, x: str) -> str:
    steps, batch, n = m.shape(x)
    op, hidden = m.pick(("LSTM", "GRU", "RNN")), m.pick((1, 2, 3, 5))
    way = m.pick(("forward", "reverse", "bidirectional"))
    d, g = 1 + (way[0] == "b"), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    w, r = m.weights(d, g * hidden, n, scale=0.5), m.weights(d, g * hidden, hidden, scale=0.5)
    b = m.weights(d, 2 * g * hidden) if m.odds(0.6) else ""
    lengths = m.const(m.rng.integers(1, steps + 1, size=batch), np.int32) if m.odds(0.3) else ""
    start = m.weights(d, batch, hidden) if m.odds(0.4) else ""
    more = {"linear_before_reset": m.upto(0, 1)} if op == "GRU" else {}
    operands = [x, w, r, b, lengths, start]
    while not operands[-1]:
        operands.pop()
    return m.do(op, *operands, outs=2, hidden_size=hidden, direction=way, **more)


def dynamic(m: Maker, x: str) -> str:
    y = m.do("DynamicQuantizeLinear", x, outs=3)
    scale, zero = m.pool[-2:]
    most = most_of_weights(m.dtype(y))
    if len(m.shape(x)) > 2 and m.odds(0.5):
        c, *spatial = m.shape(x)[1:]
        attrs, group = window(m, tuple(spatial), 3), group_of(m, c)
        shape = (group * m.upto(1, 3), c // group, *attrs["kernel_shape"])
        w = m.const(m.rng.integers(-most, most + 1, size=shape), np.int8)
        y = m.do("ConvInteger", y, w, zero, group=group, **attrs)
    else:
        shape = (m.shape(x)[-1], m.pick((1, 2, 5, 8)))
        w = m.const(m.rng.integers(-most, most + 1, size=shape), np.int8)
        y = m.do("MatMulInteger", y, w, zero)
    return m.do("Mul", m.do("Cast", y, to=TensorProto.FLOAT), scale)


def attention(m: Maker, x: str) -> str:
    """Of a value with itself, in float or in bytes."""
    shape = m.shape(x)
    other = m.input(shape)
    m.arrays[other] = numbers(m.rng, F32, shape)
    turned = m.do("Transpose", other, perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
    kind = m.pick((None, np.int8, np.uint8))
    if kind:
        x, turned, other = (there_and_back(m, v, kind) for v in (x, turned, other))
    y = m.do("Softmax", m.do("Mul", m.do("MatMul", x, turned), m.const(0.3)), axis=-1)
    return m.do("MatMul", there_and_back(m, y, kind) if kind else y, other)


def chosen(m: Maker, x: str) -> str:
    """What has run-time extents."""
    op = m.pick(("NonZero", "Compress", "Unique"))
    if op == "NonZero":
        return m.do(op, m.do("Relu", x))
    axis = m.pick((None, m.upto(0, len(m.shape(x)) - 1)))
    if op == "Unique":
        return m.do(op, m.do("Round", x), outs=4, axis=axis, sorted=m.upto(0, 1))
    n = m.arrays[x].size if axis is None else m.shape(x)[axis]
    return m.do(op, x, m.const(m.rng.integers(0, 2, size=m.upto(1, n)), np.bool_), axis=axis)


def picture(m: Maker, x: str) -> str:
    """Pooling of regions."""
    n, _, h, w = m.shape(x)
    boxes = np.sort(m.rng.uniform(0, max(h, w), size=(m.upto(1, 3), 2, 2)), axis=1).reshape(-1, 4)
    at = m.const(m.rng.integers(0, n, size=len(boxes)), np.int64)
    if m.opset < 16:
        raise NotThisError
    return m.do(
        "RoiAlign",
        x,
        m.const(boxes),
        at,
        output_height=m.upto(1, 3),
        output_width=m.upto(1, 3),
        mode=m.pick(("avg", "max")),
        sampling_ratio=m.upto(0, 2),
        coordinate_transformation_mode=m.pick(("half_pixel", "output_half_pixel")),
    )


def wide(m: Maker, _: str) -> str:
    """Float convolutions of many channels, as vectors and Winograd's transform take them."""
    c, out = m.pick((8, 16, 24, 32)), m.pick((8, 16, 17, 32))
    x = m.input((m.pick((1, 1, 2)), c, m.pick((4, 5, 7)), m.pick((4, 6, 7))))
    m.arrays[x] = m.rng.normal(size=m.shape(x)).astype(np.float32)
    size = m.pick((1, 3, 3))
    group = c if m.odds(0.2) else 1
    w = m.weights(c if group > 1 else out, c // group, size, size, scale=(c * size) ** -0.5)
    return m.do("Conv", x, w, group=group, pads=[size // 2] * 4)


def unpool(m: Maker, x: str) -> str:
    """Back to where a MaxPool found its elements."""
    y = m.do("MaxPool", x, outs=2, kernel_shape=[2, 2], strides=[2, 2])
    return m.do("MaxUnpool", y, m.pool[-1], kernel_shape=[2, 2], strides=[2, 2])


def wave(m: Maker, x: str) -> str:
    """Real transforms along an axis."""
    if m.opset < 20:
        raise NotThisError
    rank = len(m.shape(x))
    x = m.do("Unsqueeze", x, m.ints(rank))
    axis = m.const(m.upto(1, rank - 1), np.int64)
    return m.do("DFT", x, "", axis, onesided=m.upto(0, 1))


def other(m: Maker, x: str) -> str:
    """Trilu, Col2Im, Det, Squeeze and Reshape between convolutions."""
    op = m.pick(("Trilu", "Det", "Reshape", "OneHot", "ReverseSequence"))
    shape = m.shape(x)
    if op == "Trilu":
        return m.do(op, x, m.const(m.upto(-2, 2), np.int64), upper=m.upto(0, 1))
    if op == "Det":
        return m.do(op, m.do("MatMul", x, m.weights(shape[-1], shape[-2])))
    if op == "OneHot":
        at = m.const(m.rng.integers(-3, 3, size=shape[:2]), np.int64)
        y = m.do(op, at, m.ints(3), m.const([0.5, 2.0]), axis=m.upto(-3, 2))
        return m.do("Add", y, m.do("ReduceMax", x, keepdims=0))
    if op == "ReverseSequence":
        if m.odds(0.5):
            at = m.const(m.rng.integers(1, shape[0] + 1, size=shape[1]), np.int64)
            return m.do(op, x, at, time_axis=0, batch_axis=1)
        at = m.const(m.rng.integers(1, shape[1] + 1, size=shape[0]), np.int64)
        return m.do(op, x, at, time_axis=1, batch_axis=0)
    flat = m.do("Reshape", x, m.ints(*([0, -1] if m.odds(0.5) else [-1, shape[-1]])))
    return m.do("MatMul", flat, m.weights(m.shape(flat)[-1], 3, scale=0.3))


ALL = (1, 2, 3, 4, 4, 5)
LAYERS = (
    Layer(conv),
    Layer(conv_transpose),
    Layer(pool),
    Layer(resize),
    Layer(resize, (4,)),
    Layer(matmul, (1, 2, 3, 4), empty=True),
    Layer(gemm, (2,)),
    Layer(einsum, (3,)),
    Layer(binary, ALL, empty=True),
    Layer(whole, ALL, empty=True),
    Layer(where, ALL, empty=True),
    Layer(unary, ALL, empty=True),
    Layer(reduce, ALL),
    Layer(best, ALL),
    Layer(line, ALL),
    Layer(norm, (3, 4, 4, 5), since=17),
    Layer(moved, (2, 3, 4, 4, 5), empty=True),
    Layer(moved, (4,)),
    Layer(scattered, (1, 2, 3, 4)),
    Layer(by_rows, (1, 2, 3, 4)),
    Layer(sampled, (4, 4, 5), since=16),
    Layer(recurrent, (3,)),
    Layer(dynamic, (2, 3, 4)),
    Layer(attention, (2, 3, 4)),
    Layer(chosen, (1, 2, 3)),
    Layer(picture, (4,), since=16),
    Layer(other, (2, 3, 4)),
    *(Layer(wide) for _ in range(2)),
    Layer(unpool, (4,)),
    Layer(wave, (2, 3)),
    *BYTE_LAYERS,
)
