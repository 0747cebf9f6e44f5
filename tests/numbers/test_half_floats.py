"""float16: what a node stores is the exact result's rounding, within float's precision of a tie.

Softmax and LogSoftmax round their exponentials and sums, too (tests/ops/test_edges.py has theirs).
onnxruntime computes some operators that the standard defines by others, Attention among them, in
floats throughout, and rounds once; we round what each node of the definition stores, as the
standard has it. So results of a network differ by some quanta, and each of ours is checked here
against exact arithmetic on what was stored before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from onnx import NodeProto, helper, parser
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]
HALF, WIDE = np.float16, np.float64
NEAR = 2.0**-19  # of the largest: sums of floats before they are rounded
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
NODES = {
    "MatMul": "g (float16[3,17] x, float16[17,5] z) => (float16[3,5] y) { y = MatMul (x, z) }",
    "Gemm": """g (float16[3,17] x, float16[5,17] z, float16[5] b) => (float16[3,5] y)
        { y = Gemm <alpha=0.5, beta=2.0, transB=1> (x, z, b) }""",
    "Conv": """g (float16[1,3,6,7] x, float16[4,3,3,3] z, float16[4] b) => (float16[1,4,6,7] y)
        { y = Conv <pads=[1,1,1,1]> (x, z, b) }""",
    "ReduceSum": "g (float16[3,40] x) => (float16[1,1] y) { y = ReduceSum (x) }",
    "Mean": "g (float16[3,40] x) => (float16[1,1] y) { y = ReduceMean (x) }",
    "Add": "g (float16[3,40] x, float16[40] z) => (float16[3,40] y) { y = Add (x, z) }",
    "Div": "g (float16[3,40] x, float16[40] z) => (float16[3,40] y) { y = Div (x, z) }",
    "Exp": "g (float16[3,40] x) => (float16[3,40] y) { y = Exp (x) }",
    "Tanh": "g (float16[3,40] x) => (float16[3,40] y) { y = Tanh (x) }",
    "Erf": "g (float16[3,40] x) => (float16[3,40] y) { y = Erf (x) }",
    "Sigmoid": "g (float16[3,40] x) => (float16[3,40] y) { y = Sigmoid (x) }",
    "AveragePool": """g (float16[1,2,6,7] x) => (float16[1,2,5,6] y)
        { y = AveragePool <kernel_shape=[2,2]> (x) }""",
    "LayerNormalization": """g (float16[3,20] x, float16[20] z) => (float16[3,20] y)
        { y = LayerNormalization (x, z) }""",
    "InstanceNormalization": """g (float16[1,2,9] x, float16[2] z, float16[2] b) =>
        (float16[1,2,9] y) { y = InstanceNormalization (x, z, b) }""",
}


def drawn(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input
    }
    return {name: rng.normal(size=shape).astype(HALF) for name, shape in shapes.items()}


def quantum(exact: Array) -> Array:
    """Between the float16s around each number."""
    return np.spacing(np.abs(exact).astype(HALF)).astype(WIDE)


def assert_rounded(got: Array, exact: Array, name: str) -> None:
    room = quantum(exact) / 2 + NEAR * np.abs(exact).max()
    off = np.abs(got.astype(WIDE) - exact)
    assert np.all(off <= room), f"{name}: {float((off / quantum(exact)).max())} quanta"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Job]:
    models = {name: parser.parse_model(HEAD + text) for name, text in NODES.items()}
    jobs = {
        name: Job(model, tuple(drawn(model, seed) for seed in range(4)))
        for name, model in models.items()
    }
    run_jobs([*jobs.values()], tmp_path_factory.mktemp("half"))
    return jobs


@pytest.mark.parametrize("name", NODES)
def test_each_node_rounds_once(name: str, results: Mapping[str, Job]) -> None:
    job = results[name]
    assert not job.failure, job.failure
    wide = parser.parse_model(HEAD + NODES[name].replace("float16", "double"))
    for feed, got in zip(job.feeds, job.results, strict=True):
        (exact,) = ReferenceEvaluator(wide).run(None, {n: a.astype(WIDE) for n, a in feed.items()})
        assert_rounded(got["y"], np.asarray(exact), name)


def test_attention_rounds_what_each_node_of_its_definition_stores(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 23]>
        g (float16[2,3,4,8] q, float16[2,3,6,8] k, float16[2,3,6,8] v) => (float16[2,3,4,8] y)
        { y = Attention <is_causal=1> (q, k, v) }"""
    model = parser.parse_model(text)
    feeds = tuple(drawn(model, seed) for seed in range(3))
    job = Job(model, feeds)
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for feed, got in zip(feeds, job.results, strict=True):
        want = defined(model.graph.node[0], feed)
        # A tie of one node that floats take the other way moves what follows by a quantum or two.
        off = np.abs(got["y"].astype(WIDE) - want.astype(WIDE))
        assert np.mean(off <= quantum(want)) > 0.8
        assert off.max() <= 2 * quantum(np.abs(want).max())


def defined(node: NodeProto, feed: Mapping[str, Array]) -> Array:
    """The nodes of a definition one by one, each exact and then rounded."""
    schema = onnx.defs.get_schema(node.op_type, 23, "")
    types = [
        helper.make_tensor_type_proto(onnx.TensorProto.FLOAT16, a.shape) for a in feed.values()
    ]
    body = onnx.FunctionProto.FromString(
        schema.get_context_dependent_function_with_opset_version(
            23, node.SerializeToString(), [t.SerializeToString() for t in types]
        )
    )
    values: dict[str, Any] = dict(zip(body.input, feed.values(), strict=False))
    for inner in body.node:
        read = {i: values[i] for i in inner.input if i}
        wide = any(a.dtype == HALF for a in read.values()) and inner.op_type != "Cast"
        given = {n: a.astype(WIDE) if wide and a.dtype == HALF else a for n, a in read.items()}
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in given.items()
        ]
        outs = [helper.make_empty_tensor_value_info(o) for o in inner.output if o]
        graph = helper.make_graph([inner], "one", infos, outs)
        one = helper.make_model(graph, opset_imports=body.opset_import, ir_version=10)
        found = ReferenceEvaluator(one).run(None, given)
        for name, value in zip((o for o in inner.output if o), found, strict=True):
            array = np.asarray(value)
            values[name] = array.astype(HALF) if array.dtype == WIDE and wide else array
    return np.asarray(values[body.output[0]])
