"""Whether what we compile of a mutant gives onnxruntime's numbers."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from batch import Job, build_jobs, compile_job
from builders import random_array
from onnx import helper
from oracle import onnxruntime_float, reference

Array = np.ndarray[Any, Any]
MOST_BYTES = 1 << 22  # of a module's memory, for it to be run


@dataclass(frozen=True)
class Accepted:
    """A mutant that we compile."""

    seed: int
    data: bytes


def disagreements(
    accepted: Sequence[Accepted], folder: Path, at: Callable[[int], None]
) -> Iterator[str]:
    """Lines of what is wrong with the C of mutants that onnxruntime runs, too."""
    jobs: list[tuple[Accepted, Job, list[dict[str, Array]]]] = []
    for one in accepted:
        at(one.seed)
        try:
            model = onnx.load_model_from_string(one.data)
            job = Job(model, (), name=f"m{len(jobs)}")
            compile_job(job)
            feeds = _feeds(job, one.seed)
            if feeds is None:
                continue
            job.feeds = feeds
        except Exception as error:
            yield f"found {one.seed} second compile: {error!r}"
            continue
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                expected = onnxruntime_float(model, feeds)
        except Exception:
            yield f"refused_by_ort {one.seed}"
            expected = []
        jobs.append((one, job, expected))
    build_jobs([job for _, job, _ in jobs], folder)
    for one, job, expected in jobs:
        if job.failure:
            yield f"found {one.seed} C: {job.failure}"
            continue
        if not expected:
            continue
        declared = _declared(one.data)
        text = _difference(job.results, expected, declared)
        if text and not _reference_agrees(job):
            yield f"found {one.seed} differs: {text}"
        else:
            yield f"agreed {one.seed}"


def _feeds(job: Job, seed: int) -> list[dict[str, Array]] | None:
    assert job.module is not None
    graph = job.module.imported
    assert isinstance(job.model, onnx.ModelProto)
    total = sum(t.bytes for t in graph.types.values())
    kinds = {i.name: i.type.tensor_type.elem_type for i in job.model.graph.input}
    if total > MOST_BYTES or len(graph.inputs) + len(graph.outputs) > 60:
        return None
    rng, feeds = np.random.default_rng(seed), []
    for _ in range(2):
        sample = {}
        for name in graph.inputs:
            if name not in kinds or kinds[name] in (0, onnx.TensorProto.STRING):
                return None
            dtype = helper.tensor_dtype_to_np_dtype(kinds[name])
            if dtype.kind not in "fbiu":
                return None
            value = random_array(rng, dtype, graph.types[name].shape)
            if dtype.itemsize >= 4 and dtype.kind in "iu":
                value = (value % 5).astype(dtype)
            sample[name] = value
        feeds.append(sample)
    return feeds


def _reference_agrees(job: Job) -> bool:
    assert isinstance(job.model, onnx.ModelProto)
    try:
        with np.errstate(all="ignore"):
            return not _difference(job.results, reference(job.model, job.feeds), {})
    except Exception:
        return False


def _declared(data: bytes) -> dict[str, tuple[int, ...]]:
    outputs = onnx.load_model_from_string(data).graph.output
    return {o.name: tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in outputs}


def _difference(
    got: Sequence[dict[str, Array]],
    expected: Sequence[dict[str, Array]],
    declared: dict[str, tuple[int, ...]],
) -> str:
    for ours, theirs in zip(got, expected, strict=True):
        for name, value in theirs.items():
            if name not in ours:
                return f"no output {name}"
            mine = ours[name]
            if value.dtype == object or mine.dtype == object:
                continue
            if mine.shape != value.shape and mine.shape == declared.get(name):
                continue  # what the model declares and its values break
            if mine.shape != value.shape:
                return f"{name}: shape {mine.shape}, expected {value.shape}"
            if not mine.size:
                continue
            a, b = mine.astype(np.float64), value.astype(np.float64)
            with np.errstate(all="ignore"):
                same = (a == b) | (np.isnan(a) & np.isnan(b))
                finite = b[np.isfinite(b)]
                scale = max(1.0, float(np.abs(finite).max(initial=0)))
                error = np.where(same, 0.0, np.abs(a - b) / scale)
            worst = float(np.nan_to_num(error, nan=np.inf).max())
            # A tie of a quantised value may fall either way.
            least = 1e-3 if value.dtype.kind == "f" else 1 / scale if value.itemsize == 1 else 0
            if worst > least:
                place = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
                return f"{name}: {a.flat[place]:g}, expected {b.flat[place]:g} ({value.dtype})"
    return ""
