"""What is bounded by counting: loops whose condition is a counter's, and TopK of a minimum."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from onnx import parser
from oracle import onnxruntime_float

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'


def loop(condition: str, trips: str = "most", start: str = "0", step: str = "1") -> str:
    """Steps that add rows of x, as tf2onnx writes Keras' layers: two counters, and a condition."""
    return f"""g (float[6,3] x) => (float[k,3] all, float[3] last)
    <int64 one = {{{step}}}, int64 limit = {{5}}, int64 most = {{9}}, int64 start = {{{start}}},
     bool t = {{1}}, float[3] zeros = {{0, 0, 0}}, int64[1] row = {{-1}}> {{
        begin = Less(start, limit)
        n, m, last, all = Loop ({trips}, begin, start, start, zeros) <
            body = b (int64 i, bool c, int64 n, int64 m, float[3] s)
                => (bool go, int64 n2, int64 m2, float[3] s2, float[3] out) {{
                n2 = Add(n, one)
                m2 = Add(m, one)
                {condition}
                at = Gather(x, n)
                s2 = Add(s, at)
                out = Identity(s2)
            }}
        >
    }}"""


BOTH = "p = Less(n2, limit) q = Less(m2, limit) go = And(p, q)"
LOOPS = {
    "two_counters": (loop(BOTH), 5),
    "without_trip_count": (loop(BOTH, trips=""), 5),
    "trip_count_is_less": (loop("go = Less(n2, most)", trips="limit"), 5),
    "steps_of_two": (loop(BOTH, step="2"), 3),
    "never": (loop(BOTH, start="5"), 0),
    "once": (loop("go = Not(c)"), 1),
    "by_the_iteration": (loop("more = Add(i, one) go = Less(more, limit)"), 5),
}
TOP = """g (float[9] x, int64[1] n) => (float[k] values, int64[k] places)
    <int64[1] four = {4}, int64[0] none = {}> {"""
TOPS = {
    "min": TOP + "k = Min(n, four) values, places = TopK(x, k) }",
    "min_of_a_list": TOP + "both = Concat <axis=0> (four, n) least = ReduceMin <keepdims=0> (both)"
    " one = Unsqueeze(least, zero) values, places = TopK(x, one) }",
    "any_number": TOP + "k = Identity(n) values, places = TopK <largest=0> (x, k) }",
}
TOPS = {k: t.replace("int64[0] none = {}", "int64[1] zero = {0}") for k, t in TOPS.items()}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    rng, made = np.random.default_rng(3), {}
    for name, (text, _) in LOOPS.items():
        x = rng.normal(size=(6, 3)).astype(np.float32)
        made[name] = Job(parser.parse_model(HEAD + text), [{"x": x}])
    for name, text in TOPS.items():
        x = rng.normal(size=9).astype(np.float32)
        feeds = [{"x": x, "n": np.int64([n])} for n in (0, 3, 4, 7)]
        made[name] = Job(parser.parse_model(HEAD + text), feeds)
    run_jobs(list(made.values()), tmp_path_factory.mktemp("counted"))
    return made


@pytest.mark.parametrize("name", LOOPS)
def test_length_of_scan_outputs_is_exact(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    assert job.module is not None
    types = job.module.imported.types
    assert types["all"].shape == (LOOPS[name][1], 3)
    assert not any(n.endswith(".shape") for n in job.module.imported.outputs)
    _same(job)


@pytest.mark.parametrize("name", TOPS)
def test_top_of_a_number_known_at_run_time(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    assert job.module is not None
    bound = 9 if name == "any_number" else 4
    assert job.module.imported.types["values"].shape == (bound,)
    _same(job)


def _same(job: Job) -> None:
    assert isinstance(job.model, onnx.ModelProto)
    wanted = onnxruntime_float(job.model, job.feeds)
    for got, want in zip(job.results, wanted, strict=True):
        for key, value in want.items():
            assert got[key].shape == value.shape
            np.testing.assert_allclose(got[key], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "condition",
    ["big = ReduceMax <keepdims=0> (s) two = Constant <value_float = 2.0> () go = Less(big, two)"],
)
def test_a_condition_of_data_stays_open(condition: str) -> None:
    model = parser.parse_model(HEAD + loop(condition, trips=""))
    with pytest.raises(MlfError, match="the number of its iterations") as caught:
        compile_module(ModuleSpec(model, "m"))
    # The help names an option that works.
    (help,) = {p.help for p in caught.value.problems}
    given = re.findall(r"--input-shape (\S+):", help)
    compile_module(ModuleSpec(model, "m", input_shapes=dict.fromkeys(given, (6, 3))))
