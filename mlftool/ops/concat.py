"""Concat and Split: tensors put together along an axis, and taken apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import NodeProto

from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType, View
from mlftool.ir.relay import Site
from mlftool.onnx_rules.draft import attr_to_input
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import KEEP, Next, Outcome, Refuse, Scope, Symbols
from mlftool.onnx_rules.shaping import Element
from mlftool.ops.base import FIRST, Kernel, Operand, Trait, UnsupportedError, op
from mlftool.ops.scalar import tensor_operand


def _relay_split(s: Site) -> tuple[str, ...]:
    axis = s.axis(0)
    extents = [type_.shape[axis] for type_ in s.made]
    ends = [sum(extents[: k + 1]) for k in range(len(extents) - 1)]
    parts = s.call("split", s.arg(), indices_or_sections=ends, axis=axis)
    return tuple(f"{parts}.{k}" for k in range(len(extents)))


@op(
    "Split",
    *(Trait.MOVES_DATA, Trait.SAME_RANK, Trait.AXIS),
    moved=FIRST,
    older=((13, attr_to_input("split", 1)),),
    relay=_relay_split,
)
def split(v: View) -> Kernel:
    """Consecutive parts of x along `axis`; their sizes are the outputs' types."""
    shape = v.x(0).shape
    axis = v.attr("axis", 0) % len(shape)
    if v.y.dtype.packed:
        raise UnsupportedError(f"Split of {v.y.dtype}; supported: types of whole bytes")
    inner, outer = math.prod(shape[axis + 1 :]), math.prod(shape[:axis])
    operands, parts, offset = [], [], 0
    for k, name in enumerate(v.node.outputs):
        if not name:
            raise UnsupportedError("Split with an output left out; supported: all outputs named")
        run = v.type(name).shape[axis] * inner
        if run * outer == 0:
            continue
        operands.append(Operand(f"y{k}", v.y.dtype.c, "out", name))
        parts.append({"k": k, "run": run, "offset": offset})
        offset += run
    if offset != shape[axis] * inner:
        raise UnsupportedError(f"Split of {shape[axis]} elements into {offset // max(1, inner)}")
    return Kernel(
        "portable.split",
        "split.c.j2",
        {"outer": outer, "row": offset, "parts": parts},
        (tensor_operand(v.graph, "x", v.core.inputs[0]), *operands),
        cost=v.x(0).elements * 5.0,
    )


def _join_boxes(scope: Scope, node: NodeProto) -> Outcome:
    """Along an axis with symbols the parts are joined; along another the box's kernel is right."""
    types = [scope.types[n] for n in node.input]
    axis = attributes(node)["axis"] % len(types[0].shape)
    rows = [scope.extents_of(n) for n in node.input]
    others = [tuple(s for a, s in enumerate(r) if a != axis) for r in rows]
    if len(set(others)) > 1:
        return Refuse("MLF0302", "tensors whose other extents may differ")
    if not any(r[axis] for r in rows):
        return Next(node)
    out, shape = node.output[0], list(types[0].shape)
    shape[axis] = sum(t.shape[axis] for t in types)
    symbol = scope.fresh(f"{out}.extent")
    scope.types[symbol] = TensorType(dtype.int32, ())
    scope.types[out] = TensorType(types[0].dtype, tuple(shape))
    same = _joined_before(scope, node, axis)
    scope.symbols[out] = (*rows[0][:axis], same or symbol, *rows[0][axis + 1 :])
    extents = [-1 if r[axis] else t.shape[axis] for r, t in zip(rows, types, strict=True)]
    inputs = (*node.input, *(r[axis] for r in rows if r[axis]))
    attrs = {"axis": axis, "extents": extents}
    scope.nodes.append(Node("mlf.Join", inputs, (out, symbol), attrs, node.name or out))
    return KEEP


def _joined_before(scope: Scope, node: NodeProto, axis: int) -> str:
    """The extent of an earlier join of parts that have the same extents, "" if there is none: the
    two results go together."""

    def extents(names: Sequence[str], along: int) -> list[int | str]:
        shapes = [scope.types[n].shape for n in names]
        rows = [scope.symbols_of(n) for n in names]
        return [
            r[along] if any(r[along:][:1]) else s[along] for r, s in zip(rows, shapes, strict=True)
        ]

    wanted, count = extents(node.input, axis), len(node.input)
    for other in scope.nodes:
        if other.op == "mlf.Join" and len(other.attrs["extents"]) == count:
            along = other.attrs["axis"]
            if extents(other.inputs[:count], along) == wanted:
                found: Symbols = scope.symbols_of(other.outputs[0])
                return found[along] if found else ""
    return ""


def _in_order(scope: Scope, node: Node, parts: Sequence[list[Element]]) -> list[Element] | None:
    flat = len(scope.types[node.result].shape) == 1
    return [element for part in parts for element in part] if flat else None


@op(
    "Concat",
    *(Trait.MOVES_DATA, Trait.AXIS, Trait.ORDER_PRESERVING),
    extents=_join_boxes,
    bounds=_in_order,
    turned=lambda attrs, perm: {"axis": perm[attrs["axis"] % len(perm)]},
    relay=lambda s: s.call("concatenate", s.tuple(s.args()), axis=s.axis(0)),
)
def concat(v: View) -> Kernel:
    """Inputs one after the other along `axis`."""
    axis = v.attr("axis") % len(v.y.shape)
    inner = math.prod(v.y.shape[axis + 1 :])
    outer = math.prod(v.y.shape[:axis])
    operands, parts, offset = [], [], 0
    for k, name in enumerate(v.core.inputs):
        type_ = v.type(name)
        run = type_.shape[axis] * inner
        if run * outer == 0:
            continue
        operands.append(tensor_operand(v.graph, f"x{k}", name))
        parts.append({"k": k, "run": run, "offset": offset})
        offset += run
    return Kernel(
        "portable.concat",
        "concat.c.j2",
        {"outer": outer, "row": offset, "parts": parts},
        (*operands, Operand("y", v.y.dtype.c, "out", v.node.outputs[0])),
        cost=v.y.elements * 5.0,
    )
