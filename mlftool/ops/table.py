"""Any unary function of an 8-bit value, as a table of its 256 results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlftool.ir.dtype import DType
from mlftool.ir.graph import Node, View
from mlftool.ir.operations import STEP, Operations, times
from mlftool.ops.base import Kernel, Operand, Trait, op
from mlftool.ops.scalar import Exact, Scalar, around


def _read(node: Node, dtype: DType, args: Sequence[Scalar | None]) -> str:
    """Of an element x and the whole table."""
    x, results = args
    return Exact(f"{results}[(uint8_t){x}]")


@op("mlf.Table", Trait.TABLE, expression=_read)
def table(v: View) -> Kernel:
    """y = table[(uint8_t)x]; input 1 holds the results for x's bytes 0, 1, ... 255."""
    return _looked_up(v, "table", "table[(uint8_t)x[i0]]", times(load=1))


@op("mlf.Between")
def between(v: View) -> Kernel:
    """A function of int16 by 512 lines between the 513 values of input 1."""
    made = _looked_up(v, "between", "(int16_t)mlf_between(table, x[i0])", times(load=2, whole=8))
    return replace(made, includes=(*made.includes, "mlf/fixed.h"))


def _looked_up(v: View, name: str, value: str, each: Operations) -> Kernel:
    """y[i0] is the C expression `value` of x[i0] and table, which is input 1."""
    x = v.core.inputs[0]
    return Kernel(
        f"portable.{name}",
        "elementwise.c.j2",
        {"loops": [("i0", v.y.elements)], "statements": [], "store": f"y[i0] = {value};"},
        around(v, Operand("table", v.y.dtype.c, "const", array=v.known(1)), x=x),
        operations=v.y.elements * (STEP + each),
        inplace=(x,) if v.y.dtype.bytes == v.x(0).dtype.bytes else (),
    )
