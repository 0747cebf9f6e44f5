"""The plan as an ONNX model: QuantizeLinear and DequantizeLinear around what is stored in integers.

    %q = QuantizeLinear(%x, scale, zero);  %d = DequantizeLinear(%q, scale, zero)

Weights are int8 constants, of four bits too (then in -7 ... 7, which mlftool packs), biases int32
in units of the accumulator. Tensors of 16 bits use the standard's operators from opset 21 on,
before that onnxruntime's of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from mlftool.ir.graph import Array
from mlftool.quantize.factors import note
from mlftool.quantize.network import Layer, Network, with_weights
from mlftool.quantize.plan import Plan, Precision, Resolved, Scale
from mlftool.quantize.prepare import inner_reads
from mlftool.quantize.recurrent import LIMITS
from mlftool.quantize.sink import sunk

MICROSOFT = "com.microsoft"
CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_SIXTEEN = 21  # the opset in which the standard's operators take 16 bits


def converted(tensor: str, op: str) -> str:
    """The name of the node that stores a tensor, or reads it again."""
    return f"{tensor}_{op}"


class _Writer:
    """Collects nodes and constants in order."""

    def __init__(self, net: Network, plan: Plan) -> None:
        self.net, self.resolved = net, Resolved(net, plan)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        sets = {o.domain: o.version for o in net.model.opset_import}
        self.opset = sets.get("", 0)

    def stored(self, name: str) -> None:
        """What reads tensor `name` gets it back from integers."""
        scale = self.resolved.scale(self.net.group[name])
        if scale is not None:
            self.pair(name, name, scale)

    def pair(self, x: str, base: str, scale: Scale) -> str:
        """Q and DQ; the name of what DQ gives."""
        constants = self.parameters(base, scale.scale, np.array(scale.zero, f"int{scale.bits}"))
        out = f"{base}_dequantized"
        domain = MICROSOFT if scale.bits == 16 and self.opset < _SIXTEEN else ""
        between = x, f"{base}_quantized", out
        for op, (a, b) in zip(CONVERSIONS, pairwise(between), strict=True):
            name = converted(base, op)
            self.nodes.append(helper.make_node(op, [a, *constants], [b], name, domain=domain))
        return out

    def parameters(self, base: str, scale: Array | np.float32, zero: Array) -> tuple[str, str]:
        names = f"{base}_scale", f"{base}_zero_point"
        self.constants |= dict(zip(names, (np.asarray(scale), zero), strict=True))
        return names

    def constant(self, base: str, stored: Array, scales: Array, axis: int) -> str:
        """A DequantizeLinear of constants, by channel or, of one scale, as a whole."""
        scale = scales if scales.size > 1 else scales.reshape(())
        zero = np.zeros(scale.shape, stored.dtype)
        self.constants[f"{base}_quantized"] = stored
        inputs = [f"{base}_quantized", *self.parameters(base, scale.astype(np.float32), zero)]
        node = helper.make_node(
            "DequantizeLinear", inputs, [f"{base}_dequantized"], converted(base, "DequantizeLinear")
        )
        if scales.size > 1:
            node.attribute.append(helper.make_attribute("axis", axis))
        self.nodes.append(node)
        return f"{base}_dequantized"

    def layer(self, layer: Layer, node: NodeProto) -> None:
        """Its operands in integers; `node` reads x as it is stored, inside of a Scan as floats."""
        is_stored = layer.x in self.net.group and not layer.inside
        own = self.resolved.scale(self.net.group[layer.x]) if is_stored else None
        read, weights = self.resolved.read(layer), self.resolved.weights(layer)
        if read is not None and read != own:
            node.input[0] = self.pair(node.input[0], f"{layer.name}_x", read)
        if weights is None:
            return
        node.input[1] = self.constant(layer.weight, weights.stored, weights.scales, layer.axis)
        bias = self.resolved.bias(layer)
        if bias is not None:
            node.input[2] = self.constant(layer.bias, *bias, 0)

    def tables(self, name: str) -> dict[str, Scale]:
        """What functions of a Scan of this name read and give, where these are tables."""
        found = {}
        for group, way in self.net.gates.items():
            scale = self.resolved.scale(group)
            if way.name == name and scale is not None:
                (gate,) = (g for g in way.gates if g.shown == group)
                found[gate.x] = scale
                for made, op in gate.functions:
                    steps, low, _ = LIMITS[op]
                    found[made] = Scale(np.float32(1 / steps), -128 - low, 8)
        return found

    def scan(self, node: NodeProto, layers: Mapping[str, Layer]) -> None:
        """The layers inside of a Scan in integers; what only the simulation reads is left out."""
        (body,) = (a.g for a in node.attribute if a.HasField("g"))
        outer, self.nodes = self.nodes, []
        count = len(node.input)  # states, and a sequence
        unread = {o.name for o in body.output[count:]}
        stored = self.tables(node.name)
        for inner in body.node:
            inner.input[:] = [f"{i}_dequantized" if i in stored else i for i in inner.input]
            if inner.name in layers:
                self.layer(layers[inner.name], inner)
            if unread.isdisjoint(inner.output):
                self.nodes.append(inner)
                for name in stored.keys() & set(inner.output):
                    self.pair(name, name, stored[name])
        copies = [NodeProto.FromString(n.SerializeToString()) for n in self.nodes]
        self.nodes = outer
        del body.node[:], body.output[count:], node.output[count:]
        body.node.extend(copies)
        for a in node.attribute:
            if a.name.startswith("scan_output"):
                del a.ints[1:]


def written(net: Network, plan: Plan, producer: str) -> ModelProto:
    """The quantised model. The same plan gives the same bytes."""
    w = _Writer(net, plan)
    made = with_weights(net.model, {})
    graph = made.graph
    layers = {layer.name: layer for layer in net.layers}
    ways = {way.name for cell in net.cells for way in cell.ways}
    stored = {n for n in net.group if w.resolved.scale(net.group[n]) is not None}
    for info in graph.input:
        if info.name in stored:
            w.stored(info.name)
    for node in _written(w, plan):
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [f"{i}_dequantized" if i in stored else i for i in copy.input]
        if node.name in layers:
            w.layer(layers[node.name], copy)
        elif node.name in ways and node.op_type == "Scan":
            w.scan(copy, layers)
        w.nodes.append(copy)
        for name in copy.output:
            if name in stored:
                w.stored(name)
    nodes, shapes = sunk(w.nodes, ways, {**net.constants, **w.constants})
    w.constants |= shapes
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    read = {i for n in nodes for i in (*n.input, *inner_reads(n))}
    kept = [t for t in graph.initializer if t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(a, order="C"), n) for n, a in w.constants.items()
    )
    _finish(made, producer)
    note(made, net.factors)
    return made


def _written(w: _Writer, plan: Plan) -> Iterator[NodeProto]:
    """The network's nodes; a recurrent layer that is all floats is its operator."""
    net, done = w.net, set()
    floats = [c for c in net.cells if {plan.precisions[n] for n in c.layers} == {Precision.FLOAT}]
    parts = {name: cell for cell in floats for name in cell.made}
    for node in net.model.graph.node:
        cell = parts.get(node.output[0])
        if cell is None:
            yield node
        elif cell.node.name not in done:
            done.add(cell.node.name)
            whole, constants = cell.whole(net.constants)
            w.constants |= constants
            yield whole


def _finish(model: ModelProto, producer: str) -> None:
    inner = (m for n in model.graph.node for a in n.attribute for m in a.g.node)
    if any(n.domain == MICROSOFT for n in (*model.graph.node, *inner)):
        known = {o.domain for o in model.opset_import}
        if MICROSOFT not in known:
            model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    model.producer_name, model.producer_version = producer, ""
    model.ClearField("metadata_props")
