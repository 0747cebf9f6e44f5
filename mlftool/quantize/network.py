"""What is quantised in a prepared model: its layers, and the tensors that share a scale.

A tensor is stored in integers if a layer or an operator with an integer form reads it. What only
moves elements keeps the scale of what it moves; what an activation cuts off is stored after it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from onnx import (
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    shape_inference,
)

from mlftool.errors import MlfError, Problem
from mlftool.frozen import field, frozen
from mlftool.ir.graph import Array
from mlftool.quantize.factors import Factors
from mlftool.quantize.prepare import LAYERS, ROWS, TRANSPOSED, attribute, weight_axis, whole
from mlftool.quantize.recurrent import GATES, Cell, Product, Way, taken_apart

CUTS = frozenset(("Relu", "Clip"))
MOVES = frozenset(
    (
        *("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "MaxPool", "GlobalMaxPool"),
        *("Slice", "Split", "Gather", "DepthToSpace", "SpaceToDepth", "Identity", "Expand"),
        *("ReduceMax", "ReduceMin", "Tile", "GatherElements", "GatherND", "ReverseSequence"),
    )
)
# Their kernels take integers, or undo the rounding as they load: what they read is no float tensor.
ARITHMETIC = frozenset(
    (
        *("Add", "Sub", "Mul", "Sum", "Mean", "Max", "Min", "Relu", "Clip", "LeakyRelu", "Sigmoid"),
        *("Tanh", "HardSigmoid", "HardSwish", "Elu", "AveragePool", "GlobalAveragePool"),
        *("ReduceMean", "ReduceSum", "Concat", "Resize", "MatMul", "Gemm", "LayerNormalization"),
        *("InstanceNormalization", "GroupNormalization", "RMSNormalization", "Softmax"),
    )
)
# Whose results are integers as they are computed: paddings of other values than 0, too.
INTEGERS = ARITHMETIC | {"Pad"}
# Elementwise functions: any chain of them with one stored tensor as input is one table.
FUNCTIONS = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Relu", "Clip", "LeakyRelu", "Elu"),
        *("Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Selu", "Celu"),
        *("Erf", "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Gelu", "Mish", "Identity"),
    )
)
# What a factor of each channel passes: equalisation goes through them.
THROUGH = frozenset(("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool"))
TAILS = frozenset(("Softmax", "LogSoftmax", "Sigmoid"))  # what makes probabilities of logits


@frozen
class Layer:
    """A sum of products with constant weights: y = x * weight + bias, before its activation.

    `axis` of the weights counts output channels; a group of channels has its own. What a layer
    `inside` of a Scan reads is rounded for it alone; x and y are the Scan's, of all steps.
    """

    name: str
    op: str
    node: NodeProto
    x: str
    weight: str
    bias: str  # "" for a MatMul
    y: str
    axis: int
    group: int
    inside: bool = False

    @property
    def in_rows(self) -> bool:
        """Whether it multiplies a matrix, whose rows have their channels last."""
        return self.op in ROWS

    @property
    def windowed(self) -> bool:
        """Whether each output reads a window, weights [out channel, in channel, *kernel]."""
        return self.op not in ROWS and not self.transposed

    @property
    def transposed(self) -> bool:
        """Whether each input is spread over a window, weights [in channel, out channel, ...]."""
        return self.op == TRANSPOSED


@frozen
class Network:
    """`group` names, for each tensor that is stored in integers, the first one of its scale;
    `factors` are those of tensors that equalisation changed; `cells` were taken apart."""

    model: ModelProto
    layers: tuple[Layer, ...]
    group: Mapping[str, str]
    judged: tuple[str, ...]  # the outputs, before they become probabilities
    factors: Mapping[str, Factors] = field(default_factory=dict)
    cells: tuple[Cell, ...] = ()

    @cached_property
    def constants(self) -> Mapping[str, Array]:
        return {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer}

    @cached_property
    def model_inputs(self) -> frozenset[str]:
        return frozenset(i.name for i in self.model.graph.input) - self.constants.keys()

    @cached_property
    def gates(self) -> Mapping[str, Way]:
        """Group -> the direction of which it has sums that functions read."""
        ways = (way for cell in self.cells for way in cell.ways)
        return {gate.shown: way for way in ways for gate in way.gates}

    @cached_property
    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.group.values()))

    @cached_property
    def stored_by(self) -> Mapping[str, str]:
        """Layer -> the group in which its result is stored, after its activation."""
        readers = readers_of(self.model)
        found = {}
        for layer in self.layers:
            name = layer.y
            while name not in self.group and len(readers.get(name, ())) == 1:
                (reader,) = readers[name]
                if reader.op_type not in CUTS:
                    break
                name = reader.output[0]
            if name in self.group:
                found[layer.name] = self.group[name]
        return found


def float_outputs(model: ModelProto) -> list[ValueInfoProto]:
    """The outputs that accuracy is measured on: labels in words or integers follow from them."""
    floats = [o for o in model.graph.output if o.type.tensor_type.elem_type == TensorProto.FLOAT]
    return floats or list(model.graph.output)


def recurrent_layers(model: ModelProto) -> list[str]:
    """Their nodes' names."""
    return [node.name for node in model.graph.node if node.op_type in GATES]


def readers_of(model: ModelProto) -> dict[str, list[NodeProto]]:
    """Tensor -> the nodes that read it, one entry for each time."""
    found: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            found.setdefault(name, []).append(node)
    return found


def network(model: ModelProto, file: str) -> Network:
    """Raises MlfError if there is nothing to quantise."""
    model, cells = taken_apart(model)
    layers = tuple(_layers(model, cells))
    if not layers:
        kinds = ", ".join(sorted({*LAYERS, *GATES}))
        text = f"has no layer to quantise: none of {kinds} with float weights"
        raise MlfError(Problem("MLF0413", text, file))
    group = _groups(model, layers, cells)
    makers = {name: n for n in model.graph.node for name in n.output}
    judged = []
    for out in float_outputs(model):
        made = makers.get(out.name)
        tail = made is not None and made.op_type in TAILS and made.input[0] in makers
        judged.append(made.input[0] if tail and made is not None else out.name)
    return Network(model, layers, group, tuple(dict.fromkeys(judged)), cells=cells)


def _layers(model: ModelProto, cells: Sequence[Cell]) -> Iterator[Layer]:
    stored = {t.name: t for t in model.graph.initializer}
    inputs = {i.name for i in model.graph.input}
    ways = {way.name: way for cell in cells for way in cell.ways}
    for node in model.graph.node:
        if node.name in ways:
            yield from map(_inner_layer, ways[node.name].inner)
        weight = stored.get(node.input[1]) if len(node.input) > 1 else None
        if node.op_type not in LAYERS or weight is None or weight.data_type != TensorProto.FLOAT:
            continue
        if node.input[0] in stored or node.input[1] in inputs:
            continue
        if node.op_type == "Gemm" and not _is_plain(node, stored):
            continue
        if node.op_type == "MatMul" and len(weight.dims) != 2:
            continue
        bias = node.input[2] if len(node.input) > 2 else ""
        if bias and bias not in stored:
            continue
        group = whole(node, "group", 1)
        yield Layer(
            *(node.name, node.op_type, node, node.input[0], node.input[1], bias),
            *(node.output[0], weight_axis(node), group),
        )


def _inner_layer(p: Product) -> Layer:
    node = p.node
    weight, bias = [*node.input[1:], ""][:2]
    read = node.name, node.op_type, node, p.x, weight, bias
    return Layer(*read, p.y, weight_axis(node), 1, inside=True)


def _is_plain(node: NodeProto, stored: Mapping[str, TensorProto]) -> bool:
    """Whether a Gemm is x * w + one bias for each column."""
    factors = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
    bias = stored.get(node.input[2]) if len(node.input) > 2 else None
    columns = stored[node.input[1]].dims[weight_axis(node)]
    fits = bias is not None and list(bias.dims) == [columns]
    return factors == (1.0, 1.0) and not attribute(node, "transA", 0) and fits


def _groups(model: ModelProto, layers: Sequence[Layer], cells: Sequence[Cell]) -> dict[str, str]:
    """Tensors that are stored in integers, with the first of their scale."""
    floats = _floats(model)
    parent = {name: name for name in floats}
    read = {layer.x for layer in layers}
    made = {layer.name for layer in layers}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for node in model.graph.node:
        if moves(node) and node.input[0] in floats:
            for out in node.output:
                if out in floats:
                    parent[root(out)] = root(node.input[0])
    for way in (w for cell in cells for w in cell.ways):  # a state is one of them all
        parent[root(way.inner[0].x)] = root(way.all)
    gates = {gate.shown for cell in cells for way in cell.ways for gate in way.gates}
    readers = readers_of(model)
    shown = {o.name for o in model.graph.output}
    hidden = {n for n in floats if n not in shown and _is_cut(readers.get(n, []))}
    hidden |= _inside_functions(model, shown)
    others = {n for node in model.graph.node if _reads_integers(node, shown) for n in node.input}
    wanted = {root(n) for n in floats if n in others | read | gates and n not in hidden}
    found = {n: root(n) for n in floats if root(n) in wanted and n not in hidden}
    late = _rounded_later(model, made, found.keys(), shown)
    late -= read | gates
    first: dict[str, str] = {}
    return {n: first.setdefault(r, n) for n, r in found.items() if n not in late}


def _inside_functions(model: ModelProto, shown: set[str]) -> set[str]:
    """Intermediate tensors of a function of one other tensor, which nothing else reads, so that
    x * sigmoid(x) is rounded once."""
    numbers = {t.name for t in model.graph.initializer if math.prod(t.dims) == 1}
    source: dict[str, str] = {}
    for node in model.graph.node:
        read = {source.get(n, n) for n in node.input if n and n not in numbers}
        if node.op_type in FUNCTIONS and len(read) == 1:
            source[node.output[0]] = read.pop()
    readers, inside = readers_of(model), set()
    for name, first in source.items():
        made = [source.get(out) for node in readers.get(name, ()) for out in node.output]
        if name not in shown and made and set(made) == {first}:
            inside.add(name)
    return inside


def _rounded_later(
    model: ModelProto, layers: set[str], stored: Collection[str], shown: set[str]
) -> set[str]:
    """Tensors of floats of which fewer elements are read than there are: moved as floats first,
    less is rounded. What a layer or an operator in integers computes is rounded at once."""
    sizes = _elements(model)
    readers, makers = readers_of(model), {n: node for node in model.graph.node for n in node.output}

    def rounded(name: str) -> int:
        """How many elements are, where that is best."""
        own, parts = sizes.get(name, 0), 0
        for node in readers.get(name, ()):
            if not moves(node):
                if node.name in layers or _reads_integers(node, shown):
                    return own
                continue
            parts += sum(rounded(n) for n in node.output if n in stored)
        return min(own, parts)

    late: set[str] = set()
    for name in stored:  # in order
        maker = makers.get(name)
        if maker is not None and moves(maker):
            is_float = maker.input[0] in late or maker.input[0] not in stored
        else:
            is_float = maker is None or not (maker.name in layers or maker.op_type in INTEGERS)
        if is_float and rounded(name) < sizes.get(name, 0):
            late.add(name)
    return late


def moves(node: NodeProto) -> bool:
    """Whether a node only moves or chooses elements of its first input."""
    if node.op_type == "Resize":
        return attribute(node, "mode", b"nearest") == b"nearest"
    if node.op_type == "Pad":  # prepared ones name no value that is 0
        return len(node.input) < 3 or not node.input[2]
    return node.op_type in MOVES


def _reads_integers(node: NodeProto, shown: set[str]) -> bool:
    """Whether what an operator reads is stored; of what makes the model's own probabilities not."""
    is_last = node.op_type == "Softmax" and not shown.isdisjoint(node.output)
    return node.op_type in ARITHMETIC and not is_last


def _is_cut(readers: list[NodeProto]) -> bool:
    return len(readers) == 1 and readers[0].op_type in CUTS


def _floats(model: ModelProto) -> list[str]:
    """The float32 tensors that are computed or given, in order."""
    stored = {t.name for t in model.graph.initializer}
    kinds = {i.name: i.type.tensor_type.elem_type for i in _typed(model)}
    names = [i.name for i in model.graph.input]
    names += [name for node in model.graph.node for name in node.output if name]
    return [n for n in names if n not in stored and kinds.get(n) == TensorProto.FLOAT]


def _typed(model: ModelProto) -> list[ValueInfoProto]:
    """What is known of tensors."""
    graph = shape_inference.infer_shapes(model).graph
    return [*graph.input, *graph.value_info, *graph.output]


def _elements(model: ModelProto) -> dict[str, int]:
    """How many elements tensors of known shapes have."""
    found = {}
    for info in _typed(model):
        dims = info.type.tensor_type.shape.dim
        if info.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in dims):
            found[info.name] = math.prod(d.dim_value for d in dims)
    return found


def with_weights(model: ModelProto, changed: Mapping[str, Array]) -> ModelProto:
    """The model with other constants of the same names."""
    made = ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.name in changed:
            value = changed[tensor.name].astype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return made
