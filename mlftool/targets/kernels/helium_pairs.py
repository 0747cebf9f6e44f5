"""Sums and products of two tensors of bytes on Helium, such as residuals and gates: eight elements
at a time in integers (ir/pair_forms.py), along runs that are contiguous in both tensors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlftool.frozen import frozen
from mlftool.ir.graph import View
from mlftool.ir.pair_forms import Product, Sum
from mlftool.ops import OPS
from mlftool.ops.base import Kernel, Operand, Trait
from mlftool.ops.elementwise import broadcast_strides, index_text, merged, row_major
from mlftool.ops.pairs import Pair, in_integers
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.helium_finish import clamped

LANES = 8
LAST = {Trait.QUANTISER, Trait.RESCALER}  # of a chain
STORING = tuple(n for n, o in OPS.items() if LAST & set(o.traits) or len(o.reads) > 1)


@frozen
class Runs:
    """Two tensors of int8 of which runs of `length` elements follow each other in both; the loops
    over runs and the places of these in both and in the output, as C texts."""

    pair: Pair
    length: int
    loops: list[tuple[str, int]]
    at: list[str]

    @staticmethod
    def of(v: View, least: int) -> Runs | None:
        """None where runs are shorter than `least`, or an operand is not a tensor of int8."""
        pair = in_integers(v.graph, v.node.body or (v.node,))
        if pair is None or pair.array is not None:
            return None
        names, out = pair.inputs, v.out.shape
        if any(v.type(n).dtype.name != "int8" for n in (*names, v.node.outputs[0])):
            return None
        if any(len(v.type(n).shape) > len(out) for n in names):
            return None
        steps = {n: broadcast_strides(v.type(n).shape, out) for n in names}
        dims, strides = merged(out, steps)
        if not dims or dims[-1] < least or any(s[-1] != 1 for s in strides.values()):
            return None
        places = [index_text(strides[n][:-1]) for n in names]
        loops = [(f"i{k}", n) for k, n in enumerate(dims[:-1])]
        return Runs(pair, dims[-1], loops, [*places, index_text(row_major(dims)[:-1])])

    def kernel(self, v: View, name: str, template: str, **params: Any) -> Kernel:
        names = self.pair.inputs
        a, b = (Operand(f"a{k}", "int8_t", "in", n) for k, n in enumerate(names))
        return Kernel(
            name,
            template,
            {"loops": self.loops, "at": self.at, "n": self.length, **params},
            (a, b, Operand("y", "int8_t", "out", v.node.outputs[0])),
            inplace=tuple(n for n in names if v.type(n).shape == v.out.shape),
        )


@kernel(*STORING, needs="mve")
def pairs(v: View) -> Kernel | None:
    found = Runs.of(v, LANES)
    if found is None or not isinstance(found.pair.t, Sum | Product):
        return None
    n, lines = found.length, clamped(_total(found.pair.t), found.pair.result)
    return replace(
        found.kernel(v, "helium.pairs", "helium_pairs.c.j2", lines=lines),
        cost=v.out.elements * 2.8 + v.out.elements // n * (10.0 + 12.0 * (n % LANES > 0)),
        includes=("mlf/mve_pairs.h",),
    )


def _total(t: Sum | Product) -> str:
    """C text of t for the octets `a` and `b`."""
    if isinstance(t, Sum):
        return f"mlf_octet_sum(a, {t.m}, b, {t.n}, {t.add})"
    za, zb = t.zeros
    text = f"mlf_octet_gated(a, {-za}, b, {-zb}, {t.m}, {t.add})"
    for key, step in t.pairs:
        text = f"mlf_octet_except_pair({text}, a, b, {key}, {step})"
    return text
