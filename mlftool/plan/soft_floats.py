"""What floats cost a processor without FPU, on which each operation is a call of gcc's library.

Kernels estimate the instructions of a processor with FPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mlftool.ir.graph import Node, View
from mlftool.ops import Kernel, Trait, is_a
from mlftool.targets import Target

# Instructions of an addition or a multiplication, as counted on the simulated boards: a Cortex-M3
# has a long multiplication and shifts by any number in one instruction, others count bits.
CALL, CALL_OF_SMALL = 36.0, 80.0
SMALL = {"narrow", "registers"}
ROUNDING = 6  # operations of a division, a rounding and two limits
FUNCTION = 15  # of an exponential and its like
COMPARING = 8  # instructions of a kernel for each time that it compares
STEP = 4  # and for each operation of any other


def with_soft_floats(kernel: Kernel, v: View, target: Target) -> Kernel:
    """The same with what its floats cost the target."""
    each = operation(target)
    return (
        replace(kernel, cost=kernel.cost + each * sum(_operations(kernel, v))) if each else kernel
    )


def operation(target: Target) -> float:
    """Instructions of an operation on floats beyond those of a processor that has it."""
    if "fpu" in target.features:
        return 0.0
    return CALL_OF_SMALL if SMALL & target.features else CALL


def _operations(kernel: Kernel, v: View) -> Iterator[float]:
    """Those on floats of the node and of all that is fused with it."""
    functions = FUNCTION if any("math" in name for name in kernel.includes) else 1
    for node in v.node.body or (v.node,):
        out = v.type(node.result)
        reads = [v.type(n).dtype for n in node.inputs[:1] if n]
        if not out.dtype.is_float and not any(t.is_float for t in reads):
            continue
        if is_a(node, Trait.MOVES_DATA) or is_a(node, Trait.VIEW):
            continue
        if is_a(node, Trait.QUANTISER):
            yield ROUNDING * out.elements
        elif is_a(node, Trait.DEQUANTISER):
            yield out.elements
        elif is_a(node, Trait.ELEMENTWISE):
            yield functions * out.elements
        elif node is v.core or node is v.node:
            yield _of_core(kernel, node, reads[0].is_float if reads else True, out.elements)


def _of_core(kernel: Kernel, node: Node, floats: bool, results: int) -> float:
    if not floats:
        return results
    if kernel.macs:
        return 2 * kernel.macs
    return kernel.cost / (COMPARING if is_a(node, Trait.ORDER_PRESERVING) else STEP)
