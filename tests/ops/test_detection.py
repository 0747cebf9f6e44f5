"""What follows a detector's network, as torchvision's SSD has it: each class keeps the best of the
scores above a threshold, labels are expanded to the shape of the scores, and boxes are moved apart
by label before one NonMaxSuppression."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import Net
from onnx import helper
from oracle import Array, assert_close, onnxruntime_float

ANCHORS, CLASSES = 40, 4


class Detector(Net):
    """Nodes that Net has not."""

    def best(self, scores: str, count: str) -> tuple[str, str]:
        name = f"topk_{len(self._nodes)}"
        outputs = [f"{name}.values", f"{name}.indices"]
        self._nodes.append(helper.make_node("TopK", [scores, count], outputs, name=name, axis=0))
        return outputs[0], outputs[1]

    def whole(self, *values: int) -> str:
        return self.const(values, np.int64)


def detector(labels: str) -> onnx.ModelProto:
    """`labels`: the operator that makes them."""
    net, parts = Detector(18), []
    scores = net.node("Softmax", net.input("scores", np.float32, (ANCHORS, CLASSES)), axis=-1)
    boxes = net.input("boxes", np.float32, (ANCHORS, 4))
    for c in range(1, CLASSES):
        of_class = net.node("Squeeze", net.node("Gather", scores, net.whole(c), axis=1))
        found = net.node("NonZero", net.node("Greater", of_class, net.const(0.4, np.float32)))
        at = net.node("Squeeze", net.node("Transpose", found, perm=[1, 0]), net.whole(1))
        some = net.node("Gather", of_class, at)
        count = net.node("Min", net.whole(5 + c), net.node("Shape", some))
        values, places = net.best(some, count)
        shape = net.node("Shape", values)
        label = (
            net.node("Expand", net.whole(c), shape)
            if labels == "Expand"
            else net.node("Add", net.node("ConstantOfShape", shape, value=_int64(c)), net.whole(0))
        )
        parts.append((net.node("Gather", net.node("Gather", boxes, at), places), values, label))
    kept, values, label = (net.node("Concat", *row, axis=0) for row in zip(*parts, strict=True))
    far = net.node("Add", net.node("ReduceMax", kept, keepdims=0), net.const(1, np.float32))
    moved = net.node("Mul", net.node("Cast", label, to=1), far)
    apart = net.node("Add", kept, net.node("Unsqueeze", moved, net.whole(1)))
    picked = net.node(
        "NonMaxSuppression",
        net.node("Unsqueeze", apart, net.whole(0)),
        net.node("Unsqueeze", values, net.whole(0, 1)),
        net.whole(1 << 30),
        net.const([0.5], np.float32),
    )
    last = net.node("Squeeze", net.node("Gather", picked, net.whole(2), axis=1), net.whole(1))
    last = net.node("Slice", last, net.whole(0), net.whole(30), net.whole(0))
    return net.model(*(net.node("Gather", part, last) for part in (kept, values, label)))


def _int64(value: int) -> onnx.TensorProto:
    return helper.make_tensor("value", onnx.TensorProto.INT64, [1], [value])


def _feed(seed: int, spread: float) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 10, size=(ANCHORS, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(1, 5, size=corners.shape)], 1)
    scores = rng.normal(size=(ANCHORS, CLASSES)) * spread
    return {"scores": scores.astype(np.float32), "boxes": boxes.astype(np.float32)}


@pytest.mark.parametrize("labels", ["Expand", "ConstantOfShape"])
def test_a_detectors_last_part(labels: str, tmp_path: Path) -> None:
    model = detector(labels)
    feeds = [_feed(seed, spread) for seed, spread in enumerate((2, 0.7, 0.1, 1.5))]
    expected = onnxruntime_float(model, feeds)
    assert len({sample[model.graph.output[0].name].shape for sample in expected}) > 1
    job = Job(model, feeds)
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results, expected, strict=True):
        assert {n: a.shape for n, a in got.items()} == {n: a.shape for n, a in want.items()}
        assert_close(got, want)
