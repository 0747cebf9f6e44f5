"""Rules for operators with weights or windows, and for quantised operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlftool.codegen.relay.operators import Rule
from mlftool.codegen.relay.writer import Site

_LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}
_STORED = ("int8", "uint8", "int16", "uint16", "int32")  # what qnn quantises to


def _window(s: Site) -> dict[str, list[int]]:
    n = s.rank - 2
    return {
        "strides": list(s.attr("strides", [1] * n)),
        "padding": list(s.attr("pads", [0] * 2 * n)),
        "dilation": list(s.attr("dilations", [1] * n)),
    }


def _conv(s: Site) -> str | None:
    n = s.rank - 2
    if n not in _LAYOUTS:
        return None
    weights = s.type(1).shape
    data_layout, kernel_layout = _LAYOUTS[n]
    y = s.call(
        f"nn.conv{n}d",
        s.arg(0),
        s.arg(1),
        **_window(s),
        groups=s.attr("group", 1),
        channels=weights[0],
        kernel_size=list(weights[2:]),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
    )
    return s.call("nn.bias_add", y, s.arg(2)) if s.has(2) else y


def _pool(kind: str) -> Rule:
    def rule(s: Site) -> str | None:
        n, size, window = s.rank - 2, list(s.attr("kernel_shape", ())), _window(s)
        if n not in _LAYOUTS or len(s.node.outputs) > 1:
            return None
        whole = size == list(s.type().shape[2:]) and not any(window["padding"])
        if n == 2 and whole and window["dilation"] == [1, 1]:
            return s.call(f"nn.global_{kind}_pool2d", s.arg())
        ceil = next((c for c in (False, True) if _extents(s, size, c) == s.out.shape[2:]), None)
        if ceil is None:
            return None
        include = bool(s.attr("count_include_pad", 0)) if kind == "avg" else None
        layout = _LAYOUTS[n][0]
        return s.call(
            f"nn.{kind}_pool{n}d",
            s.arg(),
            pool_size=size,
            **window,
            layout=layout,
            ceil_mode=ceil,
            count_include_pad=include,
        )

    return rule


def _extents(s: Site, size: Sequence[int], ceil: bool) -> tuple[int, ...]:
    window, n = _window(s), len(size)
    result = []
    for k, extent in enumerate(s.type().shape[2:]):
        stride, pads = window["strides"][k], window["padding"]
        rest = extent + pads[k] + pads[k + n] - window["dilation"][k] * (size[k] - 1) - 1
        result.append((-(-rest // stride) if ceil else rest // stride) + 1)
    return tuple(result)


def _batch_norm(s: Site) -> str | None:
    if len(s.node.outputs) > 1:
        return None
    y = s.call("nn.batch_norm", *s.args(), epsilon=float(s.attr("epsilon", 1e-5)))
    return f"{y}.0"


def _instance_norm(s: Site) -> str:
    return s.call("nn.instance_norm", *s.args(), epsilon=float(s.attr("epsilon", 1e-5)))


def _layer_norm(s: Site) -> str | None:
    if s.axis(-1) != s.rank - 1 or not s.has(2) or len(s.node.outputs) > 1:
        return None
    return s.call(
        "nn.layer_norm", *s.args(), axis=s.rank - 1, epsilon=float(s.attr("epsilon", 1e-5))
    )


def _lrn(s: Site) -> str:
    size = s.attr("size", 1)
    return s.call(
        "nn.lrn",
        s.arg(),
        size=size,
        axis=1,
        bias=float(s.attr("bias", 1.0)),
        alpha=float(s.attr("alpha", 1e-4)),
        beta=float(s.attr("beta", 0.75)),
    )


def _dense(s: Site, x: str, w: str, units: int, transposed: bool) -> str:
    """x times w, which nn.dense wants with a row for each unit."""
    if not transposed:
        w = s.call("transpose", w, axes=[1, 0])
    return s.call("nn.dense", x, w, units=units)


def _gemm(s: Site) -> str:
    x = s.arg(0)
    if s.attr("transA", 0):
        x = s.call("transpose", x, axes=[1, 0])
    y = _dense(s, x, s.arg(1), s.out.shape[1], bool(s.attr("transB", 0)))
    alpha, beta = s.attr("alpha", 1.0), s.attr("beta", 1.0)
    if alpha != 1:
        y = s.call("multiply", y, s.literal(alpha))
    if not s.has(2):
        return y
    c = s.arg(2)
    return s.call("add", y, s.call("multiply", c, s.literal(beta)) if beta != 1 else c)


def _matmul(s: Site) -> str | None:
    a, b = s.type(0).shape, s.type(1).shape
    if len(a) == 2 and len(b) == 2:
        return _dense(s, s.arg(0), s.arg(1), b[1], False)
    if len(a) < 2 or len(b) < 2:
        return None
    if len(b) == 2:  # every row of a, whatever its other axes
        rows = s.type(0).elements // max(a[-1], 1)
        flat = s.call("reshape", s.arg(0), newshape=[rows, a[-1]])
        return s.call("reshape", _dense(s, flat, s.arg(1), b[1], False), newshape=list(s.out.shape))
    if a[:-2] != b[:-2]:
        return None
    batch = s.type(0).elements // max(a[-1] * a[-2], 1)
    x, y = s.arg(0), s.arg(1)
    if len(a) > 3:
        x = s.call("reshape", x, newshape=[batch, *a[-2:]])
        y = s.call("reshape", y, newshape=[batch, *b[-2:]])
    z = s.call("nn.batch_matmul", x, y, transpose_a=False, transpose_b=False)
    return s.call("reshape", z, newshape=list(s.out.shape)) if len(a) > 3 else z


def _zero_point(s: Site, index: int) -> str:
    if not s.has(index):
        return "0"
    axes = s.type(index).shape
    zero = s.arg(index) if len(axes) == 1 and axes[0] > 1 else s.single(index)
    return s.call("cast", zero, dtype="int32")


def _scale(s: Site, index: int) -> str:
    axes = s.type(index).shape
    return s.arg(index) if len(axes) == 1 and axes[0] > 1 else s.single(index)


def _quantise(s: Site) -> str | None:
    """Both ways; scales for blocks, and types that qnn has not, are left to the dialect."""
    to = s.node.op == "QuantizeLinear"
    stored, real = (s.out, s.type(0)) if to else (s.type(0), s.out)
    if str(stored.dtype) not in _STORED or str(real.dtype) != "float32":
        return None
    if len(s.type(1).shape) > 1 or str(s.type(1).dtype) != "float32":
        return None
    axis = s.axis(1) if s.type(1).elements > 1 else -1
    op = "qnn.quantize" if to else "qnn.dequantize"
    scale, zero = _scale(s, 1), _zero_point(s, 2)
    out = str(stored.dtype) if to else None
    return s.call(op, s.arg(0), scale, zero, axis=axis, out_dtype=out)


def _requantise(s: Site, sums: str, scales: tuple[int, int], to: tuple[int, int]) -> str:
    """int32 sums in units of two scales' product, stored as the output is."""
    scale = s.call("multiply", _scale(s, scales[0]), _scale(s, scales[1]))
    per_channel = s.type(scales[1]).elements > 1
    target, zero = s.single(to[0]), _zero_point(s, to[1])
    out = str(s.out.dtype)
    axis = 1 if per_channel else -1
    return s.call("qnn.requantize", sums, scale, "0", target, zero, axis=axis, out_dtype=out)


def _qlinear_conv(s: Site) -> str | None:
    if s.rank != 4 or str(s.type(1).dtype) != "float32":
        return None
    weights = s.type(3).shape
    y = s.call(
        "qnn.conv2d",
        *(s.arg(0), s.arg(3), _zero_point(s, 2), _zero_point(s, 5), _scale(s, 1), _scale(s, 4)),
        **_window(s),
        groups=s.attr("group", 1),
        channels=weights[0],
        kernel_size=list(weights[2:]),
        data_layout="NCHW",
        kernel_layout="OIHW",
        out_dtype="int32",
    )
    if s.has(8):
        y = s.call("nn.bias_add", y, s.arg(8))
    return _requantise(s, y, (1, 4), (6, 7))


def _qlinear_matmul(s: Site) -> str | None:
    a, b = s.type(0).shape, s.type(3).shape
    if len(a) != 2 or len(b) != 2 or s.type(4).elements > 1 or s.type(1).elements > 1:
        return None
    if str(s.type(1).dtype) != "float32":
        return None
    w = s.call("transpose", s.arg(3), axes=[1, 0])
    y = s.call(
        "qnn.dense",
        *(s.arg(0), w, _zero_point(s, 2), _zero_point(s, 5), _scale(s, 1), _scale(s, 4)),
        units=b[1],
        out_dtype="int32",
    )
    return _requantise(s, y, (1, 4), (6, 7))


LAYERS: Mapping[str, Rule] = {
    "Conv": _conv,
    "MaxPool": _pool("max"),
    "AveragePool": _pool("avg"),
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LRN": _lrn,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "QuantizeLinear": _quantise,
    "DequantizeLinear": _quantise,
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
}
