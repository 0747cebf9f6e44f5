"""Any unary function of an 8-bit value, as a table of its 256 results."""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.ir.dtype import DType
from mlftool.ir.graph import Node, View
from mlftool.ir.operations import STEP, times
from mlftool.ops.base import Kernel, Operand, Trait, op
from mlftool.ops.scalar import Exact, Scalar, around


def _read(node: Node, dtype: DType, args: Sequence[Scalar | None]) -> str:
    """Of an element x and the whole table."""
    x, results = args
    return Exact(f"{results}[(uint8_t){x}]")


@op("mlf.Table", Trait.TABLE, expression=_read)
def table(v: View) -> Kernel:
    """y = table[(uint8_t)x]; input 1 holds the results for x's bytes 0, 1, ... 255."""
    x = v.core.inputs[0]
    return Kernel(
        "portable.table",
        "elementwise.c.j2",
        {
            "loops": [("i0", v.y.elements)],
            "statements": [],
            "store": "y[i0] = table[(uint8_t)x[i0]];",
        },
        around(v, Operand("table", v.y.dtype.c, "const", array=v.known(1)), x=x),
        operations=v.y.elements * (STEP + times(load=1)),
        inplace=(x,) if v.y.dtype.bytes == 1 else (),
    )
