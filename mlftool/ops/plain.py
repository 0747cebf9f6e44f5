"""Kernels that fuse with nothing: inputs are x0, x1 ..., outputs y0, y1 ..., in ONNX's order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlftool.ir.dtype import DType
from mlftool.ir.graph import View
from mlftool.ir.operations import STEP, Operations, times
from mlftool.ops.base import Kernel, Operand, UnsupportedError
from mlftool.ops.elementwise import Maths
from mlftool.ops.scalar import conversions, tensor_operand


def plain_kernel(
    v: View,
    name: str,
    params: Mapping[str, Any],
    *scratch: Operand,
    template: str = "",
    operations: Operations | None = None,
    includes: tuple[str, ...] = (),
    updates: Mapping[int, int] | None = None,
) -> Kernel:
    """The kernel of template `name`; what is left out has no parameter and is not in `given`.
    `updates` are inputs that it changes where they stand, and the outputs that they become."""
    ins = [tensor_operand(v.graph, f"x{k}", n) for k, n in enumerate(v.node.inputs) if n]
    outs = [
        Operand(f"y{k}", v.type(n).dtype.c, "out", n) for k, n in enumerate(v.node.outputs) if n
    ]
    names = [n for n in (*v.node.inputs, *v.node.outputs) if n]
    packed = [v.type(n).dtype for n in names if v.type(n).dtype.packed]
    if packed:
        raise UnsupportedError(f"{v.node.op} on {packed[0]}; supported: types of whole bytes")
    every = sum(v.type(n).elements for n in names)
    narrow = conversions(*(v.type(n).dtype for n in names))
    return Kernel(
        f"portable.{name}",
        template or f"{name}.c.j2",
        {**params, "given": {o.name for o in (*ins, *outs)}},
        (*ins, *outs, *scratch),
        operations=every * (STEP + times(whole=4)) if operations is None else operations,
        includes=("mlf/kernel.h", *includes, *narrow),
        updates={v.node.inputs[i]: v.node.outputs[k] for i, k in (updates or {}).items()},
    )


def maths(v: View) -> Maths:
    """Literals and functions in the float type of the first input, in which the kernel computes."""
    row = v.x(0).dtype
    return Maths(row, row)


def float_of(v: View, row: DType) -> DType:
    """`row`, if the kernel can compute in it."""
    if row.name not in ("float32", "float64"):
        raise UnsupportedError(
            f"{v.core.op} on {row}; supported: float32, float64, float16, bfloat16"
        )
    return row
