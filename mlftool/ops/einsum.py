"""Einsum: the loop nest of reductions, over products of elements."""

from __future__ import annotations

import math
import re

from mlftool.ir.graph import View
from mlftool.ir.operations import of_text, times
from mlftool.onnx_rules.boxes import of_all
from mlftool.ops.base import Kernel, Operand, UnsupportedError, op
from mlftool.ops.movement import strides_of
from mlftool.ops.reduce import BLOCK, joined
from mlftool.ops.scalar import fetch, literal, settle, tensor_operand

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


def _labels(v: View) -> tuple[list[list[str]], list[str]]:
    """One label for each axis of each operand, and those of the output; axes under an ellipsis are
    labelled by how far they are from its end."""
    equation = str(v.attr("equation")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(v.core.inputs):
        raise UnsupportedError(f"Einsum '{equation}' of {len(v.core.inputs)} tensors")
    shapes = [v.type(n).shape for n in v.core.inputs]
    spread = [len(s) - len(t.replace("...", "")) for t, s in zip(terms, shapes, strict=True)]
    dots = max((n for t, n in zip(terms, spread, strict=True) if "..." in t), default=0)
    inputs = [_axes(t, n) for t, n in zip(terms, spread, strict=True)]
    for labels, shape in zip(inputs, shapes, strict=True):
        if len(labels) != len(shape):
            raise UnsupportedError(f"Einsum '{equation}' of a tensor of {len(shape)} axes")
    if not arrow:  # what stands once, in alphabetical order
        once = sorted(c for c in set(left) - {".", ","} if left.count(c) == 1)
        return inputs, [*(f"_{k}" for k in reversed(range(dots))), *once]
    return inputs, _axes(right, dots)


def _axes(term: str, spread: int) -> list[str]:
    before, dots, after = term.partition("...")
    middle = [f"_{k}" for k in reversed(range(spread))] if dots else []
    return [*before, *middle, *after]


@op("Einsum", extents=of_all, words={"equation": _malformed})
def einsum(v: View) -> Kernel:
    """y[output labels] = sum over all other labels of the product of one element of each operand,
    multiplied from left to right."""
    row = v.y.dtype
    if row.packed or row.codec:
        raise UnsupportedError(f"Einsum on {row}; supported: types that C has, 16-bit floats")
    inputs, output = _labels(v)
    extents: dict[str, int] = {}
    value = ""
    for k, (labels, name) in enumerate(zip(inputs, v.core.inputs, strict=True)):
        shape = v.type(name).shape
        terms = []
        for label, n, step in zip(labels, shape, strides_of(shape), strict=True):
            known = extents.get(label, 1)
            if 1 not in (n, known) and n != known:
                raise UnsupportedError(f"Einsum of {known} and of {n} along '{label}'")
            extents[label] = known if n == 1 else n
            if n > 1:
                terms.append(_variable(label) if step == 1 else f"{_variable(label)} * {step}")
        element = fetch(row, f"x{k}", " + ".join(terms) or "0")
        value = settle(row, joined("Mul", row, value, element)) if value else element
    summed = [label for label in extents if label not in output]
    target = [
        _variable(label) if step == 1 else f"{_variable(label)} * {step}"
        for label, step in zip(output, strides_of(v.y.shape), strict=True)
        if extents[label] > 1
    ]
    inner = [(_variable(label), extents[label]) for label in summed]
    return Kernel(
        "portable.einsum",
        "reduce.c.j2",
        {
            "outer": [(_variable(label), extents[label]) for label in output],
            "inner": inner,
            "block": BLOCK if row.is_float and inner and inner[-1][1] > BLOCK else 0,
            "y": " + ".join(target) or "0",
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


def _variable(label: str) -> str:
    """The loop variable of a label; no letter makes a keyword of it, as `if` would be."""
    return f"i_{label.removeprefix('_')}"
