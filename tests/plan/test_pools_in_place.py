"""Pools write over what they have read: the same values as onnxruntime in less memory."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from batch import Job, run_jobs
from builders import Net, random_feeds

from mlftool.compile import ModuleSpec, compile_module

FORMS = {
    "global": {"kernel_shape": [9, 7]},
    "overlapping": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "strides": {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [2, 0, 1, 1]},
    "dilations": {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [2, 1, 2, 1]},
    "grows": {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]},
}


def model(op: str, attrs: dict[str, list[int]], channels: int) -> onnx.ModelProto:
    """Both tensors of the pool are in the arena, and its input dies there."""
    net = Net()
    x = net.input("x", np.float32, (2, 1, 9, 7))
    x = net.node("Conv", x, net.const(np.ones((channels, 1, 1, 1)), np.float32))
    x = net.node(op, x, **attrs)
    return net.model(net.node("Conv", x, net.const(np.ones((1, channels, 1, 1)), np.float32)))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Job]:
    made: dict[tuple[str, str], Job] = {}
    for op in ("MaxPool", "AveragePool"):
        for k, (name, attrs) in enumerate(FORMS.items()):
            net = model(op, attrs, 8 + 3 * k)
            job = Job(net, random_feeds(net, 2), "rv32imc", name=f"m{len(made)}")
            job.module = compile_module(ModuleSpec(net, job.name, "rv32imc"))
            made[op, name] = job
    run_jobs(list(made.values()), tmp_path_factory.mktemp("pools"))
    return made


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_the_output_overlaps_what_was_read(
    op: str, name: str, jobs: dict[tuple[str, str], Job]
) -> None:
    job = jobs[op, name]
    assert not job.failure, job.failure
    assert job.module is not None
    calls = job.module.program.calls
    call = next(
        c for c in calls if c.kernel.name.startswith("portable.") and "pool" in c.kernel.name
    )
    x, y = (job.module.program.graph.types[n] for n in (call.node.inputs[0], call.node.result))
    place = job.module.program.memory.place
    a, b = (place[n] for n in (call.node.inputs[0], call.node.result))
    shared = min(a.offset_bytes + x.bytes, b.offset_bytes + y.bytes)
    assert shared > max(a.offset_bytes, b.offset_bytes)
    session = ort.InferenceSession(job.model.SerializeToString())
    for feed, result in zip(job.feeds, job.results, strict=True):
        wanted = session.run(None, dict(feed))[0]
        np.testing.assert_allclose(next(iter(result.values())), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("target", "optimize", "shares"),
    [
        ("cortex-m4", "speed", True),
        ("cortex-m55", "speed", False),
        ("cortex-m55", "size", True),
        ("host", "speed", False),
    ],
)
def test_compilers_may_make_vectors_of_pools(target: str, optimize: str, shares: bool) -> None:
    """Where they do, tensors are apart and the C says so; -Os makes no vectors."""
    spec = ModuleSpec(model("MaxPool", FORMS["overlapping"], 8), "m", target, optimize=optimize)
    module = compile_module(spec)
    pools = [c for c in module.program.calls if c.kernel.name == "portable.max_pool"]
    assert [bool(c.kernel.overlap) for c in pools] == [shares]
    text = re.search(r"MLF_KERNEL void \w+maxpool\w*\(.*", module.sources.lib1)
    assert text
    assert ("MLF_RESTRICT" in text[0]) != shares
