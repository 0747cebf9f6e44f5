"""AffineGrid: the places that an affine map sends a regular grid to."""

from __future__ import annotations

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, UnsupportedError, op
from mlftool.ops.scalar import literal, tensor_operand


@op("AffineGrid")
def affine_grid(v: View) -> Kernel:
    """y[n, z, y, x] = theta[n] * (x, y, z, 1) with coordinates from -1 to 1; the size is the
    output's."""
    row, shape = v.y.dtype, v.y.shape
    if row.name not in ("float32", "float64"):
        raise UnsupportedError(f"AffineGrid on {row}; supported: floats")
    space = shape[1:-1]
    rank = len(space)
    statements, total = [], f"theta[(i0 * {rank} + i{rank + 1}) * {rank + 1} + {rank}]"
    for k, n in enumerate(space):
        if v.attr("align_corners", 0):
            step, first = 2.0 / max(1, n - 1), -1.0
        else:
            step, first = 2.0 / n, 1.0 / n - 1.0
        text = f"{literal(first, row)} + ({row.c})i{k + 1} * {literal(step, row)}"
        statements.append(f"const {row.c} p{k} = {text};")
    for k in reversed(range(rank)):  # theta's columns are x, y, z
        column = rank - 1 - k
        theta = f"theta[(i0 * {rank} + i{rank + 1}) * {rank + 1} + {column}]"
        total = f"{theta} * p{k} + {total}" if column == 0 else f"{theta} * p{k} + ({total})"
    index = "i0"
    for k, n in enumerate(shape[1:], start=1):
        index = f"({index}) * {n} + i{k}"
    return Kernel(
        "portable.affine_grid",
        "elementwise.c.j2",
        {
            "loops": [(f"i{k}", n) for k, n in enumerate(shape)],
            "statements": statements,
            "store": f"y[{index}] = {total};",
        },
        (
            tensor_operand(v.graph, "theta", v.core.inputs[0]),
            Operand("y", row.c, "out", v.node.outputs[0]),
        ),
        cost=v.y.elements * 12.0 * rank,
    )
