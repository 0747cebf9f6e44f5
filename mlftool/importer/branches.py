"""An If whose branches give tensors of different extents: each branch writes its tensor into a box
with room for both, and gives the true extents, too (see extents.py).

    %y = If(%c) {%a[5]} {%b[%n <= 8]}   =>   %y[8], %extent = If(%c) {%a.box[8], 5} {%b, %n}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlftool.importer.control_node import Body, Control
from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.scope import CONSTANT, CUT, Refuse, Scope

Extent = int | str  # static, or the int32 tensor that holds it
INDEX = TensorType(dtype.int32, ())


def keep_branches(c: Control, bodies: Mapping[str, Body]) -> None:
    """Keep the If. Raises Refuse for outputs of different element types or ranks."""
    boxes, rows = [], []
    for k, names in enumerate(zip(*(b.outputs for b in bodies.values()), strict=True)):
        first, *others = (b.scope.types[n] for b, n in zip(bodies.values(), names, strict=True))
        for other in others:
            if (first.dtype, len(first.shape)) != (other.dtype, len(other.shape)):
                text = f"output {k} is {first} of one branch and {other} of the other"
                text += "; supported: one element type and rank"
                raise Refuse("MLF0302", text, f"{CONSTANT}; or {CUT}")
        shapes = (first.shape, *(t.shape for t in others))
        boxes.append(TensorType(first.dtype, tuple(map(max, zip(*shapes, strict=True)))))
        each = [_extents(b.scope, n) for b, n in zip(bodies.values(), names, strict=True)]
        rows.append(list(zip(*each, strict=True)))
    # Extents that are equal in each branch are one output: tensors that have them go together.
    new = list(dict.fromkeys(e for row in rows for e in row if not _is_one(c, e)))
    graphs = {
        key: _widened(body, boxes, [extents[j] for extents in new]).graph()
        for j, (key, body) in enumerate(bodies.items())
    }
    outputs = c.keep(graphs, [*boxes, *(INDEX for _ in new)], {})
    named = dict(zip(new, outputs[len(boxes) :], strict=True))
    for name, row in zip(outputs, rows, strict=False):
        symbols = tuple(named.get(e) or (e[0] if isinstance(e[0], str) else "") for e in row)
        if any(symbols):
            c.scope.symbols[name] = symbols


def _extents(scope: Scope, name: str) -> list[Extent]:
    pairs = zip(scope.extents_of(name), scope.types[name].shape, strict=True)
    return [symbol or extent for symbol, extent in pairs]


def _is_one(c: Control, extents: Sequence[Extent]) -> bool:
    """Whether the branches agree: on a number, or on an extent from outside of them."""
    first = extents[0]
    return len(set(extents)) == 1 and (isinstance(first, int) or first in c.captures)


def _widened(body: Body, boxes: Sequence[TensorType], extents: Sequence[Extent]) -> Body:
    """The branch with outputs of these types, and with outputs for `extents`."""
    scope = body.scope
    outputs = [_in_box(scope, n, box) for n, box in zip(body.outputs, boxes, strict=True)]
    for extent in extents:
        if isinstance(extent, int):
            hint = f"{body.outputs[0]}.extent"
            outputs.append(scope.new_const(hint, np.array(extent, np.int32)))
        else:
            outputs.append(extent)
    return Body(body.name, scope, body.inputs, tuple(outputs))


def _in_box(scope: Scope, name: str, box: TensorType) -> str:
    type_, value = scope.types[name], scope.consts.get(name)
    if type_ == box:
        return name
    if value is not None:
        whole = np.zeros(box.shape, value.dtype)
        whole[tuple(map(slice, value.shape))] = value
        return scope.new_const(f"{name}.box", whole)
    made = scope.fresh(f"{name}.box")
    scope.types[made] = box
    index = scope.new_const(f"{made}.index", np.array(0, np.int32))
    attrs = {"count": 1, "axes": [], "extents": list(type_.shape)}
    scope.nodes.append(Node("mlf.Choose", (index, name), (made,), attrs, made))
    return made
