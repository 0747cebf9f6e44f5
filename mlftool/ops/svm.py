"""What support vector machines need besides products: probabilities from those of pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.ir.graph import TensorType, View
from mlftool.ops.base import Kernel, Operand, UnsupportedError, op
from mlftool.ops.scalar import tensor_operand

FEWEST_ROUNDS = 100


def _result(types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> TensorType:
    pairs, n = types[0], int(attrs["classes"])
    if pairs is None or pairs.shape[-1] != math.comb(n, 2):
        raise UnsupportedError(f"{pairs} for {n} classes; expected a probability for each pair")
    return TensorType(pairs.dtype, (*pairs.shape[:-1], n))


@op("mlf.Coupling", result=_result)
def coupling(v: View) -> Kernel:
    """Of x[row, pair], how probable the first class of each pair is in it, the probability of each
    class: the second method of Wu, Lin and Weng, 2004, with libsvm's bounds on rounds and error."""
    n = v.attr("classes")
    rows = v.y.elements // n
    return Kernel(
        "portable.coupling",
        "svm_coupling.c.j2",
        {
            "rows": rows,
            "n": n,
            "pairs": math.comb(n, 2),
            "most": max(FEWEST_ROUNDS, n),
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("y", "float", "out", v.node.outputs[0]),
            Operand("q", "float", "scratch", bytes=4 * n * n),
            Operand("qp", "float", "scratch", bytes=4 * n),
        ),
        cost=rows * n * n * 200.0,
    )
