"""Whether what we compile of a mutant gives onnxruntime's numbers."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from batch import Job, build_jobs, compile_job
from builders import random_array
from mutants import graphs
from onnx import helper
from onnx.reference import ReferenceEvaluator
from oracle import session

from mlftool.ir.values import put_together

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
MOST_BYTES = 1 << 22  # of a module's memory, for it to be run
# onnxruntime quantises what these compute with, anew in each step; of some forms ours stays float,
# which docs/operators.md states.
QUANTISED_IN_STEPS = {"DynamicQuantizeLSTM"}
RECURRENT = {"RNN", "GRU", "LSTM"}
BOUNDLESS = 1e30  # states of unbounded activations, squared from step to step: inf - inf is near


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
                expected = _runs(model, session(model, False), feeds)
        except Exception:
            yield f"refused_by_ort {one.seed}"
            expected = []
        jobs.append((one, job, expected))
    build_jobs([job for _, job, _ in jobs], folder)
    for one, job, expected in jobs:
        assert isinstance(job.model, onnx.ModelProto)
        if job.failure:
            yield f"found {one.seed} C: {job.failure}"
            continue
        if not expected or differs_by_design(onnx.load_model_from_string(one.data), expected):
            continue
        declared = _declared(one.data)
        text = difference(_ours(job), expected, declared, room_of(job.model))
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


def _runs(model: onnx.ModelProto, runner: Any, feeds: Sequence[Feed]) -> list[Feed]:
    """What a session or an evaluator says of each sample."""
    names = [o.name for o in model.graph.output]
    return [_flat(zip(names, runner.run(None, feed), strict=True)) for feed in feeds]


def _ours(job: Job) -> list[Feed]:
    assert isinstance(job.model, onnx.ModelProto)
    infos = job.model.graph.output
    return [
        _flat((info.name, put_together(info, found)) for info in infos) for found in job.results
    ]


def _flat(values: Iterable[tuple[str, Any]]) -> Feed:
    """Tensors by name; of a sequence its length and its elements, of an absent optional nothing."""
    flat: Feed = {}
    for name, value in values:
        if isinstance(value, list):
            parts = [np.array(len(value)), *value]
            flat |= {f"{name}[{k - 1}]" if k else f"{name}: length": v for k, v in enumerate(parts)}
        elif value is not None:
            flat[name] = np.asarray(value)
    return flat


def room_of(model: onnx.ModelProto) -> float:
    """How far floats may be off, of the largest."""
    return 1e-2 if QUANTISED_IN_STEPS & {n.op_type for n in model.graph.node} else 1e-3


def _reference_agrees(job: Job) -> bool:
    assert isinstance(job.model, onnx.ModelProto)
    try:
        with np.errstate(all="ignore"):
            said = _runs(job.model, ReferenceEvaluator(job.model), job.feeds)
            return not difference(_ours(job), said, {}, room_of(job.model))
    except Exception:
        return False


def differs_by_design(model: onnx.ModelProto, expected: Sequence[Feed]) -> bool:
    """Whether docs/operators.md tells of the difference (antialiased Resize of int8), or recurrent
    sums have left the range in which their order does not matter."""
    parts = [g.node for g in graphs(model.graph)] + [f.node for f in model.functions]
    nodes = [n for part in parts for n in part]
    if RECURRENT & {n.op_type for n in nodes}:
        return any(_boundless(v) for feed in expected for v in feed.values())
    return any(
        n.op_type == "Resize"
        and any(a.name == "antialias" and (a.i or a.ref_attr_name) for a in n.attribute)
        for n in nodes
    ) and any(v.dtype.itemsize == 1 for feed in expected for v in feed.values())


def _boundless(value: Array) -> bool:
    if value.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return bool(np.any(~(np.abs(value.astype(np.float64)) < BOUNDLESS)))


def _declared(data: bytes) -> dict[str, tuple[int, ...]]:
    outputs = onnx.load_model_from_string(data).graph.output
    return {o.name: tuple(d.dim_value for d in o.type.tensor_type.shape.dim) for o in outputs}


def difference(
    got: Sequence[Feed],
    expected: Sequence[Feed],
    declared: dict[str, tuple[int, ...]],
    room: float,
) -> str:
    for ours, theirs in zip(got, expected, strict=True):
        if any(
            n in ours and ours[n].shape == declared.get(n) != v.shape for n, v in theirs.items()
        ):
            continue  # its values break what the model declares: each computes something else
        for name in {**theirs, **ours}:
            if name not in ours or name not in theirs:
                return f"{name}: only {'onnxruntime' if name in theirs else 'mlftool'} has it"
            if text := _differs(name, ours[name], theirs[name], room):
                return text
    return ""


def _differs(name: str, mine: Array, value: Array, room: float) -> str:
    if value.dtype == object or mine.dtype == object:
        return ""
    if mine.shape != value.shape:
        return f"{name}: shape {mine.shape}, expected {value.shape}"
    if not mine.size:
        return ""
    a, b = mine.astype(np.float64), value.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = b[np.isfinite(b)]
        scale = max(1.0, float(np.abs(finite).max(initial=0)))
        error = np.where(same, 0.0, np.abs(a - b) / scale)
    worst = float(np.nan_to_num(error, nan=np.inf).max())
    # A tie of a quantised value may fall either way.
    least = room if value.dtype.kind == "f" else 1 / scale if value.itemsize == 1 else 0
    if worst <= least:
        return ""
    place = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
    return f"{name}: {a.flat[place]:g}, expected {b.flat[place]:g} ({value.dtype})"
