"""Einsum: the loop nest of reductions, over products of elements."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from onnx import NodeProto

from mlftool.ir.graph import TensorType, View
from mlftool.ir.operations import of_text, times
from mlftool.onnx_rules.boxes import of_all
from mlftool.onnx_rules.protos import plain_attributes
from mlftool.onnx_rules.scope import Refuse, Scope
from mlftool.ops.base import Kernel, Operand, UnsupportedError, op, shown
from mlftool.ops.movement import strides_of
from mlftool.ops.reduce import BLOCK, joined
from mlftool.ops.scalar import fetch, literal, settle, tensor_operand

Shapes = Sequence[Sequence[int]]
_TERM = r"[A-Za-z]*(\.\.\.[A-Za-z]*)?"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")


def _malformed(equation: str) -> str:
    """Of others onnx's inference does not end, or gives a shape that no sum has."""
    plain = equation.replace(" ", "")
    if not _EQUATION.fullmatch(plain):
        return "is not an equation; expected letters for axes, as in 'ij,jk->ik'"
    left, _, right = plain.partition("->")
    letters = right.replace("...", "")
    if twice := [c for c in letters if letters.count(c) > 1]:
        return f"has '{twice[0]}' twice after '->'; expected it once"
    if unknown := [c for c in letters if c not in left]:
        return f"has '{unknown[0]}' after '->' alone; expected a letter of an input"
    return ""


def _labels(equation: str, shapes: Shapes) -> tuple[list[list[str]], list[str]]:
    """One label for each axis of each operand, and those of the output; axes under an ellipsis are
    labelled by how far they are from its end."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise Refuse("MLF0302", f"Einsum '{equation}' of {len(shapes)} tensors")
    spread = [len(s) - len(t.replace("...", "")) for t, s in zip(terms, shapes, strict=True)]
    dots = max((n for t, n in zip(terms, spread, strict=True) if "..." in t), default=0)
    inputs = [_axes(t, n) for t, n in zip(terms, spread, strict=True)]
    for labels, shape in zip(inputs, shapes, strict=True):
        if len(labels) != len(shape):
            raise Refuse("MLF0302", f"Einsum '{equation}' of a tensor of {len(shape)} axes")
    if not arrow:  # what stands once, in alphabetical order
        once = sorted(c for c in set(left) - {".", ","} if left.count(c) == 1)
        return inputs, [*(f"_{k}" for k in reversed(range(dots))), *once]
    return inputs, _axes(right, dots)


def _axes(term: str, spread: int) -> list[str]:
    before, dots, after = term.partition("...")
    middle = [f"_{k}" for k in reversed(range(spread))] if dots else []
    return [*before, *middle, *after]


def _extents(inputs: Sequence[Sequence[str]], shapes: Shapes) -> dict[str, int]:
    """How far each label goes; an operand of extent 1 is repeated."""
    extents: dict[str, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, n in zip(labels, shape, strict=True):
            known = extents.get(label, 1)
            if 1 not in (n, known) and n != known:
                raise Refuse("MLF0302", f"Einsum of {known} and of {n} along '{label}'")
            extents[label] = known if n == 1 else n
    return extents


def _repeated(scope: Scope, node: NodeProto) -> TensorType | None:
    """onnx takes the extent of the last operand that has a label, also where that is 1."""
    types = [scope.types[n] for n in node.input]
    shapes = [t.shape for t in types]
    inputs, output = _labels(plain_attributes(node)["equation"], shapes)
    extents = _extents(inputs, shapes)
    if any(map(scope.symbols_of, node.input)):
        return None
    return TensorType(types[0].dtype, tuple(extents[label] for label in output))


@op("Einsum", typed=_repeated, extents=of_all, words={"equation": _malformed})
def einsum(v: View) -> Kernel:
    """y[output labels] = sum over all other labels of the product of one element of each operand,
    multiplied from left to right."""
    row = v.y.dtype
    if row.packed or row.codec:
        raise UnsupportedError(f"Einsum on {row}; supported: types that C has, 16-bit floats")
    shapes = [v.type(n).shape for n in v.core.inputs]
    inputs, output = _labels(v.attr("equation"), shapes)
    extents, value = _extents(inputs, shapes), ""
    for k, (labels, shape) in enumerate(zip(inputs, shapes, strict=True)):
        element = fetch(row, f"x{k}", _place(labels, shape))
        value = settle(row, joined("Mul", row, value, element)) if value else element
    need = [extents[label] for label in output]
    if any(n > room for n, room in zip(need, v.y.shape, strict=True)):  # so onnx infers it
        raise UnsupportedError(f"Einsum of {shown(need)} to an output of {shown(v.y.shape)}")
    summed = [label for label in extents if label not in output]
    inner = [(_variable(label), extents[label]) for label in summed]
    return Kernel(
        "portable.einsum",
        "reduce.c.j2",
        {
            "outer": [(_variable(label), extents[label]) for label in output],
            "inner": inner,
            "block": BLOCK if row.is_float and inner and inner[-1][1] > BLOCK else 0,
            "y": _place(output, v.y.shape),
            "type": row.c,
            "start": literal(0, row),
            "value": value,
            "step": joined("Add", row, "acc", "value"),
            "part": joined("Add", row, "part", "value"),
            "join": joined("Add", row, "acc", "part"),
            "finish": "acc",
        },
        (
            *(tensor_operand(v.graph, f"x{k}", n) for k, n in enumerate(v.core.inputs)),
            Operand("y", row.c, "out", v.node.outputs[0]),
        ),
        operations=math.prod(extents.values())
        * (len(inputs) * (of_text("a * b", row) + times(load=1, whole=1)) + times(loop=1))
        + v.y.elements * times(loop=1, store=1, whole=2),
    )


def _place(labels: Sequence[str], shape: Sequence[int]) -> str:
    """Of the element at these labels, in a tensor of that shape."""
    steps = zip(labels, shape, strides_of(shape), strict=True)
    terms = [_variable(a) + (f" * {step}" if step != 1 else "") for a, n, step in steps if n > 1]
    return " + ".join(terms) or "0"


def _variable(label: str) -> str:
    """The loop variable of a label; no letter makes a keyword of it, as `if` would be."""
    return f"i_{label.removeprefix('_')}"
