"""Boxes of detectors, as TensorFlow Lite's operator selects them."""

from __future__ import annotations

from mlftool.ir.dtype import float32, float64
from mlftool.ir.graph import View
from mlftool.ir.operations import times
from mlftool.ops.base import Kernel, Operand, op
from mlftool.ops.plain import plain_kernel
from mlftool.ops.scalar import literal


@op("mlf.Detections")
def detections(v: View) -> Kernel:
    """Inputs are boxes [1, N, 4 or more] around anchors, scores [1, N, C] and the anchors [N, 4];
    outputs are boxes [.., M, 4], classes, scores and how many there are. With `regular` the best of
    each class are kept, else every box has its best class."""
    count, most = v.x(0).shape[1], v.attr("most")
    params = {
        "count": count,
        "width": v.x(0).shape[2],
        "columns": v.x(1).shape[2],
        "room": v.node.outputs and v.type(v.node.outputs[1]).elements,
        "limit": min(v.attr("each"), count) if v.attr("regular") else min(most, count),
        **{k: v.attr(k) for k in ("most", "classes", "background", "regular")},
        "score": literal(v.attr("score"), float32),
        "overlap": literal(v.attr("overlap"), float32),
        "scales": [literal(scale, float64) for scale in v.attr("scales")],
    }
    best = (most + count) if v.attr("regular") else 0
    scratch = [
        Operand("corners", "float", "scratch", bytes=16 * count),
        Operand("value", "float", "scratch", bytes=4 * count),
        Operand("order", "int32_t", "scratch", bytes=4 * count),
        Operand("chosen", "int32_t", "scratch", bytes=4 * count),
    ]
    if best:
        scratch.append(Operand("kept", "int32_t", "scratch", bytes=4 * best))
    classes = v.x(1).shape[2]
    boxes = count * times(**{"double exp": 2, "double mul": 8, "double add": 8, "whole": 60})
    operations = boxes + count * count * classes * times(less=4, load=4, loop=1)
    exp = ("mlf/math64_exp.h",)
    return plain_kernel(v, "detections", params, *scratch, operations=operations, includes=exp)
