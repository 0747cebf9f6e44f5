"""Pad and CenterCropPad: more elements around a tensor, or fewer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.ir.dtype import float32
from mlftool.ir.graph import View
from mlftool.ir.relay import Site
from mlftool.onnx_rules.boxes import ALONE, whole
from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import EXTENTS, Outcome, Refuse, Scope
from mlftool.onnx_rules.shaping import Box, Shaping, UnboundedError
from mlftool.ops import folded
from mlftool.ops.base import Facts, Kernel, Moved, Operand, Trait, UnsupportedError, of_form, op
from mlftool.ops.indexed import place
from mlftool.ops.movement import copied
from mlftool.ops.scalar import fetch, literal, read_by, tensor_operand


def _relay_pad(s: Site) -> str | None:
    pads, value = s.ints(1), s.scalar(2, 0.0)
    mode = s.attr("mode", "constant")
    if pads is None or value is None or s.has(3) or mode not in ("constant", "edge", "reflect"):
        return None
    if min(pads, default=0) < 0:
        return None
    widths = [[pads[k], pads[k + s.rank]] for k in range(s.rank)]
    return s.call("nn.pad", s.arg(), s.literal(value), pad_width=widths, pad_mode=mode)


PADDED: dict[str, Callable[[str, int], str]] = {
    "reflect": lambda i, n: f"mlf_reflect({i}, {n})",
    "edge": lambda i, n: f"mlf_clamp_i32({i}, 0, {n - 1})",
}


def _borders(f: Facts) -> str:
    pads, _, axes = (*f.inputs, None, None, None)[1:4]
    count = len(f.x) if axes is None else axes.elements
    if pads is not None and pads.elements != 2 * count:
        return f"pads {pads}; expected two for each of {count} axes"
    return f.from_nothing("mode", "constant")


def _pads_to_inputs(scope: Scope, d: Draft) -> None:
    """Pads were an attribute, of another name in the first opset, and so was the value."""
    row = d.types[0].dtype if d.types[0] is not None else float32
    pads = d.attrs.pop("pads", None) or d.attrs.pop("paddings", [])
    value = np.array(d.attrs.pop("value", 0.0), row.numpy)
    d.inputs.append(d.constant(scope, "pads", np.array(pads, np.int64)))
    d.inputs.append(d.constant(scope, "value", value))


def _pad_in_box(s: Shaping, attrs: Mapping[str, Any]) -> Box:
    """By amounts, or of extents, that are known only at run time; amounts may be negative."""
    x, mode = s.type(0).shape, attrs.get("mode", b"constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode not in ("constant", "edge"):
        text = f"mode '{mode}' by amounts or of extents known only at run time"
        raise UnsupportedError(f"{text}; supported: constant, edge")
    if not s.steps.x(1):
        raise UnboundedError  # amounts are attributes, before opset 11
    at_axes = [int(a) % len(x) for a in s.constant(3, "axes", np.arange(len(x)))]
    by = s.known(1)
    best: list[int | None] = [None if k in at_axes else n for k, n in enumerate(x)]
    if by is not None:
        for axis, before, after in zip(at_axes, *by.reshape(2, -1), strict=True):
            best[axis] = max(0, x[axis] + int(before) + int(after))
    bounds = s.bounds(best)
    value, outside = s.steps.x(0), ""
    extents = s.true_extents()
    for k, axis in enumerate(at_axes):
        before, after = s.at(s.steps.x(1), k), s.at(s.steps.x(1), k + len(at_axes))
        at = s("Sub", s.number(np.arange(bounds[axis])), before)
        last = s("Max", s("Sub", s.extent(extents[axis]), s.number(1)), s.number(0))
        value = s("Gather", value, s("Clip", at, s.number(0), last), axis=axis)
        beyond = s("Or", s("Less", at, s.number(0)), s("Greater", at, last))
        shape = [bounds[axis] if a == axis else 1 for a in range(len(x))]
        beyond = s("Reshape", beyond, s.number(shape))
        outside = s("Or", outside, beyond) if outside else beyond
        extents[axis] = s("Add", s("Add", before, after), s.extent(extents[axis]))
    if mode == "constant" and outside:
        filler = s.steps.x(2) or s.steps.const(0, s.type(0).dtype.numpy)
        s.result("Where", outside, filler, value)
    else:
        s.result("Identity", value)
    return Box(bounds, tuple(extents))


def _padded_boxes(scope: Scope, node: NodeProto) -> Outcome:
    """Axes whose extents are known only at run time and that get nothing are as they are; what
    others get is `_pad_in_box`'s."""
    symbols, attrs = scope.extents_of(node.input[0]), attributes(node)
    names = [*node.input, "", "", ""]
    pads = attrs.get("pads") or attrs.get("paddings") or scope.consts.get(names[1])
    axes = scope.consts.get(names[3], None if names[3] else range(len(symbols)))
    if pads is None or axes is None or np.size(pads) != 2 * len(axes):
        return ALONE(scope, node)
    by_axis = zip(axes, np.reshape(pads, (2, -1)).T, strict=True)
    moved = any(symbols[int(a) % len(symbols)] and by.any() for a, by in by_axis)
    return (ALONE if moved else whole)(scope, node)


@op(
    "Pad",
    *(Trait.MOVES_DATA, Trait.ANY_BITS, Trait.SAME_RANK),
    moved=Moved((0,), fill=2),
    forms=of_form("*", "*", "."),
    checks=(_borders,),
    words={"mode": ("constant", "wrap", *PADDED)},
    older=((11, _pads_to_inputs),),
    extents=_padded_boxes,
    shaped=_pad_in_box,
    constant=folded.pad,
    relay=_relay_pad,
)
def pad(v: View) -> Kernel:
    """More elements before and after each axis, fewer where a pad is negative."""
    rank = len(v.x(0).shape)
    axes = v.const(3) if v.has(3) else None
    head: list[str] = []
    reads: list[Operand] = []
    begins = [""] * rank
    known = v.const(1)
    if known is not None and (axes is not None or not v.has(3)):
        listed = range(rank) if axes is None else axes.reshape(-1).tolist()
        each = dict.fromkeys(range(rank), 0)
        each |= {a % rank: int(b) for a, b in zip(listed, known.reshape(-1), strict=False)}
        begins = [str(each[k]) for k in range(rank)]
    else:
        head, reads = _begins(v, rank)
        begins = [f"begin[{k}]" for k in range(rank)]
    return padded(v, "pad", begins, v.attr("mode", "constant"), head, reads)


def _begins(v: View, rank: int) -> tuple[list[str], list[Operand]]:
    """Statements that read how much is added before each axis."""
    count = v.x(1).elements // 2
    axis = f"mlf_index(axes[k], {rank})" if v.has(3) else "k"
    operands = {"pads": 1, "axes": 3} if v.has(3) else {"pads": 1}
    head = [
        f"int32_t begin[{rank}] = {{0}};",
        f"for (int32_t k = 0; k < {count}; k++) {{",
        f"  begin[{axis}] = mlf_clamp_index(pads[k], -{1 << 30}, {1 << 30});",
        "}",
    ]
    return head, [*read_by(v, operands)]


def padded(
    v: View,
    name: str,
    begins: Sequence[str],
    mode: str,
    head: Sequence[str] = (),
    reads: Sequence[Operand] = (),
) -> Kernel:
    """x with so many elements before each axis, and what the output's type leaves after it."""
    shape, out = v.x(0).shape, v.y.shape
    moved = [k for k, b in enumerate(begins) if b != "0" or shape[k] != out[k]]
    terms = [f"p{k}" if k in moved else f"i{k}" for k in range(len(shape))]
    within = {k: f"p{k} >= 0 && p{k} < {shape[k]}" for k in moved}
    statements, inside, fill = [], "", "0"
    reads = list(reads)
    for k in moved:
        at = f"i{k} - ({begins[k]})" if begins[k] != "0" else f"i{k}"
        if mode == "wrap":
            at = _wrapped(at, begins[k], shape[k], out[k])
        elif mode != "constant":
            at = PADDED[mode](at, shape[k])
        statements.append(f"const int32_t p{k} = {at};")
    if mode == "constant":
        inside = " && ".join(within.values())
        value = v.const(2) if len(v.core.inputs) > 2 and v.has(2) and v.core.op == "Pad" else None
        if value is not None and not v.y.dtype.codec:
            fill = literal(value.item(), v.y.dtype)
        elif v.core.op == "Pad" and v.has(2) and moved:
            fill = fetch(v.y.dtype.raw, "value", "0")
            reads.append(tensor_operand(v.graph, "value", v.core.inputs[2]))
    return copied(
        v, name, out, place(terms, shape),
        inside=f"({inside})" if inside else "", fill=fill, head=head, statements=statements,
        reads=reads
    )  # fmt: skip


def _wrapped(at: str, begin: str, n: int, out: int) -> str:
    """What repeats is what negative pads leave of the axis; of those known at run time, which may
    contradict the output's shape, one element at least."""
    if begin.lstrip("-").isdigit():
        first, last = max(0, -int(begin)), min(n, out - int(begin))
        if out and last <= first:
            raise UnsupportedError("mode 'wrap' of an axis of which negative pads leave nothing")
        shifted = f"{at} - {first}" if first else at
        place = f"mlf_wrap({shifted}, {last - first})"
        return f"{first} + {place}" if first else place
    least, most = f"mlf_clamp_i32(-{begin}, 0, {n - 1})", f"mlf_min_i32({n}, {out} - {begin})"
    count = f"mlf_clamp_i32({most} - {least}, 1, {n})"
    return f"{least} + mlf_wrap({at} - {least}, {count})"


def _cropped_boxes(scope: Scope, node: NodeProto) -> Outcome:
    """Of axes that it leaves as they are."""
    symbols = scope.extents_of(node.input[0])
    axes = {a % len(symbols) for a in attributes(node).get("axes") or range(len(symbols))}
    if any(symbols[a] for a in axes):
        text = f"an extent of '{node.input[0]}' that it changes is known only at run time"
        return Refuse("MLF0302", text, EXTENTS)
    return whole(scope, node)


@op(
    "CenterCropPad",
    *(Trait.NARROW, Trait.SAME_RANK),
    forms=of_form("*", "?"),
    extents=_cropped_boxes,
)
def center_crop_pad(v: View) -> Kernel:
    """The middle of x, or x in the middle of zeros; the shape is the output's type."""
    sizes = zip(v.x(0).shape, v.y.shape, strict=True)
    begins = [str((out - n) // 2 if out >= n else -((n - out) // 2)) for n, out in sizes]
    return padded(v, "center_crop_pad", begins, "constant")
