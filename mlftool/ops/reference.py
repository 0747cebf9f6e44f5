"""Values of operators by the standard's reference implementation: constant folding and tables."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from mlftool.ir import dtype
from mlftool.ir.graph import Array, Node, TensorType
from mlftool.ir.rounding import ATTRIBUTE, IN_FLOATS
from mlftool.onnx_rules.protos import domain_of
from mlftool.ops.base import Trait, is_a, known, record

# Operators whose old opsets have no implementation, or a wrong one: as what they are evaluated, and
# the first opset in which that is right. Batches are not normalised by their own mean before 14.
NEWER = {
    "Scatter": ("ScatterElements", 11),
    "BatchNormalization": ("BatchNormalization", 14),
    "Gemm": ("Gemm", 7),
    "Split": ("Split", 2),
}


def evaluate_proto(
    node: NodeProto, inputs: Sequence[Array | None], opsets: Mapping[str, int]
) -> list[Any]:
    """The outputs of an ONNX node for known inputs, None for those without a name. Floats of 16
    bits are computed in float32 and rounded once, as in kernels; those that round float16's steps
    do it as numpy does. Raises whatever onnx or numpy raises."""
    halves = {i.dtype for i in inputs if i is not None and i.dtype.name in dtype.HALVES}
    if len(halves) != 1 or domain_of(node):
        return _evaluated(node, inputs, opsets)
    (half,) = halves
    found = known(node.op_type)
    if half == np.float16 and found is not None and Trait.ROUNDS_STEPS in found.traits:
        return _evaluated(node, inputs, opsets)
    schema = onnx.defs.get_schema(node.op_type, opsets[""])
    types = [f.type_str for f in schema.inputs]
    of_halves = {
        types[min(k, len(types) - 1)]
        for k, i in enumerate(inputs)
        if i is not None and i.dtype == half
    }
    closed = [f.type_str in of_halves for f in schema.outputs]
    if not closed[0]:  # Cast, comparisons
        return _evaluated(node, inputs, opsets)
    wide = [i.astype(np.float32) if i is not None and i.dtype == half else i for i in inputs]
    made = _evaluated(node, wide, opsets)
    return [
        m.astype(half) if m is not None and closed[min(k, len(closed) - 1)] else m
        for k, m in enumerate(made)
    ]


def _evaluated(
    node: NodeProto, inputs: Sequence[Array | None], opsets: Mapping[str, int]
) -> list[Any]:
    domain = domain_of(node)
    record = None if domain else known(node.op_type)
    if record is not None and record.constant is not None:
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        with np.errstate(all="ignore"):  # of a model's own infinities
            made = record.constant(inputs, attrs, opsets[""])
        return [*made] if isinstance(made, tuple) else [made]
    node = NodeProto.FromString(node.SerializeToString())
    node.domain = domain  # by the one name that `opsets` has
    if node.op_type in NEWER and not domain:
        node.op_type, least = NEWER[node.op_type]
        opsets = {**opsets, "": max(opsets[""], least)}
        _keep(node, onnx.defs.get_schema(node.op_type, opsets[""]).attributes)  # not `spatial`
    if node.op_type == "QuantizeLinear":
        inputs = _in_steps(node, inputs)
    to = next((helper.get_attribute_value(a) for a in node.attribute if a.name == "to"), None)
    if to == TensorProto.STRING and inputs[0] is not None and inputs[0].dtype.kind not in "iuSUO":
        return [_in_words(inputs[0])]
    from onnx.reference import ReferenceEvaluator  # which most models never need

    imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
    pairs = zip(node.input, inputs, strict=True)
    feeds = {n: dtype.texts(v) for n, v in pairs if n and v is not None}
    given = [helper.make_empty_tensor_value_info(n) for n in feeds]
    results = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
    graph = helper.make_graph([node], "node", given, results)
    model = helper.make_model(graph, opset_imports=imports)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = iter(ReferenceEvaluator(model).run(None, feeds))
    found = [next(values) if name else None for name in node.output]
    return [dtype.slots(r) if isinstance(r, np.ndarray) else r for r in found]


def _keep(node: NodeProto, names: Collection[str]) -> None:
    """Let a node have these attributes alone."""
    for k in reversed(range(len(node.attribute))):
        if node.attribute[k].name not in names:
            del node.attribute[k]


def _in_words(x: Array) -> Array:
    """Floats and truth values as onnxruntime writes them; onnx's implementation takes Python's."""
    names = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
    said = [f"{v:.8g}" for v in x.astype(np.float64).reshape(-1).tolist()]
    words = np.array([names.get(text, text) for text in said], object)
    return dtype.slots(words.reshape(x.shape))


def _in_steps(node: NodeProto, inputs: Sequence[Array | None]) -> list[Array | None]:
    """A QuantizeLinear's inputs as quotients and scales of 1, which are in float32 what they are in
    their own type, above 2^30 cut to that: onnx's own implementation casts to an integer before it
    saturates, and wraps."""
    x, scale, *rest = inputs
    assert x is not None
    assert scale is not None
    attrs = {"axis": 1, "block_size": 0, "precision": 0, **{a.name: a.i for a in node.attribute}}
    spread = scale
    if block := attrs["block_size"]:
        parts = range(x.shape[attrs["axis"]])
        spread = np.repeat(scale, block, attrs["axis"]).take(parts, attrs["axis"])
    elif scale.size > 1 and scale.ndim == 1:
        spread = np.moveaxis(scale.reshape(-1, *[1] * (x.ndim - 1)), 0, attrs["axis"])
    row = dtype.BY_ONNX[attrs["precision"]].numpy if attrs["precision"] else scale.dtype
    with np.errstate(all="ignore"):
        steps = (x.astype(np.float32) / spread.astype(np.float32)).astype(row).astype(np.float32)
    _keep(node, {a.name for a in node.attribute} - {"precision"})
    return [np.clip(steps, -(2.0**30), 2.0**30), np.ones(scale.shape, np.float32), *rest]


def knows(node: Node) -> bool:
    """Whether `evaluate` computes the operator as the standard's tests and onnxruntime do."""
    own = "." in node.op and record(node).constant is None
    return not (own or is_a(node, Trait.KEPT) or ATTRIBUTE in node.attrs)


def evaluate(node: Node, inputs: Sequence[Array | None]) -> Array:
    """The first output of one of our nodes, in the newest spelling of its operator."""
    if "." in node.op and (value := record(node).constant):
        return np.asarray(value(inputs, node.attrs, onnx.defs.onnx_opset_version()))
    attrs = {k: v for k, v in node.attrs.items() if not k.startswith("mlf.")}
    if is_a(node, Trait.QUANTISE):
        if inputs[1] is not None and sum(n > 1 for n in inputs[1].shape) > 1:
            return _per_block(node.op, inputs)
        inputs, named = _per_axis(inputs)
        attrs |= named
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(inputs)]
    proto = helper.make_node(node.op, names, ["y"], **attrs)
    results = evaluate_proto(proto, inputs, {"": onnx.defs.onnx_opset_version()})
    return np.asarray(results[0])


def evaluated(
    node: Node, consts: Mapping[str, Array], types: Mapping[str, TensorType]
) -> Array | None:
    """What a node with constant inputs gives, if the standard's reference knows: not where passes
    have said more of it than the standard can, or where it cannot be computed."""
    if len(node.outputs) > 1 or not knows(node):
        return None
    if not all(i in consts for i in node.inputs if i):
        return None
    if is_a(node, Trait.VIEW):
        return consts[node.inputs[0]].reshape(types[node.result].shape)
    if any(name.startswith("mlf.") and name != IN_FLOATS for name in node.attrs):
        return None
    try:
        value = evaluate(node, [consts[i] if i else None for i in node.inputs])
    except Exception:  # whatever the reference implementation raises
        return None
    return value if TensorType(dtype.of(value), value.shape) == types[node.result] else None


def _per_axis(inputs: Sequence[Array | None]) -> tuple[list[Array | None], dict[str, Any]]:
    """Our scales broadcast; the standard's are one value, or a vector along `axis`."""
    scale = inputs[1]
    assert scale is not None
    axis = int(np.argmax(scale.shape)) if scale.ndim else 0
    shape = () if scale.size == 1 else (scale.size,)
    flat = [None if value is None else value.reshape(shape) for value in inputs[1:]]
    return [inputs[0], *flat], {"axis": axis}


def _per_block(operator: str, inputs: Sequence[Array | None]) -> Array:
    """Scales that repeat along an axis inside the tensor, which the standard has no spelling for:
    everything is spread to x's shape and taken as one scale per element of one long axis."""
    x = inputs[0]
    assert x is not None
    flat = [None if i is None else np.broadcast_to(i, x.shape).reshape(-1) for i in inputs]
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(flat)]
    proto = helper.make_node(operator, names, ["y"], axis=0)
    (y,) = evaluate_proto(proto, flat, {"": onnx.defs.onnx_opset_version()})
    return np.asarray(y).reshape(x.shape)
