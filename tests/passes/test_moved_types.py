"""Operators that move or compare elements, on either side of quantisation to types C has not:
some of their kernels read whole bytes, and the operators then stay between floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from batch import Job, run_jobs
from builders import Array, Net
from oracle import onnxruntime_float

from mlftool.ops.base import OPS, Trait, has

SHAPE = (1, 4, 5, 3)
GATHERED = np.arange(60).reshape(SHAPE) % 4
# How many outputs, what follows the first input (X: it again, U: other floats), and attributes.
X, U = "x", "u"
MOVES: tuple[tuple[str, int, tuple[Any, ...], dict[str, Any]], ...] = (
    ("ReduceMax", 1, ([2],), {"keepdims": 0}),
    ("ReduceMin", 1, ([1, 3],), {}),
    ("Identity", 1, (), {}),
    ("Reshape", 1, ([3, 20],), {}),
    ("Flatten", 1, (), {"axis": 2}),
    ("Squeeze", 1, ([0],), {}),
    ("Unsqueeze", 1, ([1],), {}),
    ("Transpose", 1, (), {"perm": [3, 1, 0, 2]}),
    ("Expand", 1, ([3, 1, 1, 1],), {}),
    ("Tile", 1, ([1, 1, 2, 3],), {}),
    ("Gather", 1, ([2, 0, 1],), {"axis": 3}),
    ("GatherElements", 1, (GATHERED,), {"axis": 1}),
    ("GatherND", 1, ([[0, 3, 1], [0, 0, 4]],), {}),
    ("ReverseSequence", 1, ([3],), {"batch_axis": 0, "time_axis": 1}),
    ("ArgMax", 1, (), {"axis": 2}),
    ("ArgMin", 1, (), {"axis": 1}),
    ("TopK", 2, ([2],), {"axis": 2}),
    ("Pad", 1, ([0, 1, 0, 0, 0, 0, 2, 1],), {"mode": "reflect"}),
    ("Slice", 1, ([1, 4], [3, 0], [1, 2], [1, -2]), {}),
    ("Split", 2, ([1, 3],), {"axis": 1}),
    ("Concat", 1, (X, U), {"axis": 3}),
    ("Concat", 1, (U,), {"axis": 1}),
    ("Concat", 1, (U,), {"axis": 0}),
    ("Resize", 1, ("", np.float32([1, 1, 2, 2])), {"mode": "nearest"}),
    ("ScatterElements", 1, ([[[[1, 0, 2]]]], np.float32([[[[0.1, -0.2, 0.3]]]])), {"axis": 3}),
    ("ScatterND", 1, ([[0, 2]], np.full((1, 5, 3), 0.1, np.float32)), {}),
    ("MaxPool", 1, (), {"kernel_shape": [2, 2]}),
)


def test_every_operator_that_moves_elements_is_here() -> None:
    made = {"mlf.Copy", "mlf.Nearest"}
    moving = {n for n in OPS if has(n, Trait.MOVES_DATA) or has(n, Trait.ORDER_PRESERVING)}
    assert moving - made <= {op for op, *_ in MOVES}


def quantised(net: Net, x: str, kind: Any) -> str:
    """Stored as `kind` and read back."""
    scale, zero = net.const(0.07, np.float32), net.const(np.zeros((), kind))
    return net.node("DequantizeLinear", net.node("QuantizeLinear", x, scale, zero), scale, zero)


def network(kind: Any, before: bool) -> Job:
    """All of them, of quantised tensors or of what is quantised afterwards."""
    net, outputs = Net(), []
    x, u = net.input("x", np.float32, SHAPE), net.const(noise(2))
    if before:
        x, u = quantised(net, x, kind), quantised(net, u, kind)
    given = {X: x, U: u, "": ""}
    for op, count, more, attrs in MOVES:
        rest = [given[c] if isinstance(c, str) else net.const(c) for c in more]
        y = net.parts(op, count, x, *rest, **attrs)[0]
        y = net.node("Cast", y, to=1) if op.startswith("Arg") else y
        outputs.append(net.node("Neg", y) if before else quantised(net, y, kind))
    return Job(net.model(*outputs), [{"x": noise(1)}])


def noise(seed: int) -> Array:
    return np.random.default_rng(seed).normal(0, 0.25, SHAPE).astype(np.float32)


def test_results_are_those_of_floats(tmp_path: Path) -> None:
    kinds = (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn)
    jobs = [network(kind, before) for kind in kinds for before in (True, False)]
    run_jobs(jobs, tmp_path)
    for job in jobs:
        assert not job.failure, job.failure
        (want,) = onnxruntime_float(job.model, job.feeds)
        for name, value in want.items():
            np.testing.assert_array_equal(job.results[0][name], value, name)
