"""Ten networks unlike MLPerf's, of the sizes that devices run, with random weights: so that kernels
are general. benchmarks/ measures them, tests check them against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx
from builders import Layers, random_feeds
from onnx import helper
from onnxruntime.quantization import QuantFormat
from quantiser import quantised, without_floats


def mlp() -> onnx.ModelProto:
    """Readings of 64 sensors to ten classes."""
    n = Layers()
    x = n.input("readings", np.float32, (1, 64))
    for ic, oc in ((64, 96), (96, 48)):
        x = n.node("Relu", n.dense(x, ic, oc))
    return n.model(n.node("Softmax", n.dense(x, 48, 10)))


def cnn_1d() -> onnx.ModelProto:
    """Vibration in three axes, 128 steps."""
    n = Layers()
    x = n.input("signal", np.float32, (1, 3, 128))
    for ic, oc, k in ((3, 16, 7), (16, 32, 5), (32, 48, 3)):
        x = n.node("Relu", n.conv(x, ic, oc, k))
        x = n.node("MaxPool", x, kernel_shape=[2], strides=[2])
    x = n.node("Flatten", n.node("GlobalAveragePool", x))
    return n.model(n.dense(x, 48, 6))


def tcn() -> onnx.ModelProto:
    """Dilated causal convolutions with residuals: one step's past is 61 steps."""
    n = Layers()
    x = n.node("Relu", n.conv(n.input("steps", np.float32, (1, 8, 64)), 8, 24, 1))
    for dilation in (1, 2, 4, 8):
        y = n.node("Relu", n.conv(x, 24, 24, 3, dilations=[dilation], pads=[2 * dilation, 0]))
        y = n.conv(y, 24, 24, 3, dilations=[dilation], pads=[2 * dilation, 0])
        x = n.node("Relu", n.node("Add", x, y))
    return n.model(n.conv(x, 24, 4, 1))


def lstm() -> onnx.ModelProto:
    return recurrent("LSTM", 4, "forward", 50, 10, 32)


def gru() -> onnx.ModelProto:
    return recurrent("GRU", 3, "bidirectional", 49, 20, 24)


def recurrent(
    kind: str, gates: int, way: str, steps: int, width: int, units: int
) -> onnx.ModelProto:
    n, ways = Layers(), 2 if way == "bidirectional" else 1
    x = n.node("Transpose", n.input("steps", np.float32, (1, steps, width)), perm=[1, 0, 2])
    w = n.weights(ways, gates * units, width, fan=width)
    r = n.weights(ways, gates * units, units, fan=units)
    bias = n.weights(ways, 2 * gates * units, fan=50)
    y = n.node(kind, x, w, r, bias, hidden_size=units, direction=way)
    last = n.node("Gather", y, n.const(-1, np.int64), axis=0)
    return n.model(n.dense(n.shaped(last, 1, ways * units), ways * units, 6))


def transformer() -> onnx.ModelProto:
    """An encoder block: 32 tokens of 48 numbers, four heads, GELU."""
    n, time, width, heads = Layers(), 32, 48, 4
    x = n.input("tokens", np.float32, (1, time, width))
    split = (1, time, heads, width // heads)
    q, k, v = (
        n.node("Transpose", n.shaped(n.dense(x, width, width), *split), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scores = n.node("Mul", n.node("MatMul", q, k), n.const(heads**0.5 / width**0.5, np.float32))
    mixed = n.node("MatMul", n.node("Softmax", scores, axis=-1), v)
    mixed = n.shaped(n.node("Transpose", mixed, perm=[0, 2, 1, 3]), 1, time, width)
    x = n.normal(n.node("Add", x, n.dense(mixed, width, width)), width)
    inner = n.dense(x, width, 4 * width)
    gate = n.node("Erf", n.node("Mul", inner, n.const(0.5**0.5, np.float32)))
    gate = n.node("Add", gate, n.const(1.0, np.float32))
    inner = n.node("Mul", n.node("Mul", inner, gate), n.const(0.5, np.float32))
    return n.model(n.normal(n.node("Add", x, n.dense(inner, 4 * width, width)), width))


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2 with 0.35 of its channels, 96 x 96 pixels, ten classes."""
    n = Layers()

    def clipped(x: str) -> str:
        return n.node("Clip", x, n.const(0.0, np.float32), n.const(6.0, np.float32))

    image = n.input("image", np.float32, (1, 3, 96, 96))
    x, ic = clipped(n.conv(image, 3, 16, 3, 3, strides=[2, 2])), 16
    stages = ((1, 8, 1, 1), (6, 8, 2, 2), (6, 16, 3, 2), (6, 24, 4, 2), (6, 32, 3, 1))
    for expand, oc, repeats, first in (*stages, (6, 56, 3, 2), (6, 112, 1, 1)):
        for stride in (first, *[1] * (repeats - 1)):
            wide = expand * ic
            y = clipped(n.conv(x, ic, wide, 1, 1)) if expand > 1 else x
            y = clipped(n.conv(y, wide, wide, 3, 3, group=wide, strides=[stride] * 2))
            y = n.conv(y, wide, oc, 1, 1)
            x, ic = n.node("Add", x, y) if stride == 1 and ic == oc else y, oc
    x = n.node("GlobalAveragePool", clipped(n.conv(x, ic, 1280, 1, 1)))
    return n.model(n.dense(n.node("Flatten", x), 1280, 10))


def yolo_head() -> onnx.ModelProto:
    """Convolutions with x * sigmoid(x), pools joined, and boxes from a grid: x, y, w, h, scores."""
    n, side = Layers(), 8

    def block(x: str, ic: int, oc: int, *kernel: int, **attrs: object) -> str:
        y = n.conv(x, ic, oc, *kernel, **attrs)
        return n.node("Mul", y, n.node("Sigmoid", y))

    x = n.input("image", np.float32, (1, 3, 64, 64))
    for ic, oc in ((3, 8), (8, 16), (16, 32)):
        x = block(x, ic, oc, 3, 3, strides=[2, 2])
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pooled = n.node("MaxPool", x, **same)
    joined = n.node("Concat", x, pooled, n.node("MaxPool", pooled, **same), axis=1)
    y = n.conv(block(joined, 96, 32, 1, 1), 32, 9, 1, 1)
    y = n.node("Sigmoid", n.node("Transpose", n.shaped(y, 1, 9, side * side), perm=[0, 2, 1]))
    xy, wh, scores = n.parts("Split", 3, y, n.const([2, 2, 5], np.int64), axis=2)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(1, -1, 2)
    xy = n.node("Add", xy, n.const(grid, np.float32))
    xy = n.node("Mul", xy, n.const(1 / side, np.float32))
    wh = n.node("Mul", n.node("Mul", wh, wh), n.const([[[1.5, 2.5]]], np.float32))
    return n.model(n.node("Concat", xy, wh, scores, axis=2))


def autoencoder() -> onnx.ModelProto:
    """A picture of 32 x 32 to 8 x 8 x 8 and back."""
    n = Layers()
    x = n.input("image", np.float32, (1, 1, 32, 32))
    for ic, oc in ((1, 16), (16, 8)):
        x = n.node("Relu", n.conv(x, ic, oc, 3, 3, strides=[2, 2]))
    for ic, oc in ((8, 16), (16, 1)):
        w, b = n.weights(ic, oc, 2, 2), n.weights(oc, fan=50)
        x = n.node("ConvTranspose", x, w, b, strides=[2, 2])
        x = n.node("Relu" if oc > 1 else "Sigmoid", x)
    return n.model(x)


def trees() -> onnx.ModelProto:
    """An ensemble of 30 trees of depth 6 on 16 features, four classes."""
    rng, table = np.random.default_rng(7), Trees()
    for index in range(30):
        table.grow(rng, index, 6)
    infos = [helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, (1, 16))]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("label", "scores")]
    node = helper.make_node(
        *("TreeEnsembleClassifier", ["features"], ["label", "scores"]),
        domain="ai.onnx.ml",
        classlabels_int64s=[0, 1, 2, 3],
        post_transform="SOFTMAX",
        **{f"nodes_{key}": value for key, value in table.nodes.items()},
        **{f"class_{key}": value for key, value in table.leaves.items()},
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "trees", infos, outputs)
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


class Trees:
    """The columns of TreeEnsembleClassifier, a node a row."""

    def __init__(self) -> None:
        columns = ("treeids", "nodeids", "featureids", "values", "modes")
        self.nodes: dict[str, list[object]] = {
            key: [] for key in (*columns, "truenodeids", "falsenodeids")
        }
        self.leaves: dict[str, list[object]] = {
            key: [] for key in ("treeids", "nodeids", "ids", "weights")
        }

    def grow(self, rng: np.random.Generator, tree: int, depth: int) -> None:
        """A full tree, its nodes numbered as in a heap: the children of k are 2k + 1 and 2k + 2."""
        inner = 2**depth - 1
        for k in range(2 * inner + 1):
            split = k < inner
            row = (tree, k, int(rng.integers(16)) if split else 0)
            row += (float(rng.normal()) if split else 0.0, "BRANCH_LEQ" if split else "LEAF")
            row += (2 * k + 1, 2 * k + 2) if split else (0, 0)
            for key, value in zip(self.nodes, row, strict=True):
                self.nodes[key].append(value)
            if not split:
                leaf = (tree, k, int(rng.integers(4)), float(rng.normal()))
                for key, value in zip(self.leaves, leaf, strict=True):
                    self.leaves[key].append(value)


OTHERS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mlp": mlp,
    "cnn_1d": cnn_1d,
    "tcn": tcn,
    "lstm": lstm,
    "gru": gru,
    "transformer": transformer,
    "mobilenet_v2": mobilenet_v2,
    "yolo_head": yolo_head,
    "autoencoder": autoencoder,
    "trees": trees,
}
# The quantiser leaves recurrent cells and trees as they are.
INTEGERS = tuple(name for name in OTHERS if name not in ("lstm", "gru", "trees"))


@cache
def other_networks() -> dict[str, onnx.ModelProto]:
    """name_fp32 and, where the quantiser makes integers of it, name_int8 with int8 at its ends."""
    models = {}
    for name, build in OTHERS.items():
        models[f"{name}_fp32"] = build()
        if name in INTEGERS:
            integers = quantised(models[f"{name}_fp32"], QuantFormat.QDQ, per_channel=True)
            models[f"{name}_int8"] = without_floats(integers)
    return models


def feeds_of(model: onnx.ModelProto, samples: int = 2) -> list[dict[str, np.ndarray]]:
    return random_feeds(model, 5, samples)
