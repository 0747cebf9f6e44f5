"""A float model in the form that is quantised: static, normalisations folded, each layer with a
bias and a name of its own.

    %t = Conv(%x, w)                        =>   %y = Conv(%x, w * f, a)
    %y = Add(Mul(%t, f), a)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import (
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    helper,
    numpy_helper,
    shape_inference,
    version_converter,
)

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.importer.calls import unbounded
from mlftool.importer.structure import all_results
from mlftool.ir.graph import Array
from mlftool.quantize.runtime import result_shapes, simplified

ROWS = frozenset(("Gemm", "MatMul"))
TRANSPOSED = "ConvTranspose"
LAYERS = frozenset(("Conv", TRANSPOSED, *ROWS))
FORMAT = 10  # the file's; onnxruntime lags behind the newest
OLDEST = 13  # the opset in which scales can be per channel
_FUSED = re.compile("^((Conv|MatMul|Gemm)[A-Za-z]*Fusion_([A-Z]+_)*)+")  # onnxruntime's prefixes


def prepared(
    model: ModelProto, file: str, shapes: Mapping[str, Sequence[int]] | None = None
) -> ModelProto:
    """The same function, folded; `shapes` bind open extents of inputs. Raises MlfError for a model
    that is no float model."""
    _check_functions(model, file)
    _check_float(model, file)
    fixed = ModelProto()
    fixed.CopyFrom(model)
    fixed.ir_version = min(fixed.ir_version, FORMAT)  # nothing that operators need is newer
    _one_sample(fixed, file, shapes or {})
    fixed = simplified(_modern(fixed, file), file)
    _take_apart(fixed)
    _fold_all(fixed)
    _add_biases(fixed)
    _tidy(fixed)
    return _with_output_shapes(fixed)


def whole(node: NodeProto, name: str, default: int) -> int:
    """An attribute that is an integer."""
    found = attribute(node, name, default)
    assert isinstance(found, int)
    return found


def _with_output_shapes(model: ModelProto) -> ModelProto:
    """Those that follow from the inputs'; where onnx cannot tell, those of a run."""
    typed = shape_inference.infer_shapes(model, data_prop=True)
    unknown = [
        o.name
        for o in typed.graph.output
        if not o.type.tensor_type.HasField("shape")
        or any(not d.dim_value for d in o.type.tensor_type.shape.dim)
    ]
    shapes = result_shapes(model, unknown) if unknown else {}
    for o, known in zip(model.graph.output, typed.graph.output, strict=True):
        o.CopyFrom(known)
        if o.name in shapes:
            made = helper.make_tensor_type_proto(known.type.tensor_type.elem_type, shapes[o.name])
            o.type.CopyFrom(made)
    return model


def attribute(node: NodeProto, name: str, default: object = None) -> object:
    """The value of a node's attribute."""
    for a in node.attribute:
        if a.name == name:
            return helper.get_attribute_value(a)
    return default


def _check_functions(model: ModelProto, file: str) -> None:
    """Before onnx's inference and onnxruntime take calls apart, into any number of nodes."""
    if problem := unbounded(model):
        raise MlfError(Problem("MLF0302", problem[0], file, help=problem[1]))


def _check_float(model: ModelProto, file: str) -> None:
    kinds = {n.op_type for n in model.graph.node}
    if kinds & {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QGemm", "QLinearMatMul"}:
        help = "name the float model that it was made from; mlftool compile takes it as it is"
        raise MlfError(Problem("MLF0413", "is quantised already", file, help=help))


def _one_sample(model: ModelProto, file: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Inputs get a batch of 1. Raises MlfError for any other extent that is open."""
    stored = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in stored]
    problems = _unfit_shapes(model, [i.name for i in inputs], file, shapes)
    for info in inputs:
        dims = info.type.tensor_type.shape.dim
        given = shapes.get(info.name)
        if given and not info.type.tensor_type.HasField("shape"):
            dims.extend(TensorShapeProto.Dimension() for _ in given)
        if given is not None and not _fits(dims, given):
            text = f"shape {list(given)} does not fit the model's {_shown(dims)}"
            problems.append(Problem("MLF0208", text, file, path=f"input '{info.name}'"))
            continue
        for dim, extent in zip(dims, given or (1,), strict=False):
            if not dim.dim_value:
                dim.dim_value = extent
        if any(not d.dim_value for d in dims):
            text = f"shape {_shown(dims)} is not known"
            hint = f"--input-shape {info.name}:1,..."
            problems.append(Problem("MLF0206", text, file, path=f"input '{info.name}'", help=hint))
    if not inputs:
        problems.append(Problem("MLF0413", "has no input that samples could be of", file))
    if problems:
        raise MlfError(problems)
    del model.graph.value_info[:]
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):  # a type that is only asked for is there, of type 0
            info.type.tensor_type.ClearField("shape")


def _unfit_shapes(
    model: ModelProto, inputs: Sequence[str], file: str, shapes: Mapping[str, Sequence[int]]
) -> list[Problem]:
    """Shapes may be given for inputs, and for what nodes compute, as for the compiler."""
    known = {*inputs} | all_results(model.graph)
    return [
        Problem(
            *("MLF0208", f"shape given for '{name}', which is not an input of the model", file),
            help=did_you_mean(name, inputs),
        )
        for name in shapes
        if name not in known
    ]


def _fits(dims: Sequence[TensorShapeProto.Dimension], shape: Sequence[int]) -> bool:
    pairs = zip(dims, shape, strict=False)
    return len(dims) == len(shape) and all(d.dim_value in (0, extent) for d, extent in pairs)


def _shown(dims: Sequence[TensorShapeProto.Dimension]) -> list[int | str]:
    return [d.dim_value or d.dim_param or "?" for d in dims]


def _modern(model: ModelProto, file: str) -> ModelProto:
    """In an opset that has scales per channel."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if version >= OLDEST:
        return model
    try:
        return version_converter.convert_version(model, OLDEST)
    except Exception as error:  # of C++, without a type of its own
        text = f"opset {version} cannot be converted to {OLDEST}: {str(error).splitlines()[0]}"
        raise MlfError(Problem("MLF0204", text, file)) from None


def _take_apart(model: ModelProto) -> None:
    """onnxruntime makes a Gemm of a product and any addend: a computed one is no bias.

    %y = Gemm(%x, w, %c)    =>    %p = Gemm(%x, w);  %y = Add(%p, %c)
    """
    stored = {t.name for t in model.graph.initializer}
    for place in reversed(range(len(model.graph.node))):
        node = model.graph.node[place]
        if node.op_type != "Gemm" or len(node.input) < 3 or node.input[2] in {"", *stored}:
            continue
        if attribute(node, "beta", 1.0) != 1.0:
            continue
        y, addend = node.output[0], node.input.pop()
        node.output[0] = f"{y}.product"
        model.graph.node.insert(
            place + 1, helper.make_node("Add", [node.output[0], addend], [y], y)
        )


def _fold_all(model: ModelProto) -> None:
    """Until nothing is left to fold."""
    while any(_fold(model, node) for node in list(model.graph.node)):
        pass


def _fold(model: ModelProto, node: NodeProto) -> bool:
    """Puts a factor or an addend per channel into the convolution or Gemm that it follows."""
    graph = model.graph
    if node.op_type not in ("Mul", "Div", "Add", "Sub", "BatchNormalization"):
        return False
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    makers = {name: n for n in graph.node for name in n.output}
    places = {n: k for k, n in enumerate(node.input) if n in makers}
    if len(places) != 1:
        return False
    ((data, place),) = places.items()
    source = makers[data]
    readers = sum(list(n.input).count(data) for n in graph.node)
    shown = {o.name for o in graph.output}.union(*(inner_reads(n) for n in graph.node))
    if readers != 1 or data in shown or not _takes_factors(source, constants):
        return False
    affine = _affine(node, place, constants, source)
    if affine is None:
        return False
    _apply(model, source, node, affine, constants)
    return True


def _takes_factors(node: NodeProto, constants: Mapping[str, Array]) -> bool:
    """Whether it is a layer whose bias, if it has one, counts channels: Gemm's may have rows."""
    if node.op_type not in ("Conv", "ConvTranspose", "Gemm") or node.input[1] not in constants:
        return False
    bias = node.input[2] if len(node.input) > 2 else ""
    if not bias:
        return True
    count = channels(node, constants[node.input[1]])
    return bias in constants and constants[bias].size in (1, count) and _in_one_row(constants[bias])


def _in_one_row(bias: Array) -> bool:
    return bias.size == bias.shape[-1] if bias.ndim else True


def _affine(
    node: NodeProto, place: int, constants: dict[str, Array], source: NodeProto
) -> tuple[Array, Array] | None:
    """Factor and addend per output channel in float64."""
    others = [constants.get(name) for k, name in enumerate(node.input) if k != place]
    if any(o is None for o in others):
        return None
    if node.op_type == "BatchNormalization":
        s, o, m, v = (np.asarray(x, np.float64) for x in others)
        f = s / np.sqrt(v + float(attribute(node, "epsilon", 1e-5)))  # type: ignore[arg-type]
        return f, o - m * f
    value = _per_channel(np.asarray(others[0]), constants[source.input[1]], source)
    if value is None:
        return None
    one, zero = np.ones_like(value), np.zeros_like(value)
    if node.op_type == "Mul":
        return value, zero
    if node.op_type == "Div":
        return (1 / value, zero) if place == 0 and value.all() else None
    if node.op_type == "Add":
        return one, value
    return (one, -value) if place == 0 else (-one, value)


def _per_channel(value: Array, weights: Array, source: NodeProto) -> Array | None:
    """A constant that is one number, or one for each output channel."""
    count = channels(source, weights)
    rank = weights.ndim
    if value.ndim > rank:
        return None
    axis = 1 if rank > 2 or source.op_type != "Gemm" else rank - 1
    shape = (1,) * (rank - value.ndim) + value.shape
    if any(n != 1 for k, n in enumerate(shape) if k != axis) or shape[axis] not in (1, count):
        return None
    flat: Array = np.broadcast_to(value.astype(np.float64).reshape(-1), (count,))
    return flat


def channels(node: NodeProto, weights: Array) -> int:
    """Output channels of a layer with these weights."""
    if node.op_type == "ConvTranspose":
        return int(weights.shape[1]) * whole(node, "group", 1)
    return int(weights.shape[weight_axis(node)])


def weight_axis(node: NodeProto) -> int:
    """The axis of the weights that counts output channels, those of a group if there are any."""
    if node.op_type == "Gemm":
        return 0 if attribute(node, "transB", 0) else 1
    return 1 if node.op_type in ("ConvTranspose", "MatMul") else 0


def _apply(
    model: ModelProto,
    source: NodeProto,
    node: NodeProto,
    affine: tuple[Array, Array],
    constants: dict[str, Array],
) -> None:
    factor, addend = affine
    weights = constants[source.input[1]].astype(np.float64)
    axis = weight_axis(source)
    if source.op_type == "ConvTranspose":
        groups = factor.size // weights.shape[1]
        parts = weights.reshape(groups, -1, *weights.shape[1:])
        shape = (groups, 1, weights.shape[1], *(1,) * (weights.ndim - 2))
        scaled = (parts * factor.reshape(shape)).reshape(weights.shape)
    else:
        scaled = weights * factor.reshape([-1 if k == axis else 1 for k in range(weights.ndim)])
    bias = constants[source.input[2]] if len(source.input) > 2 and source.input[2] else 0.0
    beta = float(attribute(source, "beta", 1.0))  # type: ignore[arg-type]
    added = np.asarray(bias, np.float64) * beta * factor + addend
    names = f"{node.output[0]}.weight", f"{node.output[0]}.bias"
    for name, value in zip(names, (scaled, added.reshape(-1)), strict=True):
        tensor = numpy_helper.from_array(value.astype(np.float32), name)
        model.graph.initializer.append(tensor)
    source.input[1:] = names
    for a in source.attribute:
        if a.name == "beta":
            a.f = 1.0
    source.output[0] = node.output[0]
    model.graph.node.remove(node)


def _add_biases(model: ModelProto) -> None:
    """One bias for each output channel, zeros where a layer has none: corrections go into it."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm") or node.input[1] not in constants:
            continue
        count = channels(node, constants[node.input[1]])
        given = node.input[2] if len(node.input) > 2 else ""
        bias = constants.get(given, np.zeros(1, np.float32))
        if (given and given not in constants) or bias.shape == (count,):
            continue
        if bias.size not in (1, count) or bias.shape[-1:] not in ((), (1,), (count,)):
            continue  # another one for each row
        name = f"{node.output[0]}.bias"
        spread = np.broadcast_to(bias.reshape(-1), (count,)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(spread), name))
        node.input[2:] = [name]


def _tidy(model: ModelProto) -> None:
    """One name for each node, no weights without a reader, only operator sets that are used; what
    several layers share, each gets for itself."""
    graph = model.graph
    taken: Counter[str] = Counter()
    for node in graph.node:
        name = _FUSED.sub("", node.name) or node.output[0]
        taken[name] += 1
        node.name = name if taken[name] == 1 else f"{name}_{taken[name]}"
    stored = {t.name: t for t in graph.initializer}
    uses = Counter(i for n in graph.node for i in n.input if i in stored)
    for node in graph.node:
        if node.op_type == "Pad" and len(node.input) > 2 and _is_zero(stored.get(node.input[2])):
            node.input[2] = ""
        for k, name in enumerate(node.input):
            if uses.get(name, 0) > 1 and node.op_type in LAYERS:
                copy = graph.initializer.add()
                copy.CopyFrom(stored[name])
                copy.name = node.input[k] = f"{node.name}.{k}.{name}"
    read = {i for n in graph.node for i in n.input} | {o.name for o in graph.output}
    read = read.union(*(inner_reads(n) for n in graph.node))
    kept = [t for t in graph.initializer if t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    used = {n.domain for n in graph.node} | {""}
    sets = [o for o in model.opset_import if o.domain in used]
    del model.opset_import[:]
    model.opset_import.extend(sets)
    model.ClearField("metadata_props")


def _is_zero(constant: TensorProto | None) -> bool:
    return constant is not None and not numpy_helper.to_array(constant).any()


def inner_reads(node: NodeProto) -> set[str]:
    """What its subgraphs read."""
    found: set[str] = set()
    for a in node.attribute:
        for inner in a.g.node:
            found |= {*inner.input, *inner_reads(inner)}
    return found
