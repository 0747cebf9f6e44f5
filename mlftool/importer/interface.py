"""Inputs and outputs as an ONNX graph declares them, with run-time dimensions bound."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, helper

from mlftool.importer.protos import type_name
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType
from mlftool.onnx_rules.protos import domain_of, op_name
from mlftool.onnx_rules.scope import Report
from mlftool.ops import Trait, has

OLDEST_OPSET = 1
# Domains that exporters forget to import, and the versions that are meant.
FORGOTTEN = {"com.microsoft": 1, "ai.onnx.ml": 5}


def check_names(kind: str, names: Sequence[str], report: Report) -> None:
    """Inputs and outputs become members of C structs: each needs a name of its own."""
    for k, name in enumerate(names):
        if not name:
            report("MLF0207", f"{kind} {k} has no name")
        elif name in names[:k]:
            report("MLF0207", f"{kind} '{name}' is listed twice")


def declared_type(
    info: ValueInfoProto, given: Sequence[int] | None, report: Report
) -> TensorType | None:
    """Type of a graph input; `given` binds its run-time dimensions. None after a report."""
    where = f"input '{info.name}'"
    if not info.type.HasField("tensor_type"):
        kind = (info.type.WhichOneof("value") or "value without a type").removesuffix("_type")
        report("MLF0205", f"expected a tensor; got: {kind.replace('_', ' ')}", where)
        return None
    tensor = info.type.tensor_type
    if tensor.elem_type not in dtype.BY_ONNX:
        text = f"element type {type_name(tensor.elem_type)}; supported: {dtype.SUPPORTED}"
        report("MLF0205", text, where)
        return None
    if not tensor.HasField("shape") and given is None:
        help = f"give it: --input-shape {info.name}:1,3,32,32"
        report("MLF0206", "has no shape", where, help)
        return None
    # -1 is how Paddle's exporter writes an extent that it does not know.
    dims = [
        d.dim_value if d.HasField("dim_value") and d.dim_value != -1 else d.dim_param or "?"
        for d in tensor.shape.dim
    ]
    if given is not None:
        code, shape = "MLF0208", _bound(dims, given, where, tensor.HasField("shape"), report)
    else:
        code, shape = "MLF0206", _fixed(dims, where, info.name, report)
    if shape is not None and any(d < 0 for d in shape):
        report(code, f"shape {_commas(shape)}; expected no negative dimension", where)
        return None
    return None if shape is None else TensorType(dtype.BY_ONNX[tensor.elem_type], shape)


def _bound(
    dims: list[Any], given: Sequence[int], where: str, ranked: bool, report: Report
) -> tuple[int, ...] | None:
    fits = not ranked or (
        len(given) == len(dims)
        and all(not isinstance(d, int) or d == g for d, g in zip(dims, given, strict=True))
    )
    if not fits:
        text = f"shape {_commas(given)} does not fit the model's {_commas(dims)}"
        report("MLF0208", text, where)
        return None
    return tuple(given)


def _fixed(dims: list[Any], where: str, name: str, report: Report) -> tuple[int, ...] | None:
    if any(not isinstance(d, int) for d in dims):
        example = ",".join("1" if not isinstance(d, int) else str(d) for d in dims)
        help = f"bind it: --input-shape {name}:{example}, manifests' input_shapes, shape in Python"
        report("MLF0206", f"shape {_commas(dims)} is not known before run time", where, help)
        return None
    return tuple(dims)


def read_opsets(model: ModelProto | FunctionProto, report: Report) -> dict[str, int]:
    """Domain -> version; the newest one where the model forgot the default domain.

    onnxruntime knows two other domains without an import, and NNCF writes MatMulNBits so."""
    opsets: dict[str, int] = {}
    newest = onnx.defs.onnx_opset_version()
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        # skl2onnx imports domains twice; as long as the versions agree, that says nothing new.
        if opsets.get(domain, entry.version) != entry.version:
            versions = f"{opsets[domain]} and as {entry.version}; expected one version"
            report("MLF0204", f"opset of domain '{entry.domain}' is imported as {versions}")
        if not 0 <= entry.version < 2**31 and domain:
            text = f"opset {entry.version} of domain '{domain}'; expected at most {2**31 - 1}"
            report("MLF0204", text)
        opsets[domain] = entry.version
    for domain, latest in FORGOTTEN.items():
        opsets.setdefault(domain, latest)
    version = opsets.setdefault("", 0)
    if version == 0:
        opsets[""] = newest
        nodes = model.node if isinstance(model, FunctionProto) else model.graph.node
        if any(not domain_of(node) for node in nodes):
            report("MLF0204", "the model imports no opset of the default domain")
    elif not OLDEST_OPSET <= version <= newest:
        report(
            "MLF0204",
            f"opset {version}; expected {OLDEST_OPSET} to {newest}",
            help="convert the model with onnx.version_converter",
        )
    return opsets


def check_output(
    info: ValueInfoProto, made: TensorType, stated: Sequence[int], report: Report
) -> str:
    """An output must have the element type that the model declares for it, as far as it does, and
    the shape `stated` by the user, if one is; `made` has -1 for extents known only at run time.
    Some exporters declare a wrong shape, which onnxruntime warns of: so the answer is a remark."""
    declared = info.type.tensor_type
    dims = list(stated) if stated else _static(declared)
    typed = declared.elem_type in (0, made.dtype.onnx)
    fits = True
    if stated or declared.HasField("shape"):
        fits = len(dims) == len(made.shape)
        fits = fits and all(d in (None, m) or m < 0 for d, m in zip(dims, made.shape, strict=True))
    if not typed or not fits:
        shown = "x".join("?" if d is None else str(d) for d in dims)
        known = dtype.BY_ONNX.get(declared.elem_type)
        kind = known.name if known else type_name(declared.elem_type)
        text = f"is declared as {kind}[{shown}], but the model computes {made}"
        if typed and not stated:
            return text
        report("MLF0206", text, f"output '{info.name}'")
    return ""


def completed(
    proto: TypeProto | None, declared: TypeProto | None, symbols: Collection[str] = ()
) -> TypeProto | None:
    """What inference found out about a value, with what the model declares where it is silent.

    `symbols` are the names of extents that are known at run time only, and by name."""
    known = declared is not None and declared.HasField("tensor_type")
    silent = proto is None or not proto.WhichOneof("value")
    if proto is None or not proto.HasField("tensor_type"):
        stated_type = known and declared is not None and declared.tensor_type.elem_type != 0
        return declared if silent and stated_type else proto
    if declared is None or not known or not declared.tensor_type.HasField("shape"):
        return proto
    found, stated = proto.tensor_type, declared.tensor_type
    dims: list[int | str | None] = [None] * len(stated.shape.dim)
    if found.HasField("shape"):
        named = [d.dim_param if d.dim_param in symbols else None for d in found.shape.dim]
        dims = [n if d is None else d for n, d in zip(named, _static(found), strict=True)]
    if len(dims) != len(stated.shape.dim):
        return proto
    merged = [d if d is not None else s for d, s in zip(dims, _static(stated), strict=True)]
    return helper.make_tensor_type_proto(found.elem_type, merged)


def declare_sources(
    nodes: Sequence[NodeProto], declared: dict[str, TypeProto], scalars: Collection[str]
) -> None:
    """What is declared of a result holds for the one thing it is made of element by element.

    y: float[3]; t = ReduceSum(x, axes); y = Mul(t, scalar)   =>   t: ?[3]
    """
    known = _made_of_scalars(nodes, scalars)
    made_of: dict[str, str] = {}
    for node in nodes:
        names = {made_of.get(n, n) for n in node.input if n and n not in known}
        if op_name(node) == "CastLike" and node.input:
            names = {made_of.get(node.input[0], node.input[0])} - known
        if _elementwise(node) and len(names) == 1 and node.output:
            made_of[node.output[0]] = names.pop()
    shapes: dict[str, TypeProto] = {}
    for result, source in made_of.items():
        if result in declared and declared[result].tensor_type.HasField("shape"):
            shapes[source] = TypeProto()
            shapes[source].tensor_type.shape.CopyFrom(declared[result].tensor_type.shape)
    for source, type_ in shapes.items():
        declared.setdefault(source, type_)


def _elementwise(node: NodeProto) -> bool:
    return has(op_name(node), Trait.ELEMENTWISE) or op_name(node) == "CastLike"


def _made_of_scalars(nodes: Sequence[NodeProto], scalars: Collection[str]) -> set[str]:
    """`scalars`, which have no dimensions, and what is computed of nothing else."""
    known = set(scalars)
    for node in nodes:
        if op_name(node) == "Constant":
            tensors = [a.t for a in node.attribute if a.name == "value"]
            single = any(a.name in ("value_int", "value_float") for a in node.attribute)
            if single or any(not t.dims for t in tensors):
                known.update(node.output)
        elif _elementwise(node) and all(not name or name in known for name in node.input):
            known.update(node.output)
    return known


def _static(tensor: Any) -> list[int | None]:
    """The extents that a type states; one that is negative is as good as none."""
    dims = tensor.shape.dim
    return [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims]


def _commas(dims: Sequence[Any]) -> str:
    return ",".join(map(str, dims))
