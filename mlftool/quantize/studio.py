"""Measures plans: the model with its roundings simulated in float, whose parameters are inputs.

    %q = Mul(%i, scale)    with    %i = Where(on, Clip(Round(Div(%x, scale)), low, high), %x)
    %y = Mul(Conv(%i, stored weights, stored bias), unit)

One session serves every plan. Where nothing is rounded, scale and unit are 1.
A layer of 8 bits adds up integers, which floats hold exactly: no order of its sums changes them, so
they are the device's, and the same on every processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mlftool.ir.graph import Array
from mlftool.quantize.network import Layer, Network, float_outputs, moves, with_weights
from mlftool.quantize.plan import Plan, Resolved, Scale
from mlftool.quantize.prepare import channels
from mlftool.quantize.recurrent import FIRST, LIMITS, ONE, Way, opened
from mlftool.quantize.runtime import Session
from mlftool.quantize.samples import Samples

CHUNK = 32  # samples at once, where the model lets several go


class Studio:
    """A network and samples of its inputs."""

    def __init__(self, net: Network, samples: Samples) -> None:
        self.net, self.samples = net, samples
        self.outputs = tuple(o.name for o in float_outputs(net.model))
        self._weights = [n for layer in net.layers for n in (layer.weight, layer.bias) if n]
        one = simulation(net)
        self._single = self._session = Session(one)
        self._chunk = 1
        self._axes: Mapping[str, int] = {}  # tensor -> its axis that counts samples, if one does
        several = _open_batch(one)
        if len(samples) > 1 and self._agrees(several):
            self._session, self._chunk = Session(several), CHUNK

    def part(self, chosen: Array) -> Studio:
        """The same with some of the samples, by their places."""
        other = copy(self)
        other.samples = self.samples.taken(chosen)
        return other

    def run(self, plan: Plan | None, names: Sequence[str]) -> dict[str, Array]:
        """Tensors [samples, ...] under a plan; None is the float model."""
        feeds = self._feeds(plan)
        together = [n for n in names if n in self._axes]
        alone = [n for n in names if n not in self._axes]
        # Of no names onnxruntime would give all.
        made = self._run(self._single, 1, feeds, alone) if alone else {}
        return made | (self._run(self._session, self._chunk, feeds, together) if together else {})

    def judged(self, plan: Plan | None) -> dict[str, Array]:
        """The outputs, before they become probabilities."""
        return self.run(plan, self.net.judged)

    def with_layers(self, plan: Plan | None) -> dict[str, Array]:
        """What each layer computes."""
        return self.run(plan, [layer.y for layer in self.net.layers])

    def _run(
        self, session: Session, chunk: int, fixed: Mapping[str, Array], names: Sequence[str]
    ) -> dict[str, Array]:
        parts: list[dict[str, Array]] = []
        count = len(self.samples)
        for start in range(0, count, chunk):
            feeds = {}
            for name, array in self.samples.inputs.items():
                taken = array[start : start + chunk]
                # A scalar input has no batch of its own.
                feeds[name] = taken.reshape(-1, *taken.shape[2:]) if chunk > 1 else taken[0]
            parts.append(session(names, {**fixed, **feeds}))
        if chunk == 1:
            return {n: np.stack([p[n] for p in parts]) for n in names}
        axes = [(n, self._axes[n]) for n in names]
        joined = {n: np.concatenate([p[n] for p in parts], axis=k) for n, k in axes}
        return {n: _by_sample(joined[n], count, k) for n, k in axes}

    def _agrees(self, several: ModelProto) -> bool:
        """Whether samples that go together give what each gives alone, but for tensors that no
        layer makes. Notes the axis of each that they do."""
        if any(a.ndim < 2 or a.shape[1] != 1 for a in self.samples.inputs.values()):
            return False
        whole, names = self.samples, {*self.net.judged, *(x.y for x in self.net.layers)}
        every = [o.name for o in several.graph.output]
        self.samples = whole.part(3)
        try:
            feeds, count = self._feeds(None), len(self.samples)
            alone = self._run(self._single, 1, feeds, every)
            given = {n: x.reshape(-1, *x.shape[2:]) for n, x in self.samples.inputs.items()}
            made = Session(several)(every, {**feeds, **given})
            axes = {n: _axis(made[n], alone[n], count) for n in every}
            found = {n: k for n, k in axes.items() if k is not None}
            self._axes = found if names <= found.keys() else {}
            return bool(self._axes)
        except Exception:  # of onnxruntime, in many kinds: a shape that is written in the model
            return False
        finally:
            self.samples = whole

    def _feeds(self, plan: Plan | None) -> dict[str, Array]:
        feeds = {n: self.net.constants[n] for n in self._weights}
        resolved = Resolved(self.net, plan) if plan else None
        for group in self.net.groups:
            feeds |= _parameters(group, resolved.scale(group) if resolved else None)
        for layer in self.net.layers:
            feeds |= self._operands(layer, resolved)
        return feeds

    def _operands(self, layer: Layer, resolved: Resolved | None) -> dict[str, Array]:
        """What a layer multiplies: integers, or floats of which one step is the unit."""
        read = resolved.read(layer) if resolved else None
        w = resolved.weights(layer) if resolved else None
        feeds: dict[str, Array] = {}
        step = read.scale if read else np.float32(1)
        if layer.x in self.net.group:
            feeds = _parameters(f"{layer.name}//x", read)
        count = layer_channels(self.net, layer)
        if w is None or resolved is None:
            unit = np.full(count, step)
            if layer.bias:
                feeds[layer.bias] = self.net.constants[layer.bias] / step
        else:
            unit = np.resize((step * w.scales).astype(np.float32), count)
            feeds[layer.weight] = w.stored.astype(np.float32)
            if bias := resolved.bias(layer):
                feeds[layer.bias] = bias[0].astype(np.float32)
        return {**feeds, f"{layer.name}//unit": unit.reshape(_unit_shape(self.net, layer))}

    def read_by(self, layer: Layer, plan: Plan) -> Array:
        """What a layer reads under a plan, [samples, ...] in float64."""
        if layer.x not in self.net.group:
            return input_of(layer, self).astype(np.float64)
        name = f"{layer.name}//x"
        scale = Resolved(self.net, plan).read(layer)
        step = float(scale.scale) if scale else 1.0
        made: Array = self.run(plan, [name])[name].astype(np.float64) * step
        return made


def _by_sample(a: Array, count: int, axis: int) -> Array:
    """[samples, ...] of a tensor that counts samples in an axis, each maybe several times."""
    apart = a.reshape(*a.shape[:axis], count, -1, *a.shape[axis + 1 :])
    return np.moveaxis(apart, axis, 0)


def _axis(made: Array, alone: Array, count: int) -> int | None:
    """The axis of `made` that counts the samples of `alone` [samples, ...]; None if none does."""
    if made.ndim + 1 != alone.ndim or made.size != alone.size or not np.isfinite(alone).all():
        return None
    for axis in range(made.ndim):
        if made.shape[axis] == count * alone.shape[axis + 1]:
            found = _by_sample(made, count, axis)
            most = np.abs(alone).max(initial=0)
            if found.shape == alone.shape and np.allclose(
                found, alone, rtol=1e-4, atol=1e-5 * most
            ):
                return axis
    return None


def layer_channels(net: Network, layer: Layer) -> int:
    """How many channels a layer's result has."""
    return channels(layer.node, net.constants[layer.weight])


def _unit_shape(net: Network, layer: Layer) -> tuple[int, ...]:
    """One number for each channel, which are counted last or before the places."""
    rank = net.constants[layer.weight].ndim
    return (layer_channels(net, layer), *(1,) * (0 if layer.in_rows else rank - 2))


def _parameters(name: str, scale: Scale | None) -> dict[str, Array]:
    """What the simulation reads for a rounding."""
    lo, hi, step = (0.0, 0.0, np.float32(1))
    if scale is not None:
        lo, hi = (limit - scale.zero for limit in scale.limits)
        step = scale.scale
    values = {"scale": step, "low": lo, "high": hi}
    feeds = {f"{name}//{key}": np.array(value, np.float32) for key, value in values.items()}
    return {**feeds, f"{name}//on": np.array(scale is not None)}


def simulation(net: Network) -> ModelProto:
    """The model with simulated roundings, weights as inputs, and what layers read and compute as
    further outputs."""
    made = with_weights(net.model, {})
    graph = made.graph
    layers = {layer.name: layer for layer in net.layers}
    ways = {way.name: way for way in net.gates.values()}
    makers = {name: n for n in graph.node for name in n.output}
    rounded = {
        name
        for name in net.group
        if not (name in makers and moves(makers[name]) and makers[name].input[0] in net.group)
    }
    nodes = [n for i in graph.input if i.name in rounded for n in _rounding(i.name, net.group)]
    for node in list(graph.node):
        mine, made_by_it = layers.get(node.name), list(node.output)
        for k, name in enumerate(node.input):
            if name in rounded:
                node.input[k] = f"{name}//q"
        nodes += _layer(net, mine, node, f"{mine.name}//x") if mine else [node]
        for inner in _within(node, layers):
            nodes += _step(net, inner, node)
        if node.name in ways and node.op_type == "Scan":
            _tables(ways[node.name], node)
        for name in made_by_it:
            if name in rounded:
                nodes += _rounding(name, net.group)
    weights = {n for layer in net.layers for n in (layer.weight, layer.bias) if n}
    kept = [t for t in graph.initializer if t.name not in weights]
    copies = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
    stored = [f"{x.name}//x" for x in net.layers if x.x in net.group]
    scalars = [*net.groups, *stored]
    names = [f"{s}//{key}" for s in scalars for key in ("scale", "low", "high")]
    added = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ()) for n in names]
    added += [helper.make_tensor_value_info(f"{s}//on", TensorProto.BOOL, ()) for s in scalars]
    shapes = {n: net.constants[n].shape for n in weights}
    shapes |= {f"{x.name}//unit": _unit_shape(net, x) for x in net.layers}
    added += [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in sorted(shapes)
    ]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(copies)
    graph.initializer.extend([*kept, *(_constants() if ways else ())])
    graph.input.extend(added)
    shown = {o.name for o in graph.output}
    wanted = (*net.judged, *(n for layer in net.layers for n in (layer.x, layer.y)))
    wanted += (*stored, *seen_tensors(net))
    for name in dict.fromkeys(wanted):
        if name not in shown and name not in net.model_inputs:
            graph.output.append(helper.make_empty_tensor_value_info(name))
    return made


def _layer(net: Network, layer: Layer, node: NodeProto, read: str) -> list[NodeProto]:
    """A layer that multiplies integers, which are named `read`."""
    made: list[NodeProto] = []
    if layer.x in net.group:
        made += _integers(node.input[0], f"{layer.name}//x", read)
        node.input[0] = read
    y = node.output[0]
    node.output[0] = f"{y}//sum"
    unit = helper.make_node("Mul", [node.output[0], f"{layer.name}//unit"], [y])
    return [*made, node, unit]


def _within(node: NodeProto, layers: Mapping[str, Layer]) -> list[Layer]:
    """The layers inside of a Scan."""
    inner = [n.name for a in node.attribute for n in a.g.node]
    return [layers[n] for n in inner if n in layers]


def _step(net: Network, layer: Layer, scan: NodeProto) -> Iterator[NodeProto]:
    """Simulates a layer inside of a Scan, and after it what it reads."""
    (body,) = (a.g for a in scan.attribute if a.HasField("g"))
    nodes: list[NodeProto] = []
    for node in body.node:
        mine = node.name == layer.name
        nodes += _layer(net, layer, node, f"{layer.name}//x//step") if mine else [node]
    _replace(body, nodes)
    if layer.x in net.group:
        yield from _integers(layer.x, f"{layer.name}//x", f"{layer.name}//x")


def _tables(way: Way, scan: NodeProto) -> None:
    """Simulates what functions of a Scan read and give where they are tables."""
    (body,) = (a.g for a in scan.attribute if a.HasField("g"))
    rounded: dict[str, tuple[str, tuple[str, str, str]]] = {}
    for gate in way.gates:
        own = tuple(f"{gate.shown}//{key}" for key in ("scale", "low", "high"))
        rounded[gate.x] = gate.shown, own  # type: ignore[assignment]
        for made, op in gate.functions:
            rounded[made] = gate.shown, _limits(op)
    nodes: list[NodeProto] = []
    for node in body.node:
        node.input[:] = [f"{i}//q" if i in rounded else i for i in node.input]
        nodes.append(node)
        for name in rounded.keys() & set(node.output):
            group, (scale, low, high) = rounded[name]
            read, made = f"{name}//q", f"{name}//q//stored"
            nodes += [
                helper.make_node("Div", [name, scale], [f"{read}//a"]),
                helper.make_node("Round", [f"{read}//a"], [f"{read}//b"]),
                helper.make_node("Clip", [f"{read}//b", low, high], [f"{read}//c"]),
                helper.make_node("Mul", [f"{read}//c", scale], [made]),
                helper.make_node("Where", [f"{group}//on", made, name], [read]),
            ]
    _replace(body, nodes)


def _limits(op: str) -> tuple[str, str, str]:
    """Constants: the step, the least and the most of a function's results."""
    return f"//{op}//scale", f"//{op}//low", f"//{op}//high"


def _constants() -> Iterator[TensorProto]:
    for op, (steps, low, high) in LIMITS.items():
        for name, value in zip(_limits(op), (1 / steps, low, high), strict=True):
            yield numpy_helper.from_array(np.array(value, np.float32), name)


def _replace(graph: GraphProto, nodes: Sequence[NodeProto]) -> None:
    copies = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def seen_tensors(net: Network) -> tuple[str, ...]:
    """Tensors whose values tell ranges: of each group those that are computed, not moved."""
    return tuple(n for n in net.group if n not in net.model_inputs)


def _rounding(name: str, group: Mapping[str, str]) -> Iterator[NodeProto]:
    return _fake(name, group[name], f"{name}//q")


def _fake(x: str, parameters: str, out: str) -> Iterator[NodeProto]:
    """A simulated rounding."""
    yield from _integers(x, parameters, f"{out}//c")
    yield helper.make_node("Mul", [f"{out}//c", f"{parameters}//scale"], [out])


def _integers(x: str, parameters: str, out: str) -> Iterator[NodeProto]:
    """What is stored, less the zero point; a float as it is."""
    scale, low, high = (f"{parameters}//{key}" for key in ("scale", "low", "high"))
    yield helper.make_node("Div", [x, scale], [f"{out}//a"])
    yield helper.make_node("Round", [f"{out}//a"], [f"{out}//b"])
    yield helper.make_node("Clip", [f"{out}//b", low, high], [f"{out}//d"])
    yield helper.make_node("Where", [f"{parameters}//on", f"{out}//d", x], [out])


def _open_batch(model: ModelProto) -> ModelProto:
    """The same for any number of samples, if its reshapes allow that."""
    made = ModelProto()
    made.CopyFrom(model)
    stored = {t.name: t for t in made.graph.initializer}
    for info in made.graph.input:
        dims = info.type.tensor_type.shape.dim
        if dims and dims[0].dim_value == 1 and "//" not in info.name:
            dims[0].ClearField("dim_value")
            dims[0].dim_param = "samples"
    for info in made.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    for node in list(made.graph.node):
        shape = stored.get(node.input[1]) if node.op_type == "Reshape" else None
        if shape is not None:
            _free_first(shape)
    if any(n.op_type == "Scan" for n in made.graph.node):
        _open_states(made.graph, stored)
    return made


def _open_states(graph: GraphProto, stored: Mapping[str, TensorProto]) -> None:
    """Initial states of Scans are those of as many samples as there are."""
    nodes = []
    for node in graph.node:
        nodes += [*opened(node, stored), node] if node.op_type == "Scan" else [node]
    copies = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    for name, value in ((FIRST, 0), (ONE, 1)):
        graph.initializer.append(numpy_helper.from_array(np.array([value]), name))


def _free_first(shape: TensorProto) -> None:
    values = numpy_helper.to_array(shape)
    if values.size and values[0] == 1 and not (values == -1).any():
        freed = values.copy()
        freed[0] = -1
        shape.CopyFrom(numpy_helper.from_array(freed, shape.name))


def input_of(layer: Layer, studio: Studio) -> Array:
    """What a layer of the float model reads, [samples, ...]."""
    if layer.x in studio.samples.inputs:
        return studio.samples.inputs[layer.x]
    return studio.run(None, [layer.x])[layer.x]
