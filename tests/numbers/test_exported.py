"""Estimators of scikit-learn as skl2onnx exports them, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from batch import Job, run_jobs

MODELS = {p.stem: p for p in sorted(Path(__file__).with_name("exported").glob("*.onnx"))}
ROWS = 12
MEAN_FLOWER = (5.8, 3.1, 3.8, 1.2)
Array = np.ndarray[Any, Any]


def rows(model: onnx.ModelProto) -> list[dict[str, Array]]:
    """Samples like the data that the estimators were trained on; of flowers, every other one is
    unlike any."""
    (x,) = model.graph.input
    features = x.type.tensor_type.shape.dim[1].dim_value
    random = np.random.default_rng(3)
    data = random.normal(0, 0.05, (ROWS, features))
    if features == 4:
        data = data * 6 + MEAN_FLOWER
        data[::2] = random.uniform(0, 8, data[::2].shape)
    return [{x.name: row[np.newaxis].astype(np.float32)} for row in data]


@pytest.fixture(scope="module")
def jobs(
    tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]
) -> dict[str, Job]:
    made = {}
    for name, path in MODELS.items():
        if selected(name):
            feeds = rows(onnx.load(path))
            shapes = {k: v.shape for k, v in feeds[0].items()}
            made[name] = Job(path, feeds, shapes=shapes)
    run_jobs(list(made.values()), tmp_path_factory.mktemp("exported"))
    return made


def answers(path: Path, feeds: list[dict[str, Array]]) -> list[dict[str, Array]]:
    """onnxruntime's; a row of what ZipMap names, in the order of the labels."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    found = []
    for feed in feeds:
        values = session.run(None, feed)
        plain = [v if isinstance(v, np.ndarray) else _row(v) for v in values]
        found.append(dict(zip(names, plain, strict=True)))
    return found


def _row(maps: list[dict[int, float]]) -> Array:
    return np.array([[scores[k] for k in sorted(scores)] for scores in maps], np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_answers_like_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    kinds: set[int] = set()
    for got, want in zip(job.results, answers(MODELS[name], list(job.feeds)), strict=True):
        assert got.keys() == want.keys()
        for key, value in want.items():
            assert (got[key].dtype, got[key].shape) == (value.dtype, value.shape)
            if value.dtype.kind == "f":
                np.testing.assert_allclose(got[key], value, rtol=2e-5, atol=2e-5)
            else:
                np.testing.assert_array_equal(got[key], value)
                kinds.update(value.ravel().tolist())
    assert len(kinds) != 1, "the samples are all of one class, which proves little"


def test_exports_have_what_their_exporter_writes() -> None:
    """Else these would only be models of our own."""
    models = [onnx.load(path) for path in MODELS.values()]
    assert any(len({o.domain for o in m.opset_import}) < len(m.opset_import) for m in models)
    operators = {n.op_type for m in models for n in m.graph.node}
    assert operators >= {"ZipMap", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}
    assert operators >= {"LinearClassifier", "LinearRegressor", "Scaler", "SVMClassifier"}
