"""Whether a node is one that its operator's schema allows: how many inputs and outputs, which must
be there, which attributes it has and of which kind, and which element types go together.

onnx's own shape inference takes all this for granted, and so may everything that comes later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import zip_longest
from typing import Any

import onnx
from onnx import AttributeProto, NodeProto, TypeProto
from onnx.defs import OpSchema

from mlftool.importer.protos import type_proto
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import domain_of, op_name, plain_attributes
from mlftool.onnx_rules.scope import Scope
from mlftool.ops import OPS, Trait, has
from mlftool.ops.base import Signature, known

_KINDS: Mapping[str, int] = dict(AttributeProto.AttributeType.items())
Option = OpSchema.FormalParameterOption
schema_of = cache(onnx.defs.get_schema)  # which makes an object of it each time that it is asked
_MANY = 2**31 - 1  # onnx's number of inputs where any number will do
# Integers that mean yes or no. Of any other number one implementation thinks this, another that.
_FLAGS = {
    *("align_corners", "allowzero", "antialias", "broadcast", "ceil_mode", "center_point_box"),
    *("count_include_pad", "detect_negative", "detect_positive", "exclude_outside", "exclusive"),
    *("fmod", "input_forget", "interleaved", "inverse", "is_causal", "is_test", "keepdims"),
    *("largest", "layout", "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided"),
    *("output_sequence", "periodic", "reverse", "saturate", "select_last_index", "sorted"),
    *("spatial", "storage_order", "training_mode", "transA", "transB", "upper"),
    *("channels_last", "transBatchA", "transBatchB", "unidirectional"),  # onnxruntime's own
}


def opset_of(node: NodeProto, opsets: Mapping[str, int]) -> int:
    """The opset that a node means: the newest for what onnxruntime has before its first opset."""
    early = has(op_name(node), Trait.EARLY) and not _is_known(node, opsets[""])
    return onnx.defs.onnx_opset_version() if early else opsets[domain_of(node)]


def misfit(node: NodeProto, opset: int) -> str:
    """What of a node's form its schema does not allow, or ""."""
    counts = Counter(a.name for a in node.attribute)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        return f"has attribute '{twice}' twice"
    if not any(node.output):
        return "has no outputs"
    domain = domain_of(node)
    if not _is_known(node, opset):
        record = known(op_name(node))
        text = _unlike(node, record.signature) if record and record.signature else ""
        return text or (_flags(node) if domain == "com.microsoft" else "")
    schema = schema_of(node.op_type, opset, domain)
    return _count(node, schema) or (_flags(node) if not domain else "") or _attributes(node, schema)


def _is_known(node: NodeProto, opset: int) -> bool:
    return 0 < opset < 2**31 and bool(onnx.defs.has(node.op_type, opset, domain_of(node)))


def _unlike(node: NodeProto, signature: Signature) -> str:
    """As of a schema, of an operator that has a form in its place."""
    inputs, many = signature.inputs.rstrip("*"), signature.inputs.endswith("*")
    least, most = len(inputs.rstrip("?")), _MANY if many else len(inputs)
    if text := _outside(node, (least, most), (1, signature.outputs)):
        return text
    if absent := [k for k, what in enumerate(inputs) if what == "x" and not node.input[k]]:
        return f"lacks input {absent[0]}"
    foreign = [a.name for a in node.attribute if a.name not in signature.attributes]
    return f"has attribute '{foreign[0]}', which {node.op_type} does not know" if foreign else ""


def _outside(node: NodeProto, inputs: tuple[int, int], outputs: tuple[int, int]) -> str:
    """Whether there are fewer or more than these."""
    both = (("inputs", node.input, *inputs), ("outputs", node.output, *outputs))
    for what, names, least, most in both:
        if not least <= len(names) <= most:
            span = f"{least} to {most}" if most < 1_000_000 else f"at least {least}"
            return f"has {len(names)} {what}; expected {least if least == most else span}"
    return ""


def _count(node: NodeProto, schema: OpSchema) -> str:
    inputs, outputs = (schema.min_input, schema.max_input), (schema.min_output, schema.max_output)
    if text := _outside(node, inputs, outputs):
        return text
    either = (Option.Optional, Option.Variadic)  # Split needs not all of its outputs
    for what, names, formals, free in (
        ("input", node.input, schema.inputs, either[:1]),
        ("output", node.output, schema.outputs, either),
    ):
        for k, name in enumerate(names):
            formal = formals[min(k, len(formals) - 1)]
            if not name and formal.option not in free:
                return f"lacks {what} '{formal.name}'"
    return ""


def _flags(node: NodeProto) -> str:
    for attribute in node.attribute:
        if attribute.name in _FLAGS and attribute.i not in (0, 1) and not attribute.ref_attr_name:
            return f"attribute '{attribute.name}' is {attribute.i}; expected 0 or 1"
    return ""


def _attributes(node: NodeProto, schema: OpSchema) -> str:
    if any(a.name.startswith("mlf.") for a in node.attribute):
        return ""  # made by us, in a form of another opset
    kinds = AttributeProto.AttributeType
    for attribute in node.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None:
            return f"has attribute '{attribute.name}', which its opset does not know"
        wanted = _KINDS[str(known.type).rpartition(".")[2]]
        got: int = attribute.type or _kind(attribute)
        if attribute.ref_attr_name:
            continue
        if wanted == got:
            continue
        if not _empty_list(attribute, wanted):
            text = f"{_name(kinds, got)}; expected {_name(kinds, wanted)}"
            return f"attribute '{attribute.name}' is {text}"
    given = {a.name for a in node.attribute}
    missing = next((k for k, a in schema.attributes.items() if a.required and k not in given), "")
    return f"lacks attribute '{missing}'" if missing else ""


def _kind(attribute: AttributeProto) -> int:
    """Of an attribute of the first IR versions, which did not state it."""
    fields = {"f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "floats": 6, "ints": 7, "strings": 8}
    found = [code for name, code in fields.items() if _is_set(attribute, name)]
    return found[0] if len(found) == 1 else 0


def _is_set(attribute: AttributeProto, name: str) -> bool:
    return bool(getattr(attribute, name)) if name.endswith("s") and name != "s" else (
        attribute.HasField(name)
    )  # fmt: skip


def _empty_list(attribute: AttributeProto, wanted: int) -> bool:
    """A list without elements says nothing of its kind."""
    lists = (AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS)
    return wanted in lists and attribute.type in lists and not (
        attribute.floats or attribute.ints or attribute.strings
    )  # fmt: skip


def _name(kinds: Any, code: int) -> str:
    return str(kinds.Name(code)) if code in kinds.values() else f"of kind {code}"


def mistyped(node: NodeProto, opset: int, types: Mapping[str, TensorType]) -> str:
    """Which inputs have element types that do not go together, or "".

    What one type variable stands for must be one type; whether the operator takes it is asked
    elsewhere, since kernels take more than old opsets name.
    """
    domain = domain_of(node)
    if not _is_known(node, opset):
        return _flags(node) if domain == "com.microsoft" else ""
    schema = schema_of(node.op_type, opset, domain)
    variables, formals = {c.type_param_str for c in schema.type_constraints}, schema.inputs
    bound: dict[str, tuple[str, TensorType]] = {}
    for k, name in enumerate(node.input):
        formal = formals[min(k, len(formals) - 1)] if formals else None
        if formal is None or not name or name not in types or formal.type_str not in variables:
            continue
        if formal.option == Option.Variadic and not formal.is_homogeneous:
            continue
        other, type_ = bound.setdefault(formal.type_str, (name, types[name]))
        if type_.dtype != types[name].dtype:
            return (
                f"inputs '{other}' and '{name}' are {type_.dtype} and {types[name].dtype}; "
                "expected one type"
            )
    return ""


def untaken(node: NodeProto, opset: int, types: Mapping[str, TensorType]) -> str:
    """Which input has an element type that the operator does not take, or "": for operators of
    which onnx's inference is not asked."""
    if not _is_known(node, opset):
        return ""
    formals = schema_of(node.op_type, opset, domain_of(node)).inputs
    for k, name in enumerate(node.input):
        formal = formals[min(k, len(formals) - 1)]
        if name in types and f"tensor({_onnx_name(types[name])})" not in formal.types:
            expected = ", ".join(sorted(t[7:-1] for t in formal.types))
            return f"input '{name}' is {types[name].dtype}; expected {expected}"
    return ""


def _onnx_name(type_: TensorType) -> str:
    return {"float32": "float", "float64": "double"}.get(type_.dtype.name, type_.dtype.name)


@cache
def _domains() -> frozenset[str]:
    found = {domain for domain, _ in onnx.helper.OP_SET_ID_VERSION_MAP}
    return frozenset("" if domain == "ai.onnx" else domain for domain in found)


def is_own(node: NodeProto) -> bool:
    """Whether `node` is of a domain that onnx does not have, and ops/ says what it gives."""
    known = OPS.get(op_name(node))
    return known is not None and known.result is not None and domain_of(node) not in _domains()


def result_types(node: NodeProto, scope: Scope) -> dict[str, TypeProto]:
    """The first output's type, with its inputs' extents that are known only at run time. Raises
    UnsupportedError if the operator refuses these inputs."""
    result = OPS[op_name(node)].result
    assert result is not None
    made = result([scope.types.get(name) for name in node.input], plain_attributes(node))
    rows = [scope.extents_of(name)[::-1] for name in filter(None, node.input)]
    symbols = [next(filter(None, along), "") for along in zip_longest(*rows, fillvalue="")]
    return {node.output[0]: type_proto(made, symbols[::-1] if any(symbols) else ())}
