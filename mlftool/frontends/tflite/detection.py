"""What object detectors end with: boxes around anchors, and the best of those that overlap."""

from __future__ import annotations

import math

import numpy as np

from mlftool.frontends.tflite.contractions import rank
from mlftool.frontends.tflite.conversions import as_floats
from mlftool.frontends.tflite.custom import options
from mlftool.frontends.tflite.site import Site, operator
from mlftool.ir import dtype
from mlftool.ir.graph import TensorType

MOST = 2**15  # of detections and classes


@operator("TFLite_Detection_PostProcess")
def post_process(s: Site) -> None:
    """Inputs are float32 or uint8. Entries after the last detection are zeros; boxes without area
    give none."""
    boxes, scores, anchors, given = s.x(0), s.x(1), s.x(2), options(s)
    found = {t.dtype.name for t in s.made()} | {t.stored for t in (boxes, scores, anchors)}
    known = {"float32"}, {"float32", "uint8"}
    s.expect(found in known, f"types {', '.join(sorted(found))}; supported: float32, uint8")
    rank(s, 3, boxes, scores)
    rank(s, 2, anchors)
    s.expect(len(s.node.outputs) == 4, f"{len(s.node.outputs)} outputs; expected 4")
    count, classes = boxes.type.shape[1], given.number("num_classes", 1, MOST)
    fits = boxes.type.shape[0] == scores.type.shape[0] == 1 and boxes.type.shape[2] >= 4
    fits = fits and scores.type.shape[1] == count and anchors.type.shape == (count, 4)
    s.expect(fits, f"{boxes.type}, {scores.type} and {anchors.type}")
    background = scores.type.shape[2] - classes
    s.expect(background in (0, 1), f"scores {scores.type} of {classes} classes")
    regular = given.number("use_regular_nms", 0, 1, 0)
    each = min(given.number("max_classes_per_detection", 1, MOST), classes)
    s.expect(bool(regular) or each == 1, f"{each} classes for each detection; supported: 1")
    most = given.number("max_detections", 1, MOST)
    s.expect(all(t.dtype == dtype.float32 for t in s.made()), "outputs that are not float32")
    shapes = [t.shape for t in s.made()]
    s.expect(math.prod(shapes[1]) == math.prod(shapes[2]), "outputs of different sizes")
    s.expect(math.prod(shapes[0]) == 4 * math.prod(shapes[1]), "outputs of different sizes")
    room = math.prod(shapes[1])
    s.expect(room >= most and math.prod(shapes[3]) == 1, f"room for {room} of {most} detections")
    overlap = given.real("nms_iou_threshold")
    s.expect(0 < overlap <= 1, f"nms_iou_threshold {overlap}; supported: above 0, at most 1")
    scales = [given.real(f"{axis}_scale") for axis in "yxhw"]
    s.expect(all(scales), "a scale of 0")
    attrs = {
        "most": most,
        "each": given.number("detections_per_class", 1, MOST, 100),
        "classes": classes,
        "background": background,
        "regular": regular,
        "score": float(np.float32(given.real("nms_score_threshold"))),
        "overlap": float(np.float32(overlap)),
        "scales": [float(np.float32(v)) for v in scales],
    }
    names, outs = [_floats(s, i) for i in range(3)], [s.out(k) for k in range(4)]
    s.add("mlf.Detections", names, outs[0], attrs, more=outs[1:])


def _floats(s: Site, i: int) -> str:
    x = s.x(i)
    if x.type.dtype.is_float:
        return s.name(i)
    return as_floats(s, i, TensorType(dtype.float32, x.type.shape))
