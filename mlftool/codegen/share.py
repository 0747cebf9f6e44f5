"""Kernels of one shape class as one C function that is given its numbers: `optimize: size`.

Templates write extents into the code, so layers that differ in nothing else still get a function
each. Their numbers are holes (ir/holes.py): parametric kernels whose texts are the same but for
what fills the holes share a function, and the numbers that differ become elements of an array that
each call passes.

    for (int32_t p = 0; p < 576; p++)      for (int32_t p = 0; p < layer[0]; p++)     {576, ...}
    for (int32_t p = 0; p < 144; p++)  ->                                             {144, ...}

Many numbers that all fit are int16, half as many bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlftool.codegen.kernels import body_of
from mlftool.frozen import frozen, replace
from mlftool.ir.holes import Hole, filled, form, pieces
from mlftool.ir.loops import MARKS
from mlftool.ops.base import Kernel, Operand
from mlftool.plan.program import Call, Program

# The parameters that hold numbers of layers: integers and floats.
TABLES = ("layer", "factors")
ENOUGH = 128  # numbers of a table for which longer instructions that load two bytes pay


def share(program: Program) -> Program:
    """The program whose parametric kernels are one function per shape class."""
    texts = [_text(call) for call in program.calls]
    classes: dict[object, list[int]] = {}
    for i, text in enumerate(texts):
        if text is not None:
            classes.setdefault(_class(program.calls[i].kernel, text), []).append(i)
    calls = list(program.calls)
    for members in classes.values():
        if len(members) > 1:
            kernels = [calls[i].kernel for i in members]
            merged = _merge(kernels, [texts[i] or "" for i in members])
            for i, kernel in zip(members, merged, strict=True):
                calls[i] = replace(calls[i], kernel=kernel)
    return replace(program, calls=tuple(calls))


def _text(call: Call) -> str | None:
    """The C of a kernel whose numbers may become variables, with their holes."""
    kernel = call.kernel
    if not kernel.parametric or call.parts:
        return None
    return body_of(kernel, {}, "0")


def _class(kernel: Kernel, text: str) -> object:
    """The key that must be equal for two kernels to share a function."""
    operands = tuple((o.name, o.ctype, o.role, o.local) for o in kernel.operands)
    return operands, bool(kernel.inplace or kernel.overlap), form(text)


@frozen
class _Table:
    """The parameter that holds numbers of one type; columns that agree for all layers are one."""

    name: str
    ctype: str
    dtype: Any
    columns: dict[tuple[Hole, ...], int]

    def element(self, column: tuple[Hole, ...]) -> str:
        return f"{self.name}[{self.columns.setdefault(column, len(self.columns))}]"

    def operand(self, row: int) -> tuple[Operand, ...]:
        """The array that layer `row` passes; empty if no number of this type differs."""
        if not self.columns:
            return ()
        values = np.array([c[row].value for c in self.columns], self.dtype)
        return (Operand(self.name, self.ctype, "const", array=values, alignment=4),)


def _merge(kernels: Sequence[Kernel], texts: Sequence[str]) -> list[Kernel]:
    """The kernels of one class, rendering to one text; each gets its own numbers."""
    rows = list(zip(*(_holes(t) for t in texts), strict=True))
    differ = [h.value for row in rows if len(set(row)) > 1 for h in row if h.kind != "f"]
    short = len(differ) >= ENOUGH and all(-(2**15) <= n < 2**15 for n in differ)
    ctype, dtype = ("int16_t", np.int16) if short else ("int32_t", np.int32)
    whole = _Table(TABLES[0], ctype, dtype, {})
    real = _Table(TABLES[1], "float", np.float32, {})
    columns = iter(rows)

    def fill(hole: Hole) -> str:
        column = next(columns)
        table = real if hole.kind == "f" else whole
        return hole.text if len(set(column)) == 1 else table.element(column)

    types = {o.name: o.ctype for o in kernels[0].operands}
    types |= {table.name: table.ctype for table in (whole, real)}
    body = filled(texts[0], fill, types, 2)
    most = {
        o.name: max(p.bytes for k in kernels for p in k.operands if p.name == o.name)
        for o in kernels[0].operands
    }
    return [
        replace(
            kernel,
            template="verbatim.c.j2",
            params={"body": body},
            packed={},
            operands=(
                *whole.operand(row),
                *real.operand(row),
                *(replace(o, bytes=most[o.name]) if o.local else o for o in kernel.operands),
            ),
        )
        for row, kernel in enumerate(kernels)
    ]


def _holes(text: str) -> list[Hole]:
    return [p for p in pieces(text) if isinstance(p, Hole) and p.kind not in MARKS]
