"""Operands without elements: an output that has elements is what the standard says of none, or is
refused, since there is nothing to take its elements from. All C compiles without a warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, compile_model, run_jobs
from onnx import parser

from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 20]>\n'
X34 = np.arange(12, dtype=np.float32).reshape(3, 4)
# The model and its output; input x is X34, all others are ones.
COMPUTED: dict[str, tuple[str, Any]] = {
    "GatherND without coordinates": (
        "g (float[3,4] x, int64[2,0] i) => (float[2,3,4] y) { y = GatherND(x, i) }",
        np.stack([X34, X34]),
    ),
    "GatherND without coordinates, fused": (
        "g (float[3,4] x, int64[2,0] i) => (float[2,3,4] y) { z = GatherND(x, i) y = Neg(z) }",
        np.stack([-X34, -X34]),
    ),
    "ScatterND without coordinates": (
        "g (float[3,4] x, int64[1,0] i, float[1,3,4] u) => (float[3,4] y) "
        "{ y = ScatterND(x, i, u) }",
        np.ones((3, 4)),
    ),
    "ScatterND of no updates": (
        "g (float[3,4] x, int64[0,1] i, float[0,4] u) => (float[3,4] y) { y = ScatterND(x, i, u) }",
        X34,
    ),
    "DeformConv of no channels": (
        "g (float[1,0,3,3] e, float[2,0,2,2] w, float[1,8,2,2] o, float[2] b) => "
        "(float[1,2,2,2] y) { y = DeformConv(e, w, o, b) }",
        np.ones((1, 2, 2, 2)),
    ),
    "Conv of no channels": (
        "g (float[1,0,3,3] e, float[2,0,2,2] w, float[2] b) => (float[1,2,2,2] y) "
        "{ y = Conv(e, w, b) }",
        np.ones((1, 2, 2, 2)),
    ),
    "Conv of no columns": (
        "g (float[1,2,3,0] e, float[2,2,3,3] w) => (float[1,2,3,1] y) "
        "{ y = Conv <pads = [1, 1, 1, 2]> (e, w) }",
        np.zeros((1, 2, 3, 1)),
    ),
    "MatMul of no depth": (
        "g (float[2,0] e, float[0,3] w) => (float[2,3] y) { y = MatMul(e, w) }",
        np.zeros((2, 3)),
    ),
    "LSTM of no steps": (
        "g (float[0,1,1] e, float[1,4,1] w, float[1,4,1] r, float[1,8] b, int32[1] l, "
        "float[1,1,1] h) => (float[1,1,1] y) "
        "{ d, y = LSTM <hidden_size = 1> (e, w, r, b, l, h) }",
        np.ones((1, 1, 1)),
    ),
    "GridSample of no rows, padded with zeros": (
        "g (float[1,1,0,3] e, float[1,2,2,2] o) => (float[1,1,2,2] y) { y = GridSample(e, o) }",
        np.zeros((1, 1, 2, 2)),
    ),
}
EMPTY = "has no elements to make 1x1x2x2 of"
REFUSED = {
    **{
        f"GridSample, {mode}, {padding}": (
            "g (float[1,1,3,0] e, float[1,2,2,2] o) => (float[1,1,2,2] y) { y = GridSample "
            f'<mode = "{mode}", padding_mode = "{padding}"> (e, o) }}'
        )
        for mode in ("nearest", "linear", "cubic")
        for padding in ("border", "reflection")
    },
    **{
        f"Pad, {mode}": (
            "g (float[1,1,0,2] e) => (float[1,1,2,2] y) "
            "{ p = Constant <value = int64[8] {0, 0, 1, 0, 0, 0, 1, 0}> () "
            f'y = Pad <mode = "{mode}"> (e, p) }}'
        )
        for mode in ("edge", "reflect", "wrap")
    },
    **{
        f"{op} of {image}": (
            f"g (float[{image}] e, float[1,{columns}] r, int64[1] i) => (float[1,1,2,2] y) "
            f"{{ y = {op} <{attributes}> (e, r{more}) }}"
        )
        for op, columns, attributes, more in (
            ("RoiAlign", 4, "output_height = 2, output_width = 2", ", i"),
            ("MaxRoiPool", 5, "pooled_shape = [2, 2]", ""),
        )
        for image in ("0,1,3,3", "1,1,0,3", "1,1,3,0")
    },
    "Resize": "g (float[1,1,0,2] e) => (float[1,1,2,2] y) "
    "{ s = Constant <value = int64[4] {1, 1, 2, 2}> () y = Resize(e, , , s) }",
}


def feed_of(model: onnx.ModelProto) -> dict[str, Any]:
    result = {}
    for given in model.graph.input:
        type_ = given.type.tensor_type
        row = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type)
        shape = [d.dim_value for d in type_.shape.dim]
        result[given.name] = X34 if given.name == "x" else np.ones(shape, row)
    return result


def test_what_the_standard_says(tmp_path: Path) -> None:
    models = {name: parser.parse_model(HEAD + text) for name, (text, _) in COMPUTED.items()}
    jobs = {name: Job(model, [feed_of(model)]) for name, model in models.items()}
    run_jobs(list(jobs.values()), tmp_path)
    for name, job in jobs.items():
        assert not job.failure, f"{name}: {job.failure}"
        np.testing.assert_array_equal(job.results[0]["y"], COMPUTED[name][1], name)


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_to_take(name: str) -> None:
    with pytest.raises(MlfError, match=EMPTY):
        compile_model(parser.parse_model(HEAD + REFUSED[name]))
