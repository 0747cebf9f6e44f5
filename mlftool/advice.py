"""Possible improvements of a model: warnings with the remedy and what the fault costs.

Costs are counts of the model's own, such as multiplications, and for another kernel the estimates
by which kernels are chosen. benchmarks/advice.py measures a small network, and docs/performance.md
has its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mlftool.errors import Problem
from mlftool.frozen import replace
from mlftool.ir.dtype import stored
from mlftool.ir.graph import Array, Graph, Node, View
from mlftool.module import Module
from mlftool.ops.base import Kernel, Layout, Trait, contracts, is_a, record
from mlftool.ops.halves import halves
from mlftool.ops.scales import scaled
from mlftool.plan.program import Call
from mlftool.plan.select import offers

WORTH = 1024  # bytes of flash: less is not worth a line
_STATIC = "quantize_static(..., {0})"


def advice(module: Module, file: str = "") -> tuple[Problem, ...]:
    """What the file declares wrongly. Of a quantised model: layers that stay float, weights per
    tensor or with zero points, ranges that each inference looks for, and what should have been
    folded before it was quantised. Of others: weights that are stored wider than they are."""
    graph = module.imported
    made = {name: n for n in graph.nodes for name in n.outputs}
    layers = [n for n in graph.nodes if _is_layer(n) and _quantised(n, made)]
    rules = (
        *(_floats(module, layers), _scales(graph, made), _zero_points(module, made)),
        *(_dynamic(graph), _unprepared(graph, made), _wide(module)),
    )
    at = {node.label: k for k, node in reversed([*enumerate(graph.nodes)])}
    found = sorted((w for rule in rules for w in rule), key=lambda w: at[w[1]])
    return graph.remarks + tuple(
        Problem(code, text, file, path=path, help=help, severity="warning")
        for code, path, text, help in found
    )


Warning_ = tuple[str, str, str, str]  # code, node, what, remedy


def _is_layer(node: Node) -> bool:
    """Whether it is a sum of products of floats that could be one of integers."""
    return contracts(node) is not None and bool(record(node).quantised)


def _quantised(node: Node, made: Mapping[str, Node]) -> bool:
    """Whether any input is a dequantised one."""
    return any(is_a(made.get(i), Trait.DEQUANTISER) for i in node.inputs)


def _floats(module: Module, layers: list[Node]) -> Iterator[Warning_]:
    """Layers with quantised operands that float kernels compute."""
    left = {
        n.name: c.kernel.macs
        for c in module.program.calls
        for n in (c.node, *c.node.body)
        if _is_layer(n)
    }
    for node in layers:
        if node.name and node.name in left:
            macs = left[node.name]
            text = f"this quantised {node.op} is computed in float: {macs:,} multiply-adds"
            help = "quantise its data, weights and result: all three need a "
            help += "QuantizeLinear and DequantizeLinear"
            yield "MLF0311", node.label, text, help


def _scales(graph: Graph, made: Mapping[str, Node]) -> Iterator[Warning_]:
    """Convolutions whose channels share a scale."""
    for node in graph.nodes:
        c, stored = contracts(node), _stored_weights(node, made)
        if c is None or not stored or stored[0] not in graph.consts:
            continue
        values = [graph.consts.get(i) for i in stored]
        extents, scale = graph.types[stored[0]].shape, values[1]
        if (
            c.layout is Layout.CONVOLUTION
            and scale is not None
            and scale.size == 1
            and extents[0] > 1
        ):
            text = f"one scale for all {extents[0]} channels of the weights: "
            text += _coarsest(graph.consts[stored[0]], values[2] if len(values) > 2 else None)
            help = f"quantise per channel: {_STATIC.format('per_channel=True')}, for at most "
            help += f"{4 * extents[0]} bytes more of flash"
            yield "MLF0312", node.label, text, help


def _zero_points(module: Module, made: Mapping[str, Node]) -> Iterator[Warning_]:
    """Layers whose weights still have a zero point where they run: one of 128 of uint8 is none of
    int8, and of a float layer's weights it is taken off before."""
    program = module.program
    calls = {n.name: c for c in program.calls for n in (c.node, *c.node.body) if n.name}
    for node in module.imported.nodes:
        call = calls.get(node.name)
        c = contracts(call.node.core) if call and _stored_weights(node, made) else None
        if call is None or c is None or not c.quantised:
            continue
        zero = program.graph.consts.get(call.node.core.inputs[5])
        if zero is None or not zero.any():
            continue
        text = f"weights with a zero point: {_sums(call, program.graph):,} additions more, of the "
        text += "data of each window"
        name = call.node.core.inputs[5]
        consts = {**program.graph.consts, name: np.zeros_like(zero)}
        best = offers(View(program.graph.replace(consts=consts), call.node), program.target)[0]
        if best.name != call.kernel.name:
            text += f"; an estimated {call.kernel.cost:,.0f} instructions by {call.kernel.name}, "
            text += f"without it {best.cost:,.0f} by {best.name}"
        help = f"quantise them symmetrically: {_STATIC.format(_SYMMETRIC)}"
        yield "MLF0313", node.label, text, help


_SYMMETRIC = "extra_options={'WeightSymmetric': True}"


def _sums(call: Call, graph: Graph) -> int:
    """How many data the windows of a layer have, of which all channels of a group share one."""
    core = call.node.core
    shape, c = graph.types[core.result].shape, contracts(core)
    conv = c is not None and c.layout is Layout.CONVOLUTION
    channels = graph.types[core.inputs[c.weights]].shape[0] if c and conv else shape[-1]
    return call.kernel.macs * int(core.attrs.get("group", 1)) // max(1, channels)


def _dynamic(graph: Graph) -> Iterator[Warning_]:
    """Data that are quantised by a range that each inference looks for."""
    for node in graph.nodes:
        if is_a(node, Trait.DYNAMIC):
            count = graph.types[node.inputs[0]].elements
            text = f"quantised at run time: each inference looks at {count:,} floats for their "
            text += f"range, rounds them, and keeps {4 * count:,} bytes of them"
            help = "calibrate with samples: quantize_static, or `mlftool quantize` of the float "
            help += "model; layers then pass bytes on"
            yield "MLF0317", node.label, text, help


def _wide(module: Module) -> Iterator[Warning_]:
    """Float weights that fewer bits hold exactly, which `optimize: size` stores in these: one line
    of all, at the first layer."""
    program, target = module.program, module.program.target
    if "size" in target.features:
        return
    lean = replace(target, features=target.features | {"size"})
    labels = {n.name: n.label for n in module.imported.nodes if n.name}
    places: list[str] = []
    before = after = 0
    for call in program.calls:
        c = contracts(call.node.core)
        weights = program.graph.consts.get(call.node.core.inputs[c.weights]) if c else None
        label = labels.get(call.node.core.name)
        if weights is None or label is None or not (halves(weights) or scaled(weights)):
            continue
        other = offers(View(program.graph, call.node), lean)[0]
        if other.params.get("stored", "float") not in ("", "float"):
            places.append(label)
            before, after = before + _bytes(call.kernel), after + _bytes(other)
    if places and before - after >= WORTH:
        which = f" and {len(places) - 1} more layers" if len(places) > 1 else ""
        text = f"float weights here{which} are exactly float16, bfloat16 or scaled bytes, and take "
        text += f"{before:,} bytes of flash as float32"
        help = f"--optimize size (`optimize: size` in a manifest) stores them in {after:,} bytes, "
        help += f"{before - after:,} less; `mlftool diff` shows what that takes in instructions"
        yield "MLF0318", places[0], text, help


def _bytes(kernel: Kernel) -> int:
    """Of a kernel's constants in flash."""
    arrays = (o.array for o in kernel.operands if o.role == "const" and o.array is not None)
    return sum(stored(array).nbytes for array in arrays)


def _coarsest(weights: Array, zero: Array | None) -> str:
    """What the channel of the smallest weights has left; weights are [channels, ...], integers."""
    away = weights.astype(np.int64) - (0 if zero is None else int(zero.reshape(-1)[0]))
    steps = np.abs(away).reshape(len(away), -1).max(axis=1, initial=0)
    least = steps[steps > 0].min(initial=steps.max())  # others are pruned
    return f"the smallest channel is rounded to {least} steps, the largest to {steps.max()}"


def _stored_weights(node: Node, made: Mapping[str, Node]) -> tuple[str, ...]:
    """A layer's weights in integers with their scale and zero point; () where they are floats."""
    c = contracts(node)
    if c is not None and c.quantised:
        return (node.inputs[c.weights], *node.inputs[4:6])
    weight = made.get(node.inputs[1]) if _is_layer(node) and _quantised(node, made) else None
    return tuple(weight.inputs) if weight and is_a(weight, Trait.DEQUANTISER) else ()


def _unprepared(graph: Graph, made: Mapping[str, Node]) -> Iterator[Warning_]:
    """A batch normalisation, or its remains, after a quantised convolution."""
    for node in graph.nodes:
        source = _unquantised(node.inputs[0], made) if node.inputs else None
        if source is None or contracts(source) is None or not is_a(source, Trait.SPATIAL):
            continue
        if record(node).affine is None:
            continue
        constant = [i for i in node.inputs[1:] if _constant(i, graph, made)]
        per_channel = any(
            graph.types[i].shape[1:2] == graph.types[node.result].shape[1:2]
            or graph.types[i].shape == (graph.types[node.result].shape[1], 1, 1)
            for i in constant
        )
        if per_channel or not is_a(node, Trait.ELEMENTWISE):
            count = graph.types[node.result].elements
            text = f"this {node.op} was not folded into {source.label} before the model was "
            text += f"quantised: {count:,} elements are computed and rounded a second time"
            help = "run onnxruntime.quantization.shape_inference.quant_pre_process first"
            yield "MLF0314", node.label, text, help


def _unquantised(name: str, made: Mapping[str, Node]) -> Node | None:
    """The node that computes a tensor before it is quantised, or in integers."""
    node = made.get(name)
    if not is_a(node, Trait.DEQUANTISER):
        return None
    node = made.get(node.inputs[0])
    return made.get(node.inputs[0]) if is_a(node, Trait.QUANTISER) else node


def _constant(name: str, graph: Graph, made: Mapping[str, Node]) -> bool:
    node = made.get(name)
    stored = node.inputs[0] if is_a(node, Trait.DEQUANTISER) else name
    return stored in graph.consts
