"""One small model per kernel family, for golden files and for every compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from builders import Net

from mlftool.targets import TARGETS


def weights(*shape: int) -> np.ndarray[Any, Any]:
    """Small fixed integers of both signs."""
    return np.arange(int(np.prod(shape))).reshape(shape) * 7 % 11 - 5


def lowered(w: np.ndarray[Any, Any], least: int) -> np.ndarray[Any, Any]:
    """Negative weights replaced by `least`, unless it is what they have anyway."""
    return w if least == -5 else np.where(w < 0, least, w)


def thinned(w: np.ndarray[Any, Any], every: int) -> np.ndarray[Any, Any]:
    """Of so many weights one; the others are zero."""
    return np.where(np.arange(w.size).reshape(w.shape) % every, 0, w)


def conv_f32() -> onnx.ModelProto:
    net = Net()
    x = net.input("image", np.float32, (1, 2, 5, 4))
    w, b = net.const(weights(3, 2, 3, 3) / 8, np.float32), net.const([0.5, -0.25, 1], np.float32)
    return net.model(net.node("Relu", net.node("Conv", x, w, b, pads=[1] * 4)))


def quantised_conv(
    group: int,
    size: int = 3,
    last: str = "Relu",
    least: int = -5,
    stride: int = 1,
    row: Any = np.int8,
    every: int = 1,
    oc: int = 4,
    ic: int = 4,
) -> onnx.ModelProto:
    net = Net()
    scales = np.resize([0.01, 0.02, 0.03, 0.04], oc)
    x = net.dq(net.input("image", row, (1, ic, 6, 5)), 0.05, row(-3))
    w = thinned(lowered(weights(oc, ic // group, size, size), least), every)
    w = net.dq(net.const(w, np.int8), scales, np.zeros(oc, np.int8), 0)
    b = net.const(np.resize([10, -20, 30, -40], oc), np.int32)
    b = net.dq(b, np.float32(scales) * np.float32(0.05), np.zeros(oc, np.int32), 0)
    window = {"pads": [size // 2] * 4, "strides": [stride] * 2}
    y = net.node(last, net.node("Conv", x, w, b, group=group, **window))
    return net.model(net.q(y, 0.04, row(-128)))


def line_s8() -> onnx.ModelProto:
    """A depthwise convolution along one axis."""
    net = Net()
    x = net.dq(net.input("samples", np.int8, (1, 4, 20)), 0.05, np.int8(-3))
    w = net.dq(net.const(weights(4, 1, 6), np.int8), np.float32(0.02), np.int8(0))
    return net.model(net.q(net.node("Conv", x, w, group=4), 0.04, np.int8(7)))


def gemm_s8(
    least: int = -5, row: Any = np.int8, ic: int = 8, every: int = 1, oc: int = 5
) -> onnx.ModelProto:
    net = Net()
    x = net.dq(net.input("features", row, (1, ic)), 0.05, row(4))
    w = thinned(lowered(weights(ic, oc), least), every)
    w = net.dq(net.const(w, np.int8), 0.02, np.int8(0))
    return net.model(net.q(net.node("MatMul", x, w), 0.1, row(1)))


def products_s8() -> onnx.ModelProto:
    net = Net()
    a = net.dq(net.input("a", np.int8, (2, 3, 6)), 0.05, np.int8(4))
    b = net.dq(net.input("b", np.int8, (2, 6, 5)), 0.04, np.int8(-3))
    return net.model(net.q(net.node("MatMul", a, b), 0.1, np.int8(1)))


def gate_s8() -> onnx.ModelProto:
    """A product of two tensors of bytes, one of which is repeated."""
    net = Net()
    a = net.dq(net.input("a", np.int8, (3, 10)), 0.02793813, np.int8(-128))
    b = net.dq(net.input("b", np.int8, (1, 10)), 0.0026968282, np.int8(-128))
    return net.model(net.q(net.node("Mul", a, b), 0.010455706, np.int8(-128)))


def standardised_s8() -> onnx.ModelProto:
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 8)), 0.05, np.int8(4))
    scale = net.const(weights(8) / 4, np.float32)
    return net.model(net.q(net.node("LayerNormalization", x, scale), 0.02, np.int8(1)))


def gemm_f32() -> onnx.ModelProto:
    net = Net()
    x = net.input("features", np.float32, (3, 6))
    return net.model(net.node("Gemm", x, net.const(weights(6, 5) / 4, np.float32)))


def pool_s8(channels: int = 2, pad: int = 1) -> onnx.ModelProto:
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, channels, 5, 5)), 0.05, np.int8(3))
    y = net.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[pad] * 4)
    return net.model(net.q(y, 0.05, np.int8(3)))


def max_pool() -> onnx.ModelProto:
    net = Net()
    x = net.input("x", np.float32, (1, 2, 6, 6))
    return net.model(net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))


def softmax(lines: int = 1, scale: float = 0.1) -> onnx.ModelProto:
    net = Net()
    x = net.dq(net.input("x", np.int8, (lines, 7)), scale, np.int8(2))
    return net.model(net.q(net.node("Softmax", x), 1 / 256, np.int8(-128)))


def residual() -> onnx.ModelProto:
    """An elementwise group: Q(Relu(DQ(a) + DQ(b)))."""
    net = Net()
    a = net.dq(net.input("a", np.int8, (2, 5)), 0.05, np.int8(3))
    b = net.dq(net.input("b", np.int8, (5,)), 0.07, np.int8(-4))
    return net.model(net.q(net.node("Relu", net.node("Add", a, b)), 0.09, np.int8(-128)))


def table() -> onnx.ModelProto:
    net = Net()
    x = net.dq(net.input("x", np.int8, (9,)), 0.05, np.int8(0))
    return net.model(net.q(net.node("Sigmoid", x), 1 / 256, np.int8(-128)))


def movement() -> onnx.ModelProto:
    net = Net()
    x = net.node("Transpose", net.input("x", np.int16, (2, 3, 4)), perm=[0, 2, 1])
    return net.model(net.node("Concat", x, net.input("y", np.int16, (2, 1, 3)), axis=1))


def conv_3d() -> onnx.ModelProto:
    net = Net()
    x = net.input("volume", np.float32, (1, 2, 4, 4, 4))
    return net.model(net.node("Conv", x, net.const(weights(2, 1, 2, 2, 2), np.float32), group=2))


# Has no feature that a specialised kernel asks for, so its kernels are the portable ones.
PORTABLE = "cortex-m3"

# name -> (target, model)
FAMILIES: dict[str, tuple[str, Callable[[], onnx.ModelProto]]] = {
    "contract_f32": (PORTABLE, conv_f32),
    "simd_f32": ("host", conv_f32),
    "simd_s8": ("host", lambda: quantised_conv(1)),
    "simd_depthwise": ("host", lambda: quantised_conv(4)),
    "contract_s8": (PORTABLE, lambda: quantised_conv(1)),
    "contract_any": (PORTABLE, conv_3d),
    "depthwise_s8": (PORTABLE, lambda: quantised_conv(4)),
    "dsp_pairs": ("cortex-m4", lambda: quantised_conv(1, stride=3)),
    "dsp_rows": ("cortex-m4", lambda: quantised_conv(1)),
    "dsp_triples": ("cortex-m4", lambda: quantised_conv(1, size=1)),
    "dsp_dense": ("cortex-m4", gemm_s8),
    "dsp_planes": ("cortex-m4", lambda: quantised_conv(4)),
    "dsp_wide": ("cortex-m4", lambda: quantised_conv(1, row=np.int16)),
    "dsp_wide_dense": ("cortex-m4", lambda: gemm_s8(row=np.int16)),
    "dsp_wide_planes": ("cortex-m4", lambda: quantised_conv(4, row=np.int16)),
    "helium_wide": ("cortex-m55", lambda: quantised_conv(1, row=np.int16)),
    "integers_wide": (PORTABLE, lambda: quantised_conv(1, row=np.int16)),
    "helium_quads": ("cortex-m55", lambda: quantised_conv(1)),
    "helium_strips": ("cortex-m55", lambda: quantised_conv(1, oc=2, ic=32)),
    "helium_lines": ("cortex-m55", line_s8),
    "helium_softmax": ("cortex-m55", lambda: softmax(9, 4.0)),
    "helium_octets": ("cortex-m55", lambda: quantised_conv(8, stride=2, oc=8, ic=8)),
    "helium_patches": ("cortex-m55", lambda: quantised_conv(4)),
    "helium_row": ("cortex-m55", lambda: gemm_s8(ic=64, oc=16)),
    "helium_products": ("cortex-m55", products_s8),
    "helium_standardise": ("cortex-m55", standardised_s8),
    "helium_wide_octets": ("cortex-m55", lambda: quantised_conv(8, oc=8, ic=8, row=np.int16)),
    "turned_products": ("cortex-m0", products_s8),
    "dsp_gates": ("cortex-m4", gate_s8),
    "helium_average": ("cortex-m55", lambda: pool_s8(8, pad=0)),
    "narrow": ("cortex-m0", gemm_s8),
    "narrow_pairs": ("cortex-m0", lambda: quantised_conv(1)),
    "narrow_words": ("cortex-m0", lambda: gemm_s8(ic=64, oc=16)),
    "narrow_planes": ("cortex-m0", lambda: quantised_conv(4)),
    "tiles": ("rv32imc", lambda: quantised_conv(1)),
    "tiles_rows": ("rv32imc", lambda: quantised_conv(4)),
    "dsp_two_by_two": ("cortex-m4", lambda: quantised_conv(1, least=-128)),
    "dsp_rows_of_four": ("cortex-m4", lambda: gemm_s8(least=-128)),
    "sparse": (PORTABLE, lambda: quantised_conv(1, every=9)),
    "sparse_pairs": ("cortex-m4", lambda: quantised_conv(1, every=9, oc=16)),
    "sparse_words": ("cortex-m4", lambda: gemm_s8(ic=64, every=8)),
    "gemm_f32": (PORTABLE, gemm_f32),
    "vfp_f32": ("cortex-m4", conv_f32),
    "window_average_s8": (PORTABLE, pool_s8),
    "window_max_f32": (PORTABLE, max_pool),
    "softmax_s8": (PORTABLE, softmax),
    "elementwise_s8": (PORTABLE, residual),
    "table_s8": (PORTABLE, table),
    "movement_s16": (PORTABLE, movement),
}
assert all(target in TARGETS for target, _ in FAMILIES.values())
