"""onnxruntime's own operators in terms of the standard's (expand.py): what its quantiser writes in
operator format, and what its optimiser fuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from mlftool.importer.expand import Expansion, Steps, expands


def _microsoft(*names: str) -> Callable[[Expansion], Expansion]:
    return expands(*(f"com.microsoft.{n}" for n in names))


@_microsoft("QLinearAdd", "QLinearMul")
def _quantised_binary(s: Steps) -> None:
    s.q(s(s.node.op_type.removeprefix("QLinear"), s.dq(0), s.dq(3)), 6)


@_microsoft("QLinearSigmoid", "QLinearLeakyRelu")
def _quantised_unary(s: Steps) -> None:
    s.q(s(s.node.op_type.removeprefix("QLinear"), s.dq(0), **s.attrs), 3)


@_microsoft("QLinearSoftmax")
def _quantised_softmax(s: Steps) -> None:
    """Before opset 13 all axes from `axis` on are one."""
    x, axis = s.types[0], s.attrs.get("axis", -1)
    assert x is not None
    value = s.dq(0)
    if s.attrs.get("opset", 13) < 13 and axis % len(x.shape) != len(x.shape) - 1:
        value = s("Softmax", s("Flatten", value, axis=axis), axis=-1)
        s.q(s("Reshape", value, s.const(x.shape, np.int64)), 3)
    else:
        s.q(s("Softmax", value, axis=axis), 3)


@_microsoft("QLinearConcat")
def _quantised_concat(s: Steps) -> None:
    parts = [s.dq(k) for k in range(2, len(s.node.input), 3)]
    s.q(s("Concat", *parts, axis=s.attrs["axis"]), 0)


@_microsoft("QLinearAveragePool", "QLinearGlobalAveragePool")
def _quantised_pool(s: Steps) -> None:
    """`channels_last` data are turned round and back."""
    x = s.types[0]
    assert x is not None
    last, rank = s.attrs.pop("channels_last", 0), len(x.shape)
    value = s.dq(0)
    if last:
        value = s("Transpose", value, perm=[0, rank - 1, *range(1, rank - 1)])
    value = s(s.node.op_type.removeprefix("QLinear"), value, **s.attrs)
    if last:
        value = s("Transpose", value, perm=[0, *range(2, rank), 1])
    s.q(value, 3)


@_microsoft("QLinearReduceMean")
def _quantised_mean(s: Steps) -> None:
    axes = s.attrs.get("axes")
    named = (s.const(axes, np.int64),) if axes else ()
    s.q(s("ReduceMean", s.dq(0), *named, keepdims=s.attrs.get("keepdims", 1)), 3)


@_microsoft("QLinearWhere")
def _quantised_where(s: Steps) -> None:
    s.q(s("Where", s.x(0), s.dq(1), s.dq(4)), 7)


@_microsoft("QGemm")
def _quantised_gemm(s: Steps) -> None:
    """The bias is in units of the products; the output is float if it has no scale."""
    a, b = s.dq(0), s.dq(3)
    bias: tuple[str, ...] = ()
    if s.x(6):
        bias = (s("DequantizeLinear", s.x(6), s("Mul", s.x(1), s.x(4)), axis=0),)
        if s.types[4] is not None and s.types[4].elements == 1:
            scale = s("Reshape", s("Mul", s.x(1), s.x(4)), s.const([], np.int64))
            bias = (s("DequantizeLinear", s.x(6), scale),)
    if s.x(7):
        s.q(s("Gemm", a, b, *bias, **s.attrs), 7)
    else:
        s("Gemm", a, b, *bias, out=0, **s.attrs)


@_microsoft("MatMulIntegerToFloat")
def _matmul_to_float(s: Steps) -> None:
    _scaled_product(s, s.x(0), s.x(4), s("Mul", s.x(2), s.x(3)), s.x(5), s.x(6))


@_microsoft("DynamicQuantizeMatMul")
def _dynamic_matmul(s: Steps) -> None:
    made = s("DynamicQuantizeLinear", s.x(0))
    scale, zero = f"{made}.scale", f"{made}.zero"
    s.made[-1].output.extend([scale, zero])
    _scaled_product(s, made, zero, s("Mul", scale, s.x(2)), s.x(3), s.x(4))


def _scaled_product(s: Steps, a: str, a_zero: str, factor: str, b_zero: str, bias: str) -> None:
    total = s("MatMulInteger", a, s.x(1), a_zero, b_zero)
    wide = s("Cast", total, to=onnx.TensorProto.FLOAT)
    if bias:
        s("Add", s("Mul", wide, factor), bias, out=0)
    else:
        s("Mul", wide, factor, out=0)


@_microsoft("QuantizeLinear", "DequantizeLinear")
def _same_name(s: Steps) -> None:
    s(s.node.op_type, *s.node.input, out=0, **s.attrs)


@_microsoft("FusedMatMul")
def _fused_matmul(s: Steps) -> None:
    """transA and transB turn the last two axes, transBatchA and B the axes before the last."""
    sides = []
    for i, side in enumerate("AB"):
        type_, name = s.types[i], s.x(i)
        assert type_ is not None
        axes = list(range(len(type_.shape)))
        if s.attrs.get(f"transBatch{side}", 0):
            axes = [*axes[1:-1], axes[0], axes[-1]]
        if s.attrs.get(f"trans{side}", 0):
            axes[-2:] = axes[:-3:-1]
        sides.append(s("Transpose", name, perm=axes) if axes != sorted(axes) else name)
    alpha = s.attrs.get("alpha", 1.0)
    if alpha == 1.0:
        s("MatMul", *sides, out=0)
    else:
        s("Mul", s("MatMul", *sides), s.const(alpha, _numpy(s)), out=0)


def _numpy(s: Steps) -> Any:
    assert s.types[0] is not None
    return s.types[0].dtype.numpy


@_microsoft("FusedGemm", "FusedConv")
def _fused_activation(s: Steps) -> None:
    """A Gemm or Conv with an activation; a Conv may add its fourth input before that."""
    params = s.attrs.pop("activation_params", [])
    activation = s.attrs.pop("activation", "")
    for key in ("activation_alpha", "activation_beta", "activation_gamma"):  # FusedGemm's
        if key in s.attrs:
            params = [*params, s.attrs.pop(key)]
    inputs = [s.x(i) for i in range(3)]
    value = s(s.node.op_type.removeprefix("Fused"), *inputs, **s.attrs)
    if s.x(3):
        value = s("Add", value, s.x(3))
    if activation == "Clip":
        s("Clip", value, s.const(params[0]), s.const(params[1]), out=0)
    elif activation == "LeakyRelu":
        s("LeakyRelu", value, out=0, alpha=params[0] if params else 0.01)
    elif activation == "HardSigmoid":
        s("HardSigmoid", value, out=0, alpha=params[0], beta=params[1])
    else:
        s(activation or "Identity", value, out=0)


@_microsoft("Gelu", "FastGelu", "BiasGelu")
def _gelu(s: Steps) -> None:
    value = s("Add", s.x(0), s.x(1)) if s.x(1) else s.x(0)
    fast = s.node.op_type == "FastGelu"
    s("Gelu", value, out=0, approximate="tanh" if fast else "none")


@_microsoft("QuickGelu")
def _quick_gelu(s: Steps) -> None:
    s("Swish", s.x(0), out=0, alpha=s.attrs.get("alpha", 1.702))


@_microsoft("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def _skip_layer(s: Steps) -> None:
    """Normalisation of input + skip (+ bias); that sum may be the fourth output."""
    simple = "Simplified" in s.node.op_type
    bias = s.x(3 if simple else 4)
    total = s("Add", s.x(0), s.x(1), out=None if bias else 3 if s.wants(3) else None)
    if bias:
        total = s("Add", total, bias, out=3 if s.wants(3) else None)
    attrs = {"axis": -1, "epsilon": s.attrs.get("epsilon", 1e-12)}
    if simple:
        s("RMSNormalization", total, s.x(2), out=0, **attrs)
    else:
        beta = (s.x(3),) if s.x(3) else ()
        s("LayerNormalization", total, s.x(2), *beta, out=0, **attrs)


@expands("SimplifiedLayerNormalization")
def _simplified_layer(s: Steps) -> None:
    """onnxruntime writes this one into the standard's own domain."""
    attrs = {k: v for k, v in s.attrs.items() if k in ("axis", "epsilon")}
    s("RMSNormalization", s.x(0), s.x(1), out=0, **attrs)
