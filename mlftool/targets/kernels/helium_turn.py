"""Transposes on Helium: of the two axes that change places the longer one is walked, by gathering
loads where it is the last of the output, else by scattering stores."""

from __future__ import annotations

import math

from mlftool.ir.graph import View
from mlftool.ops import OPS
from mlftool.ops.base import Kernel
from mlftool.ops.elementwise import index_text, merged, row_major
from mlftool.ops.movement import strides_of
from mlftool.ops.scalar import around
from mlftool.targets.kernels import kernel

LEAST = 4  # elements of the longer axis
NAMES = {1: ("bytes", 8, 2**16), 2: ("halves", 8, 2**16), 4: ("words", 4, 2**31)}
NEAR = ("near", 16, 2**8)  # bytes whose offsets are bytes


@kernel("Transpose", needs="mve")
def turned(v: View) -> Kernel | None:
    """Of elements that no longer stand beside each other; not where the portable kernel's output
    may take over the input's memory."""
    row, steps = v.y.dtype, strides_of(v.x(0).shape)
    dims, by = merged(v.y.shape, {"x": tuple(steps[p] for p in v.attr("perm", ()))})
    source, target = list(by["x"]), list(row_major(tuple(dims)))
    portable = OPS[v.core.op].kernel(v)
    if row.bytes not in NAMES or row.packed or source[-1:] == [1] or 1 not in source:
        return None
    if portable is None or portable.inplace:
        return None
    last, beside = len(dims) - 1, source.index(1)
    walked = last if dims[last] >= dims[beside] else beside
    apart = (source if walked == last else target)[walked] * row.bytes
    name, lanes, reach = NAMES[row.bytes]
    if row.bytes == 1 and apart * (NEAR[1] - 1) < NEAR[2]:
        name, lanes, reach = NEAR
    n = dims[walked]
    if n < LEAST or apart * (lanes - 1) >= reach:
        return None
    others = [k for k in range(len(dims)) if k != walked]
    names = [f"i{k}" for k in others]
    to, at = (index_text([s[k] for k in others], names) for s in (target, source))
    how = "gather" if walked == last else "scatter"
    return Kernel(
        "helium.turn",
        "elementwise.c.j2",
        {
            "loops": [(f"i{k}", dims[k]) for k in others],
            "statements": (),
            "store": f"mlf_mve_{how}_{name}(y + {to}, x + {at}, {apart}, {n});",
        },
        around(v),
        cost=math.prod(dims) // n * (8.0 + 4.0 * -(-n // lanes)),
        includes=("mlf/mve_turn.h",),
    )
