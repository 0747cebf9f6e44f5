"""Bodies of operators that the standard defines by others read the graph around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bad_corpus import model, node, value
from batch import Build, Job, run_jobs
from onnx import ModelProto, TensorProto, helper


def sequence_map() -> ModelProto:
    body = helper.make_graph(
        [node("Mul", "e x", "p"), node("Add", "p two", "q")], "body", [value("e")], [value("q")]
    )
    steps = [
        node("Constant", "", "two", value=helper.make_tensor("t", TensorProto.FLOAT, [], [2.0])),
        node("Neg", "x", "n"),
        node("SequenceConstruct", "x n", "s"),
        node("SequenceMap", "s", "m", body=body),
        node("ConcatFromSequence", "m", axis=0),
    ]
    return model(steps, outputs=[value("y", (2, 4))])


def attention() -> ModelProto:
    scores = value("e", (1, 1, 2, 2))
    body = helper.make_graph(
        [node("Mul", "e factor", "q")], "body", [scores], [value("q", (1, 1, 2, 2))]
    )
    steps = [
        node("Reshape", "x shape", "r"),
        node("ReduceMax", "x", "factor", keepdims=0),
        node("FlexAttention", "r r r", "y", score_mod=body, domain="ai.onnx.preview"),
    ]
    shape = helper.make_tensor("shape", TensorProto.INT64, [4], [1, 1, 2, 2])
    opsets = [("", 26), ("ai.onnx.preview", 1)]
    return model(steps, outputs=[value("y", (1, 1, 2, 2))], weights=[shape], opsets=opsets)


@pytest.mark.parametrize("made", [sequence_map, attention])
def test_bodies_read_what_is_around_them(made: object, tmp_path: Path) -> None:
    assert callable(made)
    x = np.asarray([[0.5, -1.0, 2.0, 3.0]], np.float32)
    job = Job(made(), [{"x": x}])
    run_jobs([job], tmp_path, Build("-O0"))
    assert not job.failure, job.failure
    if made is attention:
        q = x.reshape(2, 2)
        scores = q @ q.T / np.sqrt(np.float32(2)) * x.max()
        shares = np.exp(scores - scores.max(1, keepdims=True))
        want = (shares / shares.sum(1, keepdims=True)) @ q
    else:
        want = np.concatenate([x * x + 2, -x * x + 2])
    assert np.allclose(job.results[0]["y"].reshape(want.shape), want, rtol=1e-6)
