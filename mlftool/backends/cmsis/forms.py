"""The int8 operators of CMSIS-NN, and the nodes that are one of them.

Numbers are in TensorFlow Lite's fixed point, as CMSIS-NN has them: a multiplier of 31 bits, and a
shift that is positive to the left. A model that rounds so is computed to the bit; an ONNX model's
float factors become such numbers here, so its outputs may differ by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array, Graph, Node
from mlftool.ir.rounding import Rescaling, multiplier
from mlftool.ops.base import Trait, is_a

Factor = tuple[int, int]  # multiplier, shift to the left
Extents = tuple[int, int, int, int]  # NHWC
Pair = tuple[int, int]  # height, width
INT8 = (-128, 127)


class RefusedError(Exception):
    """Says why CMSIS-NN does not take a node."""


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RefusedError(otherwise)


@frozen
class Window:
    """Over height and width; `pads` are those before the first element."""

    kernel: Pair
    strides: Pair
    pads: Pair
    dilations: Pair


@frozen
class Sums:
    """A convolution, with `window`, or a fully connected layer. `weights` are [O, H, W, I], of a
    depthwise one [1, H, W, O], of a fully connected one [O, I]; `factors` are one, or one for each
    output channel."""

    x: Extents
    y: Extents
    weights: Array
    bias: Array
    factors: Sequence[Factor]
    input_zero: int
    output_zero: int
    activation: Pair
    window: Window | None = None
    multiplied: int = 0  # depthwise: outputs for each input channel


@frozen
class Pool:
    x: Extents
    y: Extents
    window: Window
    activation: Pair
    average: bool


@frozen
class Softmax:
    rows: int
    length: int
    factor: Factor


@frozen
class Binary:
    """A sum, whose operands have factors of their own after a shift to the left, or a product."""

    operands: tuple[str, str]
    elements: int
    zeros: tuple[int, int, int]  # operands, output
    factors: Sequence[Factor]  # of a sum: operands, output; of a product: output
    activation: Pair
    left: int = 0  # 0: a product


Form = Sums | Pool | Softmax | Binary
Found = tuple[tuple[Node, ...], Form]


@frozen
class Site:
    """A node in its graph."""

    graph: Graph
    node: Node

    def known(self, i: int) -> Array:
        """The constant input `i`."""
        value = self.graph.consts.get(self.node.inputs[i]) if i < len(self.node.inputs) else None
        if value is None:
            raise RefusedError("has an input that is computed where CMSIS-NN wants a constant")
        return value

    def scalar(self, i: int) -> float:
        value = self.known(i)
        expect(value.size == 1, "has several scales or zero points for one tensor")
        return float(value.reshape(-1)[0])

    def dtype(self, name: str) -> str:
        return self.graph.types[name].dtype.name

    def extents(self, name: str) -> Extents:
        shape = self.graph.types[name].shape
        expect(len(shape) == 4, f"has {len(shape)} axes; supported: 4")
        n, h, w, c = shape
        return n, h, w, c

    def int8(self, *names: str) -> None:
        kinds = sorted({self.dtype(n) for n in names} - {"int8"})
        expect(not kinds, f"has tensors of {', '.join(kinds)}; supported: int8")

    def producer(self, name: str) -> Node | None:
        return next((n for n in self.graph.nodes if name in n.outputs), None)

    def at(self, node: Node) -> Site:
        return Site(self.graph, node)

    def read(self, i: int, *kinds: str | Trait) -> Site | None:
        """Where input `i` is made, if an operator of these names or traits makes it."""
        node = self.producer(self.node.inputs[i]) if i < len(self.node.inputs) else None
        if node is None or not any(_is(node, kind) for kind in kinds):
            return None
        return self.at(node)


def _is(node: Node, kind: str | Trait) -> bool:
    return node.op == kind if isinstance(kind, str) else is_a(node, kind)


def factor(real: float) -> Factor:
    made = multiplier(real)
    expect(made[0] != 0, f"has the factor {real:.3g}, which is too small")
    return made


def _window(site: Site, node: Node) -> Window:
    kernel = [int(k) for k in node.attrs["kernel_shape"]]
    expect(len(kernel) == 2, f"has a window of {len(kernel)} axes; supported: 2")

    def pair(name: str, default: int) -> Pair:
        values = node.attrs.get(name) or (default,) * 4
        return int(values[0]), int(values[1])

    return Window((kernel[0], kernel[1]), pair("strides", 1), pair("pads", 0), pair("dilations", 1))


def _activation(node: Node) -> Pair:
    low, high = node.attrs.get("activation") or INT8
    return int(low), int(high)


def _zero_weights(s: Site) -> None:
    expect(not np.any(s.known(5)), "has weights with a zero point")


def _factors(s: Site, w_scale: Array, x_scale: float, y_scale: float) -> list[Factor]:
    scales = [float(w) for w in w_scale.reshape(-1)]
    return [factor(x_scale * w / y_scale) for w in scales]


def convolution(s: Site) -> Found:
    node = s.node
    expect(len(node.inputs) > 7 and bool(node.inputs[6]), "has no quantised output")
    s.int8(node.inputs[0], node.inputs[3], node.outputs[0])
    _zero_weights(s)
    x, y = s.extents(node.inputs[0]), s.extents(node.outputs[0])
    w, group = s.known(3), int(node.attrs.get("group", 1))
    depthwise = group == x[3] and w.shape[1] == 1
    expect(group == 1 or depthwise, f"has {group} groups; supported: 1, or depthwise")
    expect(x[0] == 1 or not depthwise, "is depthwise with a batch of several")
    bias = s.known(8) if len(node.inputs) > 8 and node.inputs[8] else np.zeros(y[3], np.int32)
    expect(bias.dtype == np.int32, f"has a bias of {bias.dtype}; supported: int32")
    factors = _factors(s, s.known(4), s.scalar(1), s.scalar(6))
    factors = factors * y[3] if len(factors) == 1 else factors
    axes = (1, 2, 3, 0) if depthwise and group > 1 else (0, 2, 3, 1)
    depthwise = depthwise and group > 1
    form = Sums(
        x,
        y,
        np.ascontiguousarray(w.transpose(axes)),
        np.broadcast_to(bias.reshape(-1), (y[3],)).astype(np.int32),
        factors,
        int(s.scalar(2)),
        int(s.scalar(7)),
        _activation(node),
        _window(s, node),
        y[3] // x[3] if depthwise else 0,
    )
    return (node,), form


def dense(s: Site) -> Found:
    node = s.node
    expect(len(node.inputs) > 8 and bool(node.inputs[7]), "has no quantised output")
    s.int8(node.inputs[0], node.inputs[3], node.outputs[0])
    expect(node.attrs.get("alpha", 1.0) == 1.0, "has a factor alpha")
    expect(not node.attrs.get("transA", 0), "has a transposed first operand")
    _zero_weights(s)
    w = s.known(3)
    w = w if node.attrs.get("transB", 0) else np.ascontiguousarray(w.T)
    outputs, depth = w.shape
    rows = s.graph.types[node.inputs[0]].elements // max(1, depth)
    bias = s.known(6) if node.inputs[6] else np.zeros(outputs, np.int32)
    expect(bias.dtype == np.int32, f"has a bias of {bias.dtype}; supported: int32")
    expect(bias.size in (1, outputs), "has a bias for each row")
    form = Sums(
        (rows, 1, 1, depth),
        (rows, 1, 1, outputs),
        w,
        np.broadcast_to(bias.reshape(-1), (outputs,)).astype(np.int32),
        _factors(s, s.known(4), s.scalar(1), s.scalar(7)),
        int(s.scalar(2)),
        int(s.scalar(8)),
        _activation(node),
    )
    return (node,), form


def _pool(s: Site, average: bool, activation: Pair, last: Node | None = None) -> Found:
    node = s.node
    s.int8(node.inputs[0], node.outputs[0])
    x, y = s.extents(node.inputs[0]), s.extents(node.outputs[0])
    window = _window(s, node)
    expect(x[0] == 1, f"has a batch of {x[0]}; supported: 1")
    expect(window.dilations == (1, 1), "has dilations; supported: 1")
    form = Pool(x, y, window, activation, average)
    return ((node, last) if last else (node,)), form


def fixed_average(s: Site) -> Found:
    return _pool(s, True, _activation(s.node))


def average(s: Site) -> Found:
    """ONNX's, whose input and output have one scale."""
    same = [s.scalar(1) == s.scalar(3), s.scalar(2) == s.scalar(4)]
    expect(all(same), "has an output of another scale than its input")
    padded = any(s.node.attrs.get("pads") or ())
    expect(not (padded and s.node.attrs.get("count_include_pad", 0)), "counts its padding")
    return _pool(s, True, INT8)


def largest(s: Site) -> Found:
    expect(len([o for o in s.node.outputs if o]) == 1, "gives indices")
    return _pool(s, False, INT8)


def clipped(s: Site) -> Found | str:
    """A pool that is cut at limits."""
    pool = s.read(0, "MaxPool")
    if pool is None:
        return ""
    low, high = int(s.scalar(1)), int(s.scalar(2))
    expect(len([o for o in pool.node.outputs if o]) == 1, "gives indices")
    return _pool(pool, False, (low, high), s.node)


def fixed_softmax(s: Site) -> Found | str:
    if "m" not in s.node.attrs:
        return ""
    return (s.node,), _softmax(s, s.node.inputs[0], (s.node.attrs["m"], s.node.attrs["left"]))


def _softmax(s: Site, name: str, by: Factor) -> Softmax:
    s.int8(name, s.node.outputs[0])
    t = s.graph.types[name]
    length = t.shape[-1] if t.shape else 1
    return Softmax(t.elements // max(1, length), length, by)


def quantised(s: Site) -> Found | str:
    """QuantizeLinear after floats that represent integers: a sum or a product."""
    cut = s.read(0, "Relu")
    inner = (cut or s).read(0, Trait.ADDITION, Trait.MULTIPLICATION)
    if inner is None or s.dtype(s.node.outputs[0]) != "int8":
        return ""
    operands = [inner.read(i, Trait.DEQUANTISER) for i in (0, 1)]
    if operands[0] is None or operands[1] is None:
        return ""
    a, b = operands[0], operands[1]
    form = _quantised_pair(s, inner, a, b, cut is not None)
    nodes = [a.node, b.node] if a.node is not b.node else [a.node]
    return (*nodes, inner.node, *([cut.node] if cut else []), s.node), form


def integer_softmax(s: Site) -> Found | str:
    rank = len(s.graph.types[s.node.outputs[0]].shape)
    axis = int(s.node.attrs.get("axis", -1))
    expect(axis % max(1, rank) == rank - 1, "is along another axis than the last")
    found = (s.scalar(3), int(s.scalar(4)))
    expect(found == (1 / 256, -128), f"has an output with scale and zero point {found}")
    real = min(s.scalar(1) * 2**26, 2.0**31 - 1)
    expect(real > 1, "has an input scale that is too small")
    return (s.node,), _softmax(s, s.node.inputs[0], multiplier(real))


def _quantised_pair(s: Site, inner: Site, a: Site, b: Site, cut: bool) -> Binary:
    names = (a.node.inputs[0], b.node.inputs[0])
    s.int8(*names, s.node.outputs[0])
    scales = [a.scalar(1), b.scalar(1), s.scalar(1)]
    zeros = (int(a.scalar(2)), int(b.scalar(2)), int(s.scalar(2)))
    elements = _elements(s, names)
    limits = (max(-128, zeros[2]), 127) if cut else INT8
    if is_a(inner.node, Trait.MULTIPLICATION):
        return Binary(names, elements, zeros, [factor(scales[0] * scales[1] / scales[2])], limits)
    top = 2 * max(scales[:2])
    reals = [scales[0] / top, scales[1] / top, top / (2**20 * scales[2])]
    expect(max(reals) < 1, "has scales so far apart that a factor is 1 or more")
    return Binary(names, elements, zeros, list(map(factor, reals)), limits, left=20)


def _elements(s: Site, names: Sequence[str]) -> int:
    """Of the output, and of both operands."""
    out = s.graph.types[s.node.outputs[0]]
    expect(all(n not in s.graph.consts for n in names), "has a constant operand")
    expect(all(s.graph.types[n].shape == out.shape for n in names), "has operands that broadcast")
    return out.elements


def rescaled(s: Site) -> Found | str:
    """TensorFlow Lite's sums: int32 between Rescales."""
    inner = s.read(0, Trait.ADDITION)
    if inner is None or s.dtype(s.node.outputs[0]) != "int8":
        return ""
    return _fixed_sum(s, inner)


def _end(s: Site) -> tuple[Factor, int, Pair]:
    """The factor, the zero point and the limits of a Rescale that stores."""
    how = Rescaling.of(s.node.attrs)
    expect(how.before == 0 and how.left == 0, "shifts its sum")
    return (how.m, how.exponent), how.after, (how.low, how.high)


def _fixed_sum(s: Site, inner: Site) -> Found | str:
    operands = [inner.read(i, "mlf.Rescale") for i in (0, 1)]
    if operands[0] is None or operands[1] is None:
        return ""
    a, b = operands[0].node, operands[1].node
    first, second = Rescaling.of(a.attrs), Rescaling.of(b.attrs)
    s.int8(a.inputs[0], b.inputs[0])
    expect(first.left == second.left > 0, "has operands that are not shifted alike")
    out, zero, limits = _end(s)
    factors = [(first.m, first.exponent), (second.m, second.exponent), out]
    zeros = (first.before, second.before, zero)
    names = (a.inputs[0], b.inputs[0])
    form = Binary(names, _elements(s, names), zeros, factors, limits, first.left)
    nodes = (a, b) if a is not b else (a,)
    return (*nodes, inner.node, s.node), form


def fixed_product(s: Site) -> Found | str:
    """TensorFlow Lite's products of bytes."""
    if s.dtype(s.node.outputs[0]) != "int8":
        return ""
    how, names = Rescaling.of(s.node.attrs), (s.node.inputs[0], s.node.inputs[1])
    s.int8(*names)
    zeros = (how.before, int(s.node.attrs["zero"]), how.after)
    factors, limits = [(how.m, how.exponent)], (how.low, how.high)
    return (s.node,), Binary(names, _elements(s, names), zeros, factors, limits)


RULES = {
    "QLinearConv": convolution,
    "com.microsoft.QGemm": dense,
    "com.microsoft.QLinearAveragePool": average,
    "mlf.AveragePoolFixed": fixed_average,
    "MaxPool": largest,
    "Clip": clipped,
    "mlf.QLinearSoftmax": integer_softmax,
    "mlf.SoftmaxFixed": fixed_softmax,
    "mlf.Rescale": rescaled,
    "mlf.MultiplyFixed": fixed_product,
}


def form_of(graph: Graph, node: Node) -> Found | str:
    """The nodes of which `node` is the last, and what they are; or why they are not taken."""
    rule = quantised if is_a(node, Trait.QUANTISER) else RULES.get(node.op)
    if rule is None:
        return ""
    if any(t.elements == 0 for t in (graph.types[n] for n in (*node.inputs, *node.outputs) if n)):
        return "has no elements"
    try:
        return rule(Site(graph, node))
    except RefusedError as error:
        return str(error)
