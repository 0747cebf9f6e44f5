"""QuantizeLinear and DequantizeLinear of tensors with an extent known only at run time: scales
belong to an axis, and do not broadcast from the last axis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from batch import Job, run_jobs
from onnx import parser
from oracle import Array, onnxruntime_float

HEAD = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>\n'
THREE = "s = Constant <value = float[3] {0.5, 1, 2}> ()"
ONE = "s = Constant <value = float[1] {0.5}> ()"
# Which axis of x [3, 7] has the extent, the scales, and the attributes.
FORMS = {
    "of the static axis": (1, THREE, "axis = 0"),
    "of the static axis, from the end": (1, THREE, "axis = -2"),
    "of the axis with the extent": (0, f"{THREE} k = Compress(s, c)", "axis = 0"),
    "of one element": (1, ONE, "axis = 0"),
    "of one element along the axis with the extent": (0, ONE, "axis = 0"),
}
DOMAINS = ("", "com.microsoft.")
LEFT = {0: np.array([1, 0, 1], np.bool_), 1: np.array([1, 0, 1, 1, 1, 0, 0], np.bool_)}


def text_of(op: str, form: str, domain: str) -> str:
    axis, scales, attributes = FORMS[form]
    kind, made = ("float", "uint8") if op == "QuantizeLinear" else ("uint8", "float")
    scale = "k" if "k =" in scales else "s"
    return f"""g ({kind}[3,7] x, bool[{3 if axis == 0 else 7}] c) => ({made}[m,n] y, int64[2] z) {{
        {scales} t = Compress <axis = {axis}> (x, c)
        y = {domain}{op} <{attributes}> (t, {scale})
        z = Shape(y) }}"""


def job(op: str, form: str, domain: str) -> Job:
    row = np.float32 if op == "QuantizeLinear" else np.uint8
    x: Array = np.arange(21, dtype=row).reshape(3, 7)
    axis = FORMS[form][0]
    return Job(parser.parse_model(HEAD + text_of(op, form, domain)), [{"x": x, "c": LEFT[axis]}])


@pytest.mark.parametrize("domain", DOMAINS, ids=["standard", "microsoft"])
def test_scales_do_not_broadcast(domain: str, tmp_path: Path) -> None:
    operators = ("QuantizeLinear", "DequantizeLinear")
    jobs = {(op, form): job(op, form, domain) for op in operators for form in FORMS}
    run_jobs(list(jobs.values()), tmp_path)
    for name, done in jobs.items():
        assert not done.failure, f"{name}: {done.failure}"
        for want, got in zip(onnxruntime_float(done.model, done.feeds), done.results, strict=True):
            assert got["y"].shape == want["y"].shape, name
            assert got["z"].tolist() == want["z"].tolist(), name
            assert got["y"].tobytes() == want["y"].tobytes(), name
