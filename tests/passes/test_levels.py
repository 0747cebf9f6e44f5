"""Models compile with any pass left out, and to the same function."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Build, Job, build_jobs
from oracle import onnxruntime_float
from shared import OWN

from mlftool.compile import ModuleSpec, compile_module
from mlftool.ir.graph import Graph
from mlftool.passes import PIPELINE, TVM_PASSES
from mlftool.passes.order import ALWAYS, Pass, ordered

# Those that can be left out.
LEVELS = {p.name for p in PIPELINE if p.level != ALWAYS}
MODELS = ("digits_float32", "gesture_int8", "vibration_float32", "vibration_int8")
LEFT_OUT = {
    **{f"level {level}": {"opt_level": level} for level in range(4)},
    **{f"without {name}": {"disabled_pass": (name,)} for name in (*sorted(LEVELS), *TVM_PASSES)},
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
    build_jobs([job for _, job in jobs], tmp_path, Build())
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
    assert set(TVM_PASSES[name]) <= LEVELS


def test_the_order_is_the_one_we_know() -> None:
    """The place to read it: each pass says its own in its file."""
    assert [p.name for p in PIPELINE] == [
        "canonicalise",
        "widen",
        "fold_batchnorm",
        "spread_batchnorm",
        "sink_and_hoist",
        "to_integer",
        "settle_weights",
        "fold_constants",
        "average_to_integer",
        "to_signed",
        "channels_last",
        "cancel_transposes",
        "fold_moved_constants",
        "split_transposed",
        "drop_constant_channels",
        "fuse_chains",
        "tabulate",
        "fuse_prologues",
        "fuse_epilogues",
        "store_outputs",
    ]


def made(name: str, after: str = "", before: str = "") -> Pass:
    def run(graph: Graph) -> Graph:
        return graph

    run.__name__ = name
    return Pass(run, after, before)


def test_a_pass_goes_where_it_says() -> None:
    given = [made("c", "b"), made("new", "a", "b"), made("b", "a"), made("a")]
    assert [p.name for p in ordered(given)] == ["a", "new", "b", "c"]


@pytest.mark.parametrize(
    ("passes", "names"),
    [
        ((made("a"), made("b")), "a, b"),
        ((made("a", "b"), made("b", "a")), "a, b"),
        ((made("a"), made("b", "a"), made("new", "a")), "b, new"),
    ],
)
def test_an_order_must_follow_from_what_they_say(passes: tuple[Pass, ...], names: str) -> None:
    with pytest.raises(ValueError, match=f"do not say their order: {names}"):
        ordered(passes)
