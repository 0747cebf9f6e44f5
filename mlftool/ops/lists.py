"""Elements of sequences that are chosen or cut at run time; each lies in a box (ops/extents.py)."""

from __future__ import annotations

import math
from typing import Any

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, op
from mlftool.ops.extents import boxed


@op("mlf.Choose")
def choose(v: View) -> Kernel:
    """Tensor number *x0 of x1, x2 ... in the corner of a box that has room for each, and its extent
    along each of `axes`. A number beyond them is moved to the nearest end.

    Behind the tensors come extents of theirs that are known at run time: `extents` has for each
    tensor and axis a number, or -1 for the next of them.
    """
    count, box = v.attr("count"), v.y.shape
    given = iter(range(1 + count, len(v.node.inputs)))
    parts = []
    for k in range(count):
        shape = v.x(1 + k).shape
        known = v.attr("extents")[k * len(shape) : (k + 1) * len(shape)]
        true = [f"*x{next(given)}" if n < 0 else str(n) for n in known]
        parts.append({"x": f"x{1 + k}", "rows": _rows(shape, box), "true": true})
    params: dict[str, Any] = {
        "parts": parts,
        "elements": v.y.elements,
        "outs": [(k + 1, axis) for k, axis in enumerate(v.attr("axes"))],
    }
    return boxed(v, "lists_choose", params)


def _rows(shape: tuple[int, ...], box: tuple[int, ...]) -> dict[str, Any]:
    """How to copy a tensor into the corner of a box: loops over rows, and a row's length."""
    cut = next((k for k in reversed(range(len(shape))) if shape[k] != box[k]), 0)
    length = math.prod(shape[cut:])
    loops = list(enumerate(shape[:cut]))
    source = [math.prod(shape[k + 1 :]) for k in range(cut)]
    target = [math.prod(box[k + 1 :]) for k in range(cut)]
    return {
        "loops": loops,
        "length": length,
        "source": " + ".join(f"i{k} * {s}" for k, s in enumerate(source)) or "0",
        "target": " + ".join(f"i{k} * {s}" for k, s in enumerate(target)) or "0",
    }


@op("mlf.SplitAt")
def split_at(v: View) -> Kernel:
    """Consecutive parts of x0 along `axis`, whose sizes x1 holds: one for each part, or one for all
    but the last, which are then as many as it takes. Outputs are all boxes, all sizes, and for one
    size the number of parts."""
    shape, axis, parts = v.x(0).shape, v.attr("axis"), v.attr("parts")
    bounds = [v.type(name).shape[axis] for name in v.node.outputs[:parts]]
    params = {
        "outer": math.prod(shape[:axis]),
        "inner": math.prod(shape[axis + 1 :]),
        "extent": shape[axis],
        "each": [
            {"y": f"y{k}", "bound": bounds[k], "size": f"y{parts + k}", "k": k}
            for k in range(parts)
        ],
        "single": len(v.node.outputs) > 2 * parts,
        "count": f"y{2 * parts}",
    }
    return boxed(v, "lists_split", params)
