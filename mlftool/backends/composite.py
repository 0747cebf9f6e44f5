"""`mlf.Composite`: nodes that a backend computes together, which `partition` makes.

    Composite(x...)        its subgraph and the backend's C are attribute `mlf.part`

The function is in a file of its own, so there is no template: the kernel says what is passed.
"""

from __future__ import annotations

from mlftool.ir.dtype import of
from mlftool.ir.external import PART, Part
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, op
from mlftool.ops.scalar import tensor_operand

COMPOSITE = "mlf.Composite"


@op(COMPOSITE)
def composite(v: View) -> Kernel:
    """One call; workspace is planned, however small, since another file reads it."""
    part: Part = v.attr(PART)
    node, code = v.node, part.code
    operands = [tensor_operand(v.graph, f"in{k}", name) for k, name in enumerate(node.inputs)]
    operands += [Operand(n, of(a).c, "const", array=a) for n, a in code.constants.items()]
    for k, name in enumerate(node.outputs):
        operands.append(Operand(f"out{k}", v.type(name).dtype.c, "out", name))
    if code.workspace_bytes:
        size = code.workspace_bytes
        operands.append(Operand("workspace", "uint8_t", "scratch", bytes=size, planned=True))
    ops = "_".join(n.op.rsplit(".", 1)[-1] for n in part.graph.nodes)
    return Kernel(
        f"{part.backend}.{ops[:40]}",
        "",
        {},
        tuple(operands),
        cost=1.0,
        macs=code.macs,
        external=part,
    )
