"""`mlf.Patches`: a chain of layers computed band by band, which plan/patches.py makes.

    Patches(x)        graphs: band0(rows of x) -> rows of y, band1 ...

Each band is a subgraph, so it is planned on its own and its tensors live in the node's arena, which
all bands share. Bands write the rows of the output one after the other.
"""

from __future__ import annotations

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, op
from mlftool.ops.scalar import tensor_operand

NAME = "mlf.Patches"


def key(k: int) -> str:
    """The name of band `k` among the node's graphs."""
    return f"band{k}"


@op(NAME)
def patches(v: View) -> Kernel:
    """One call per band; `starts` are the first rows it reads and writes."""
    (read,), (made,) = v.node.inputs, v.node.outputs
    x, y = v.type(read), v.type(made)
    row_x, row_y = x.elements // x.shape[1], y.elements // y.shape[1]
    starts = v.attr("starts")
    return Kernel(
        "patches",
        "patches.c.j2",
        {"bands": [(key(k), first * row_x, out * row_y) for k, (first, out) in enumerate(starts)]},
        (tensor_operand(v.graph, "x", read), Operand("y", y.dtype.c, "out", made)),
        cost=1.0,
    )
