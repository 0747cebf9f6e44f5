"""Layers of the second generator: windows, contractions, norms, recurrent and quantised layers,
subgraphs, sampling, and classical models."""

from __future__ import annotations

from typing import Any

import numpy as np
from grow import NotThisError
from onnx import TensorProto, helper
from other import F32, Maker
from theirs import most_of_weights

MS, ML = "com.microsoft", "ai.onnx.ml"


def geometry(m: Maker, spatial: tuple[int, ...]) -> dict[str, Any]:
    kernel = [m.upto(1, min(4, n)) for n in spatial]
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if m.odds(0.5):
        attrs["strides"] = [m.upto(1, 3) for _ in spatial]
    if m.odds(0.5):
        attrs["pads"] = [m.upto(0, k - 1) for k in (*kernel, *kernel)]
    elif m.odds(0.4):
        attrs["auto_pad"] = m.pick(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return attrs


def image(m: Maker) -> str:
    return m.real(3, 4, 4, 4, 5)


def conv(m: Maker) -> str:
    x = image(m)
    n, *spatial = m.shape(x)[1:]
    attrs = geometry(m, tuple(spatial))
    if m.odds(0.2):
        attrs["dilations"] = [m.upto(1, 3) for _ in spatial]
    group = m.pick([d for d in range(1, n + 1) if n % d == 0])
    out = group * m.upto(1, 4)
    w = m.weights(out, n // group, *attrs["kernel_shape"], scale=0.5)
    bias = [m.weights(out)] if m.odds(0.5) else []
    return m.do("Conv", x, w, *bias, group=group, **attrs)


def conv_transpose(m: Maker) -> None:
    x = image(m)
    n, *spatial = m.shape(x)[1:]
    attrs = geometry(m, tuple(spatial))
    attrs.pop("auto_pad", None)
    group = m.pick([d for d in range(1, n + 1) if n % d == 0])
    w = m.weights(n, m.upto(1, 3), *attrs["kernel_shape"], scale=0.5)
    if m.odds(0.3):
        attrs["output_padding"] = [
            m.upto(0, s - 1) for s in attrs.get("strides", [1] * len(spatial))
        ]
    m.do("ConvTranspose", x, w, group=group, **attrs)


def activated(m: Maker) -> None:
    """A convolution, a bias or a scale of channels, and an activation."""
    y = conv(m)
    shape = (1, m.shape(y)[1], *([1] * (len(m.shape(y)) - 2)))
    if m.odds(0.5):
        y = m.do(m.pick(("Add", "Mul", "Sub")), y, m.weights(*shape))
    m.do(m.pick(("Relu", "Sigmoid", "LeakyRelu", "Tanh")), y)


def pool(m: Maker) -> None:
    x = image(m)
    op = m.pick(("MaxPool", "AveragePool", "LpPool", "MaxPool", "AveragePool"))
    attrs = geometry(m, m.shape(x)[2:])
    if op == "AveragePool":
        attrs["count_include_pad"] = m.upto(0, 1)
    if m.opset >= 10 and op != "LpPool" and m.odds(0.3):
        attrs["ceil_mode"] = 1
    outs = 2 if op == "MaxPool" and m.odds(0.2) and m.opset >= 8 else 1
    m.do(op, x, outs=outs, **attrs)


def global_pool(m: Maker) -> None:
    m.do(m.pick(("GlobalAveragePool", "GlobalMaxPool")), image(m))


def product(m: Maker) -> None:
    x = m.real(1, 2, 3, 4, 5)
    n = m.shape(x)[-1]
    if m.odds(0.4):
        w = m.any(lambda a: a.dtype == F32 and a.ndim >= 2 and a.shape[-2] == n)
    else:
        batch = [1] * m.upto(0, 1) + [m.upto(1, 2)] * (m.odds(0.1))
        w = m.weights(*batch, n, m.upto(1, 12), scale=n**-0.5)
    m.do("MatMul", x, w)


def dense(m: Maker) -> None:
    x, out = m.real(2), m.upto(1, 10)
    n = m.shape(x)[1]
    trans = m.upto(0, 1)
    w = m.weights(*((out, n) if trans else (n, out)), scale=n**-0.5)
    bias = [m.weights(*m.pick(((out,), (1, out), (m.shape(x)[0], 1), ())))]
    bias = bias if m.opset < 11 or m.odds(0.8) else []
    m.do("Gemm", x, w, *bias, transB=trans, alpha=m.pick((None, 0.5)), beta=m.pick((None, 2.0)))


def einsum(m: Maker) -> None:
    x = m.real(2, 3)
    n = m.shape(x)[-1]
    w = m.weights(n, m.upto(1, 5), scale=n**-0.5)
    text = (
        m.pick(("ij,jk->ik", "ij,jk->ki"))
        if len(m.shape(x)) == 2
        else m.pick(("bij,jk->bik", "bij,jk->bk", "bij,jk->ikb"))
    )
    m.do("Einsum", x, w, equation=text)


def norm(m: Maker) -> None:
    kinds = ["Instance", "Instance", "Batch", "LRN", "Lp"]
    # onnxruntime has these in opsets that do not.
    kind = m.pick(
        kinds + ["MVN"] * (m.opset >= 9) + ["Layer"] * (m.opset >= 17) + ["Group"] * (m.opset >= 18)
    )
    x = image(m)
    shape = m.shape(x)
    n = shape[1]
    if kind == "Instance":
        m.do("InstanceNormalization", x, m.weights(n), m.weights(n), epsilon=m.pick((1e-5, 1e-2)))
    elif kind == "Batch":
        spread = m.const(np.abs(m.rng.normal(size=n)) + 0.1)
        m.do("BatchNormalization", x, m.weights(n), m.weights(n), m.weights(n), spread)
    elif kind == "LRN":
        m.do("LRN", x, size=m.pick((1, 3, 5)), alpha=0.02, beta=0.75, bias=m.pick((1.0, 2.0)))
    elif kind == "Layer":
        axis = m.upto(1, len(shape) - 1)
        outs = m.pick((1, 1, 3))
        m.do("LayerNormalization", x, m.weights(*shape[axis:]), outs=outs, axis=axis)
    elif kind == "Group":
        groups = m.pick([d for d in range(1, n + 1) if n % d == 0])
        size = n if m.opset >= 21 else groups
        m.do("GroupNormalization", x, m.weights(size), m.weights(size), num_groups=groups)
    elif kind == "MVN":
        m.do("MeanVarianceNormalization", m.real(4), axes=m.pick((None, [0, 2, 3], [2, 3])))
    else:
        m.do("LpNormalization", x, axis=m.upto(0, len(shape) - 1), p=m.upto(1, 2))


def recurrent(m: Maker) -> None:
    x = m.real(3)
    steps, batch, width = m.shape(x)
    op, units = m.pick(("LSTM", "GRU", "RNN")), m.upto(1, 4)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    way = m.pick(("forward", "reverse", "bidirectional"))
    ways = 2 if way == "bidirectional" else 1
    operands = [x, m.weights(ways, gates * units, width, scale=0.4)]
    operands += [m.weights(ways, gates * units, units, scale=0.4)]
    operands += [m.weights(ways, 2 * gates * units, scale=0.4) if m.odds(0.5) else ""]
    lengths = m.rng.integers(1, steps + 1, size=batch)
    operands += [m.const(lengths, np.int32) if m.odds(0.3) else ""]
    state = (ways, batch, units)
    operands += [m.weights(*state) if m.odds(0.3) else ""]
    attrs: dict[str, Any] = {"hidden_size": units, "direction": way}
    if op == "LSTM":
        operands += [m.weights(*state) if m.odds(0.3) else ""]
        operands += [m.weights(ways, 3 * units) if m.odds(0.3) else ""]
    if op == "GRU":
        attrs["linear_before_reset"] = m.upto(0, 1)
    if m.odds(0.2):
        attrs["clip"] = 0.7
    while not operands[-1]:
        operands.pop()
    m.do(op, *operands, outs=m.upto(1, 3 if op == "LSTM" else 2), **attrs)


def eight_bits(m: Maker, x: str) -> tuple[str, str, str]:
    """A float tensor quantised, its scale and zero point."""
    kind = m.pick((np.uint8, np.int8))
    low, high = min(0.0, float(m.arrays[x].min())), max(0.05, float(m.arrays[x].max()))
    scale = m.const((high - low) / 250)
    info = np.iinfo(kind)
    zero = m.const(
        np.clip(round(info.min - low / float(m.arrays[scale])), info.min, info.max), kind
    )
    return m.do("QuantizeLinear", x, scale, zero), scale, zero


def qdq(m: Maker) -> None:
    """Through eight bits; with a layer in between or without."""
    if m.opset < 10:
        raise NotThisError
    x = m.real()
    y = m.do("DequantizeLinear", *eight_bits(m, x))
    shape = m.shape(y)
    kind = m.pick(("none", "conv", "relu", "add", "pool", "matmul", "softmax", "resize", "concat"))
    if kind == "conv" and len(shape) in (3, 4):
        w = m.const(
            m.rng.integers(-127, 128, size=(m.upto(1, 6), shape[1], *[1] * (len(shape) - 2))),
            np.int8,
        )
        w = m.do("DequantizeLinear", w, m.const(0.01), m.const(0, np.int8))
        y = m.do("Conv", y, w)
    elif kind == "matmul" and len(shape) >= 2:
        w = m.const(m.rng.integers(-127, 128, size=(shape[-1], m.upto(1, 6))), np.int8)
        y = m.do("MatMul", y, m.do("DequantizeLinear", w, m.const(0.01), m.const(0, np.int8)))
    elif kind == "add":
        y = m.do(m.pick(("Add", "Mul", "Sub")), y, m.do("DequantizeLinear", *eight_bits(m, x)))
    elif kind == "pool" and len(shape) == 4:
        y = m.do(m.pick(("AveragePool", "MaxPool")), y, **geometry(m, shape[2:]))
    elif kind == "softmax" and shape:
        y = m.do("Softmax", y, axis=len(shape) - 1)
    elif kind == "concat" and shape:
        y = m.do("Concat", y, y, axis=0)
    elif kind == "relu":
        y = m.do(m.pick(("Relu", "Sigmoid", "Tanh")), y)
    y = eight_bits(m, y)[0] if m.odds(0.7) else y
    if m.odds(0.2):
        m.do("Relu", y)


def q_operators(m: Maker) -> None:
    """QLinearConv, QLinearMatMul, their integers, and onnxruntime's own."""
    if m.opset < 10:
        raise NotThisError
    x = m.real(2, 4)
    q, scale, zero = eight_bits(m, x)
    shape, most = m.shape(q), most_of_weights(m.dtype(q))
    out_zero = m.const(m.upto(0, 20), m.dtype(q))
    out = (m.const(m.rng.uniform(0.02, 0.1)), out_zero)
    kind = m.pick(("layer", "layer", "integer", "ms"))
    if kind == "ms":
        op = m.pick(("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"))
        twice = (q, scale, zero) if op in ("QLinearAdd", "QLinearMul") else ()
        attrs = {"alpha": 0.1} if op == "QLinearLeakyRelu" else {}
        m.do(op, q, scale, zero, *twice, *out, domain=MS, **attrs)
    elif len(shape) == 4:
        kernel = [m.upto(1, min(3, n)) for n in shape[2:]]
        n = m.upto(1, 5)
        w = m.const(m.rng.integers(-most, most + 1, size=(n, shape[1], *kernel)), np.int8)
        pads = [m.upto(0, k - 1) for k in (*kernel, *kernel)]
        if kind == "integer":
            m.do("ConvInteger", q, w, zero, m.const(0, np.int8), pads=pads)
            return
        each = m.const(m.rng.uniform(0.005, 0.02, n))
        bias = [m.const(m.rng.integers(-99, 99, size=n), np.int32)] if m.odds(0.6) else []
        m.do(
            "QLinearConv",
            q,
            scale,
            zero,
            w,
            each,
            m.const(np.zeros(n), np.int8),
            *out,
            *bias,
            pads=pads,
        )
    else:
        w = m.const(m.rng.integers(-most, most + 1, size=(shape[1], m.upto(1, 7))), np.int8)
        if kind == "integer":
            m.do("MatMulInteger", q, w, zero)
        else:
            m.do("QLinearMatMul", q, scale, zero, w, m.const(0.01), m.const(0, np.int8), *out)


def body(m: Maker, x: str, name: str) -> Any:
    """A graph without inputs that computes two tensors from x outside."""
    a, b, c = (f"{name}_{k}_{len(m.arrays)}" for k in "abc")
    nodes = [
        helper.make_node(m.pick(("Relu", "Tanh", "Neg", "Abs")), [x], [a]),
        helper.make_node(m.pick(("Add", "Sub", "Mul", "Max")), [a, x], [b]),
        helper.make_node(m.pick(("Sigmoid", "Identity", "Floor")), [b], [c]),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, m.shape(x)) for n in (b, c)]
    return helper.make_graph(nodes, name, [], info)


def branch(m: Maker) -> None:
    x = m.real()
    flag = m.any(lambda a: a.dtype == bool and a.size == 1 and a.ndim < 2)
    m.do("If", flag, outs=2, then_branch=body(m, x, "yes"), else_branch=body(m, x, "no"))


def flag(m: Maker) -> None:
    total = m.do("ReduceMax", m.real(), keepdims=0)
    m.do("Greater", total, m.const(m.pick((0.0, 1.0))))


def scan(m: Maker) -> None:
    """A running sum over the first axis, which Scan and Loop can say."""
    if m.opset < 9:
        raise NotThisError
    x = m.real(2, 3)
    inner = m.shape(x)[1:]
    start = m.const(np.zeros(inner))
    k = len(m.arrays)
    s, e, t, u = (f"scan_{c}_{k}" for c in "setu")
    info = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, inner)  # noqa: E731
    nodes = [
        helper.make_node(m.pick(("Add", "Max", "Sub")), [s, e], [t]),
        helper.make_node(m.pick(("Tanh", "Identity", "Neg")), [t], [u]),
    ]
    graph = helper.make_graph(nodes, "step", [info(s), info(e)], [info(t), info(u)])
    attrs = {"scan_input_directions": [1]} if m.odds(0.3) else {}
    m.do("Scan", start, x, outs=2, body=graph, num_scan_inputs=1, **attrs)


def loop(m: Maker) -> None:
    x = m.real()
    k, shape = len(m.arrays), m.shape(x)
    i, c, s, c2, t, u = (f"loop_{n}_{k}" for n in ("i", "c", "s", "d", "t", "u"))
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Cast", [i], [f"{i}f"], to=TensorProto.FLOAT),
        helper.make_node(m.pick(("Add", "Sub")), [s, f"{i}f"], [u]),
        helper.make_node(m.pick(("Tanh", "Sigmoid")), [u], [t]),
        helper.make_node("Identity", [c], [c2]),
    ]
    graph = helper.make_graph(
        nodes,
        "body",
        [
            info(i, TensorProto.INT64, ()),
            info(c, TensorProto.BOOL, ()),
            info(s, TensorProto.FLOAT, shape),
        ],
        [
            info(c2, TensorProto.BOOL, ()),
            info(t, TensorProto.FLOAT, shape),
            info(u, TensorProto.FLOAT, shape),
        ],
    )
    m.do("Loop", m.const(m.upto(1, 3), np.int64), m.const(True, np.bool_), x, outs=2, body=graph)


def resize(m: Maker) -> None:
    x = m.real(4)
    shape = m.shape(x)
    factors = (1.0, 1.0, m.pick((1.0, 2.0, 3.0)), m.pick((2.0, 3.0)))
    mode = m.pick(("nearest", "linear"))
    if m.opset < 10:
        if m.opset == 9:
            m.do("Upsample", x, m.const(factors), mode=mode)
        else:
            m.do("Upsample", x, mode=mode, scales=factors)
    elif m.opset == 10:
        m.do("Resize", x, m.const(factors), mode=mode)
    else:
        sizes = [*shape[:2], m.upto(1, 2 * shape[2] + 1), m.upto(1, 2 * shape[3] + 1)]
        how = m.pick(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
        roi = m.const(np.zeros(0)) if m.opset < 13 else ""
        if m.odds(0.5):
            m.do("Resize", x, roi, m.const(factors), mode=mode, coordinate_transformation_mode=how)
        else:
            none = m.const(np.zeros(0)) if m.opset < 13 else ""
            m.do(
                "Resize",
                x,
                roi,
                none,
                m.ints(*sizes),
                mode=mode,
                coordinate_transformation_mode=how,
            )


def sampling(m: Maker) -> None:
    x = m.real(4)
    n, channels, height, width = m.shape(x)
    kind = m.pick(
        (
            "GridSample",
            "RoiAlign",
            "DepthToSpace",
            "SpaceToDepth",
            "CenterCropPad",
            "ReverseSequence",
        )
    )
    if kind == "GridSample":
        grid = m.const(m.rng.uniform(-1.2, 1.2, size=(n, m.upto(1, 4), m.upto(1, 4), 2)))
        padding = m.pick(("zeros", "border", "reflection"))
        mode = m.pick(("linear", "nearest") if m.opset >= 20 else ("bilinear", "nearest"))
        m.do(kind, x, grid, padding_mode=padding, align_corners=m.upto(0, 1), mode=mode)
    elif kind == "RoiAlign":
        rois = m.const([[0.5, 0.25, width * 0.8, height * 0.9]])
        m.do(kind, x, rois, m.ints(0), output_height=2, output_width=3, sampling_ratio=2)
    elif kind == "DepthToSpace":
        mode = m.pick((None, "CRD")) if m.opset >= 11 else None
        m.do(kind, x, blocksize=2, mode=mode)
    elif kind == "SpaceToDepth":
        m.do(kind, x, blocksize=m.pick((2, 3)))
    elif kind == "CenterCropPad":
        m.do(kind, x, m.ints(m.upto(1, height + 2)), axes=[2])
    else:
        lengths = m.const(m.rng.integers(1, channels + 1, size=n), np.int64)
        m.do(kind, x, lengths, batch_axis=0, time_axis=1)


def classical(m: Maker) -> None:
    x = m.real(2)
    n = m.shape(x)[1]
    kind = m.pick(("Scaler", "Normalizer", "LinearRegressor", "Binarizer", "TreeEnsembleRegressor"))
    if kind == "Scaler":
        offset, scale = (m.rng.normal(size=n).tolist() for _ in range(2))
        m.do(kind, x, domain=ML, offset=offset, scale=scale)
    elif kind == "Normalizer":
        m.do(kind, x, domain=ML, norm=m.pick(("MAX", "L1", "L2")))
    elif kind == "LinearRegressor":
        count = m.upto(1, 3)
        numbers = m.rng.normal(size=n * count).tolist()
        m.do(kind, x, domain=ML, coefficients=numbers, intercepts=[0.5] * count, targets=count)
    elif kind == "Binarizer":
        m.do(kind, x, domain=ML, threshold=0.25)
    else:
        modes = ["BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF"]
        at = [m.upto(0, n - 1), 0, m.upto(0, n - 1), 0, 0]
        m.do(
            *(kind, x),
            domain=ML,
            n_targets=1,
            nodes_modes=modes,
            nodes_treeids=[0] * 5,
            nodes_nodeids=[*range(5)],
            nodes_featureids=at,
            nodes_values=[0.1, 0.0, -0.3, 0.0, 0.0],
            nodes_truenodeids=[1, 0, 3, 0, 0],
            nodes_falsenodeids=[2, 0, 4, 0, 0],
            target_treeids=[0] * 3,
            target_nodeids=[1, 3, 4],
            target_ids=[0] * 3,
            target_weights=[0.5, -1.0, 2.0],
        )


def fused(m: Maker) -> None:
    """Of onnxruntime's own domain."""
    x = m.real(2, 3)
    n = m.shape(x)[-1]
    kind = m.pick(("FusedMatMul", "BiasGelu", "FastGelu", "QuickGelu", "SkipLayerNormalization"))
    if kind == "FusedMatMul":
        m.do(kind, x, m.weights(n, m.upto(1, 5)), domain=MS, alpha=0.5)
    elif kind == "BiasGelu":
        m.do(kind, x, m.weights(n), domain=MS)
    elif kind == "SkipLayerNormalization":
        x = m.real(3)
        n = m.shape(x)[-1]
        m.do(kind, x, x, m.weights(n), m.weights(n), domain=MS)
    else:
        m.do(kind, x, domain=MS)


def dynamic(m: Maker) -> None:
    """Extents that are known only at run time."""
    if m.opset < 11:
        raise NotThisError
    x = m.real(1, 2)
    kind = m.pick(("NonZero", "Compress", "Unique"))
    if kind == "NonZero":
        m.do(kind, m.do("Greater", x, m.const(0.0)))
    elif kind == "Compress":
        m.do(kind, x, m.do("Greater", m.do("Reshape", x, m.ints(-1)), m.const(0.0)))
    else:
        m.do(kind, m.do("Round", x), sorted=1)


DEEP = (
    *(conv, conv, conv, activated, conv_transpose, pool, pool, global_pool, product, product),
    *(dense, einsum, norm, norm, norm, recurrent, qdq, qdq, qdq, q_operators, q_operators),
    *(flag, branch, branch, scan, loop, resize, resize, sampling, classical, fused),
)
DYNAMIC = (dynamic,)
