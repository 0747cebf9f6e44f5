"""Models that use a domain without importing it, which onnxruntime runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, compile_model, run_jobs
from builders import Net, random_feeds
from oracle import assert_close, onnxruntime_float

from mlftool.errors import MlfError


def unimported(op: str, domain: str, **attributes: object) -> onnx.ModelProto:
    net = Net(17)
    x = net.input("x", np.float32, (2, 6))
    model = net.model(net.node(op, x, domain=domain, **attributes))
    kept = [o for o in model.opset_import if o.domain == ""]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return model


@pytest.mark.parametrize(
    ("op", "domain", "attributes"),
    [("Gelu", "com.microsoft", {}), ("Binarizer", "ai.onnx.ml", {"threshold": 0.5})],
)
def test_domains_that_onnxruntime_knows(
    op: str, domain: str, attributes: dict[str, float], tmp_path: Path
) -> None:
    """NNCF writes MatMulNBits so."""
    model = unimported(op, domain, **attributes)
    feeds = random_feeds(model, 2)
    job = Job(model, feeds)
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(model, feeds), strict=True):
        assert_close(got, want)


def test_another_domain() -> None:
    with pytest.raises(MlfError, match=r"imports no opset of domain 'com.example'"):
        compile_model(unimported("Relu", "com.example"))
