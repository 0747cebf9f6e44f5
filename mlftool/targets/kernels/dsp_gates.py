"""Products of two tensors of bytes with the ARMv7E-M DSP instructions, such as gates: four elements
at a time, whose zero points SXTAB16 takes away while it widens them (ir/pair_forms.py)."""

from __future__ import annotations

from dataclasses import replace

from mlftool.ir.graph import View
from mlftool.ir.pair_forms import Product
from mlftool.ops.base import Kernel
from mlftool.targets.kernels import kernel
from mlftool.targets.kernels.helium_pairs import STORING, Runs

FOUR = 4


@kernel(*STORING, needs="dsp", unless="mve size")
def gates(v: View) -> Kernel | None:
    """Pairs of elements whose result the form does not give are computed one by one."""
    found = Runs.of(v, FOUR)
    if found is None or not isinstance(found.pair.t, Product):
        return None
    t, result = found.pair.t, found.pair.result
    apart = [[_all(key >> 8), _all(key & 255)] for key, _ in t.pairs]
    made = found.kernel(
        v,
        "dsp.gates",
        "dsp_gates.c.j2",
        form=f"{t.m}, {t.add}",
        stored=[f"(int8_t){result.text(f't[{k}]')}" for k in range(FOUR)],
        less=[_halves(-zero) for zero in t.zeros],
        apart=apart,
        alone=f"(int8_t){result.text(t.text('from0[i]', 'from1[i]'))}",
    )
    elements = v.out.elements
    each = 7.5 + 2.0 * len(apart) + 3.0 * len(result.exceptions)
    cost = elements * each + elements // found.length * 12.0
    return replace(made, cost=cost, includes=("mlf/kernel.h", "mlf/dsp_gates.h"))


def _all(byte: int) -> str:
    """C text of a word of four such bytes."""
    return f"0x{(byte & 255) * 0x01010101:08x}u"


def _halves(n: int) -> str:
    return f"0x{(n & 0xFFFF) * 0x00010001:08x}u"
