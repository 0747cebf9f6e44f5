"""Models compile with any pass left out, and to the same function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, build_jobs
from oracle import onnxruntime_float
from shared import OWN

from mlftool.compile import LEVELS, TVM_PASSES, ModuleSpec, compile_module

MODELS = ("digits_float32", "gesture_int8", "vibration_float32", "vibration_int8")
LEFT_OUT = {
    **{f"level {level}": {"opt_level": level} for level in range(4)},
    **{f"without {name}": {"disabled_pass": (name,)} for name in (*LEVELS, *TVM_PASSES)},
}


def test_every_way_computes_the_model(tmp_path: Path) -> None:
    jobs: list[tuple[str, Job]] = []
    for name in MODELS:
        model = onnx.load(OWN / f"{name}.onnx")
        with np.load(OWN / f"{name}.npz") as file:
            feeds = [{i.name: file[i.name][0] for i in model.graph.input}]
        for k, (way, options) in enumerate(LEFT_OUT.items()):
            job = Job(model, feeds, name=f"{name}_{k}")
            job.module = compile_module(ModuleSpec(model, job.name, **options))
            jobs.append((way, job))
    build_jobs([job for _, job in jobs], tmp_path, ("-O1",))
    for way, job in jobs:
        assert not job.failure, (way, job.failure)
        (want,) = onnxruntime_float(job.model, job.feeds)
        for key, value in want.items():
            got = job.results[0][key].astype(np.float64)
            # Quantised models may round elsewhere when passes are left out: by two quanta.
            bound = 2.0 if value.dtype.kind in "iu" else 1e-5 * max(1, np.abs(value).max())
            assert np.abs(got - value).max() <= bound, (way, job.name)


@pytest.mark.parametrize("name", TVM_PASSES)
def test_tvm_names_mean_passes_of_ours(name: str) -> None:
    assert set(TVM_PASSES[name]) <= set(LEVELS)
