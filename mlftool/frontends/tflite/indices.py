"""Operators of indices that TensorFlow Lite has and TensorFlow Lite Micro has not."""

from __future__ import annotations

import numpy as np

from mlftool.frontends.tflite.movement import numbers
from mlftool.frontends.tflite.site import Site, one_of, operator
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType

INDICES = one_of("int32", "int64")


def _one(s: Site, i: int, what: str) -> int:
    found = numbers(s, i, what)
    s.expect(len(found) == 1, f"{len(found)} {what}; expected one")
    return found[0]


@operator("TOPK_V2")
def top_k(s: Site) -> None:
    """Along the last axis, the greatest first, of equal elements the first; as LiteRT."""
    x, k, values, places = s.x().type, _one(s, 1, "numbers of elements"), s.y(), s.y(1).type
    shape = (*x.shape[:-1], k)
    s.expect(bool(x.shape) and 0 <= k <= x.shape[-1], f"{k} elements of {x}")
    s.expect(values.stored == s.x().stored, f"an output {values.stored} for {x}")
    s.expect({values.type.shape, places.shape} == {shape}, f"an output {values.type} for {x}")
    s.expect(places.dtype.name in ("int32", "int16"), f"an output {places}; supported: int32")
    wide = s.draft.fresh(f"{s.label}.places", TensorType(dtype.int64, shape))
    count = s.const(np.array([k], np.int64), what="k")
    s.add("TopK", (s.name(), count), s.out(), {"axis": -1}, more=(wide,))
    s.add("Cast", (wide,), s.out(1), {"to": places.dtype.onnx})


@operator("ONE_HOT")
def one_hot(s: Site) -> None:
    """An index outside of the depth has no element that is on; as LiteRT."""
    x, depth, y = s.x().type, _one(s, 1, "depths"), s.y().type
    s.expect(x.dtype.name in INDICES, f"indices of {x.dtype}; supported: int32, int64")
    axis = s.option("axis", -1)
    s.expect(-1 <= axis <= len(x.shape), f"axis {axis} of {x}")
    axis = len(x.shape) if axis < 0 else axis
    shape = (*x.shape[:axis], depth, *x.shape[axis:])
    s.expect(depth >= 0 and y.shape == shape, f"an output {y}; expected the shape {shape}")
    stored = {s.x(k).stored for k in (2, 3)}
    fits = stored == {s.y().stored} and s.x(2).type.elements == s.x(3).type.elements == 1
    s.expect(fits, f"values {s.x(2).type} and {s.x(3).type} for {y}")
    wide = s.reshaped(s.name(), (*x.shape[:axis], 1, *x.shape[axis:]))
    counted = np.arange(depth).reshape(depth, *(1,) * (len(x.shape) - axis))
    found = s.add("Equal", (wide, s.const(counted, x.dtype)), TensorType(dtype.bool_, y.shape))
    ends = [s.reshaped(s.name(k), ()) for k in (2, 3)]
    s.add("Where", (found, *ends), s.out())


@operator("SCATTER_ND")
def scatter_nd(s: Site) -> None:
    """Rows with the same index are added, as in LiteRT."""
    at, rows, y = s.x().type, s.x(1).type, s.y().type
    s.expect(at.dtype.name in INDICES, f"indices of {at.dtype}; supported: int32, int64")
    s.expect(numbers(s, 2, "shapes") == list(y.shape), f"an output {y} of another shape")
    s.expect(s.x(1).stored == s.y().stored, f"rows {rows} for {y}")
    depth = at.shape[-1] if at.shape else 0
    fits = 1 <= depth <= len(y.shape) and rows.shape == (*at.shape[:-1], *y.shape[depth:])
    s.expect(fits, f"rows {rows} at {at} for {y}")
    s.expect(y.dtype.name != "bool", "bool; supported: numbers")
    places = s.add("Cast", (s.name(),), TensorType(dtype.int64, at.shape), {"to": 7})
    if not s.y().unsigned:
        zeros = s.const(np.zeros(y.shape), y.dtype, "zeros")
        s.add("ScatterND", (zeros, places, s.name(1)), s.out(), {"reduction": "add"})
        return
    # Bytes are added as they are stored, and elements without a row are 0, no zero point.
    added = s.add("mlf.TopBit", (s.name(1),), TensorType(dtype.uint8, rows.shape))
    parts = (s.const(np.zeros(y.shape), dtype.uint8, "zeros"), places, added)
    made = s.add("ScatterND", parts, TensorType(dtype.uint8, y.shape), {"reduction": "add"})
    s.add("mlf.TopBit", (made,), s.out())
