"""A window of a tensor that is written at places known only at run time."""

from __future__ import annotations

from mlftool.ir.graph import View
from mlftool.ir.operations import copies
from mlftool.ops.base import Kernel, op
from mlftool.ops.plain import plain_kernel


@op("mlf.UpdateSlice")
def update_slice(v: View) -> Kernel:
    """Input 0, with input 1 at the indices that input 2 has for each axis; indices are moved so
    far that all of it is inside."""
    whole, part = v.x(0).shape, v.x(1).shape
    params = {
        "axes": list(zip(whole, part, strict=True)),
        "elements": v.x(0).elements,
        "outer": v.x(1).elements // part[-1] if v.x(1).elements else 0,
        "row": part[-1],
    }
    operations = copies(v.x(0).bytes) + copies(v.x(1).bytes)
    return plain_kernel(v, "update_slice", params, operations=operations)
