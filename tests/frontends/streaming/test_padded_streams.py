"""What is before the first element of time, in every element type; states that callers get, and
long streams."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from onnx import numpy_helper, parser
from oracle import session
from test_streaming import HEAD, network, shape_of, streamed

from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.frontends.streaming.graph import MOST_RUNS
from mlftool.ir.graph import Graph
from mlftool.ops.reference import evaluate
from mlftool.runtime.load import LoadedArchive

# Operators after a Pad with 0.5: `a` is padded, and each makes another value of the padding.
AFTER_PAD = {
    "ReduceSum": "y = ReduceSum(a, one)",
    "ReduceMax": "b = ReduceMax(a, one) y = Sub(a, b)",
    "Softmax": "y = Softmax <axis = 1> (a)",
    "LogSoftmax": "y = LogSoftmax <axis = 1> (a)",
    "Hardmax": "y = Hardmax <axis = 1> (a)",
    "BatchNormalization": "y = BatchNormalization(a, v4, v04, v004, v4)",
    "LayerNormalization": "t = Transpose <perm = [0, 2, 1]> (a) "
    "n = LayerNormalization <axis = -1> (t, v4, v04) y = Transpose <perm = [0, 2, 1]> (n)",
    "MatMul": "t = Transpose <perm = [0, 2, 1]> (a) m = MatMul(t, w44) "
    "y = Transpose <perm = [0, 2, 1]> (m)",
    "Sigmoid": "y = Sigmoid(a)",
    "gates": "b = ReduceSum(a, one) y = Mul(a, b)",
    "Concat": "b = Softmax <axis = 1> (a) y = Concat <axis = 1> (a, b)",
    "Gather": "y = Gather <axis = 1> (a, one)",
    "none": "y = Identity(a)",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("name", AFTER_PAD)
def test_a_padding_becomes_what_the_operator_makes_of_it(name: str, window: int) -> None:
    """From the first run on, as an output and in the history of a window. The output's name is the
    model's."""
    body = AFTER_PAD[name]
    if window:
        body = body.replace("y =", "z =") + " y = MaxPool <kernel_shape = [3]> (z)"
    model = network(
        f"""(float[1,4,time] x) => (float[1,c,more] y) {{
        one = Constant <value = int64[1] {{1}}> () half = Constant <value = float {{0.5}}> ()
        front = Constant <value = int64[6] {{0, 0, 4, 0, 0, 0}}> ()
        a = Pad(x, front, half) {body} }}"""
    )
    for tensor in model.graph.initializer:
        if tensor.name.startswith("v"):  # variances among them
            values = np.linspace(0.5, 1.5, 4, dtype=np.float32)
            tensor.ClearField("dims")
            tensor.dims.append(4)
            tensor.raw_data = values.tobytes()
    xs = np.random.default_rng(1).normal(0, 1, shape_of(model, 30)[0]).astype(np.float32)
    (whole,) = session(model, False).run(None, {"x": xs})
    spec = ModuleSpec(model, "m", stream=("axis=2", "step=3"), input_shapes={"x": (1, 4, 20)})
    module = LoadedArchive(compile_modules([spec]), "", None).module()
    runs = [module.run({"x": x})["y"] for x in np.split(xs, 10, 2)]
    got = np.concatenate(runs, 2)
    late = 2 if window and name not in ("Gather", "none") else 0  # whose padding is as that of `a`
    np.testing.assert_allclose(got[:, :, late:], whole[:, :, : 30 - late], 1e-5, 1e-5)


@pytest.mark.parametrize("op", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("also", [True, False])
def test_the_caller_gets_states_of_recurrent_layers(op: str, also: bool) -> None:
    """The state after the last run is the whole sequence's."""
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[op]
    results = ["y", "h", "c"] if op == "LSTM" else ["y", "h"]
    given = ["s", *results[1:]] if also else results[1:]
    model = network(
        f"""(float[time,1,4] x) => ({", ".join(f"float[a{n},1,3] {n}" for n in given)}) {{
        {", ".join(results)} = {op} <hidden_size = 3> (x, w1{3 * gates % 10}4, w1{3 * gates % 10}3)
        one = Constant <value = int64[1] {{1}}> () s = Squeeze(y, one) }}"""
    )
    del model.graph.initializer[:]
    random = np.random.default_rng(2)
    node = model.graph.node[0]
    for name, n in ((node.input[1], 4), (node.input[2], 3)):
        value = random.normal(0, 0.5, (1, 3 * gates, n)).astype(np.float32)
        tensor = model.graph.initializer.add(name=name, data_type=1, dims=value.shape)
        tensor.raw_data = value.tobytes()
    xs = random.normal(0, 1, (12, 1, 4)).astype(np.float32)
    whole = dict(zip(given, session(model, False).run(None, {"x": xs}), strict=True))
    spec = ModuleSpec(model, "m", stream=("axis=0", "step=2"), input_shapes={"x": (8, 1, 4)})
    module = LoadedArchive(compile_modules([spec]), "", None).module()
    runs = [module.run({"x": x}) for x in np.split(xs, 6)]
    assert sorted(runs[-1]) == sorted(given)
    for name in results[1:]:
        np.testing.assert_allclose(runs[-1][name], whole[name], 1e-5, 1e-5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [np.float16, np.float64])
@pytest.mark.parametrize("op", ["GRU", "LSTM", "RNN"])
@pytest.mark.parametrize("first", ["", ", , h0"])
def test_states_are_of_the_layers_type(op: str, kind: type, first: str) -> None:
    """Those that the model leaves out, too: they are zeros, whose bytes no other tensor has."""
    gates, name = {"GRU": 3, "LSTM": 4, "RNN": 1}[op], {2: "float16", 8: "double"}[kind().itemsize]
    model = parser.parse_model(
        f"""{HEAD}g ({name}[time,1,4] x) => ({name}[time,1,3] y) {{
        a = {op} <hidden_size = 3> (x, w, r, {first})
        one = Constant <value = int64[1] {{1}}> () y = Squeeze(a, one) }}"""
    )
    random = np.random.default_rng(2)
    for weights, shape in (("w", (1, 3 * gates, 4)), ("r", (1, 3 * gates, 3)), ("h0", (1, 1, 3))):
        value = random.normal(0, 0.5, shape).astype(kind)
        model.graph.initializer.append(numpy_helper.from_array(value, weights))
    xs = random.normal(0, 1, (12, 1, 4)).astype(kind)
    spec = ModuleSpec(model, "m", input_shapes={"x": (12, 1, 4)})
    (whole,) = LoadedArchive(compile_modules([spec]), "", None).module().run({"x": xs}).values()
    got = np.concatenate(list(streamed(model, 8, 2, xs)))
    close = 2e-3 if kind is np.float16 else 0  # a run ends with its states rounded to float16
    np.testing.assert_allclose(got, whole, 0, close)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("pads", [(3, 0), (2, 1), (0, 3)])
@pytest.mark.parametrize("zero", [None, 0, 5, 127])
def test_integers_are_padded_with_their_zero_point(
    kind: type, pads: tuple[int, int], zero: int | None
) -> None:
    name, point = np.dtype(kind).name, "" if zero is None else ", z"
    model = parser.parse_model(
        f"""{HEAD}g ({name}[1,2,time] x) => (int32[1,3,time] y) {{
        a = MaxPool <kernel_shape = [2], pads = [1, 0]> (x)
        y = ConvInteger <pads = [{pads[0]}, {pads[1]}]> (a, w{point}) }}"""
    )
    random = np.random.default_rng(3)
    weights = random.integers(0, 9, (3, 2, 4)).astype(kind)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    if zero is not None:
        model.graph.initializer.append(numpy_helper.from_array(np.array(zero, kind), "z"))
    xs = random.integers(0, 100, (1, 2, 24)).astype(kind)
    (whole,) = session(model, False).run(None, {"x": xs})
    got = np.concatenate(list(streamed(model, 12, 2, xs)), 2)
    late = pads[1]
    np.testing.assert_array_equal(got[:, :, late:], whole[:, :, : 24 - late])


@pytest.mark.parametrize("name", ["float16", "float", "double"])
def test_maxima_of_what_is_before_the_first(name: str) -> None:
    """No type's least number is another's; numpy warns of what it can't hold."""
    text = f"""{HEAD}g ({name}[1,2,20] x) => ({name}[1,2,20] y) {{
        a = MaxPool <kernel_shape = [3], pads = [1, 1]> (x)
        y = MaxPool <kernel_shape = [3], pads = [2, 0]> (a) }}"""
    model = parser.parse_model(text)
    kind = {"float16": np.float16, "float": np.float32, "double": np.float64}[name]
    xs = np.random.default_rng(4).normal(0, 1, (1, 2, 20)).astype(kind)
    spec = ModuleSpec(model, "m", stream=("axis=2", "step=2"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = LoadedArchive(compile_modules([spec]), "", None).module()
    got = np.concatenate([module.run({"x": x})["y"] for x in np.split(xs, 10, 2)], 2)
    around = np.pad(xs, ((0, 0), (0, 0), (3, 1)), constant_values=-np.inf)
    whole = np.lib.stride_tricks.sliding_window_view(around, 5, 2).max(-1)
    np.testing.assert_array_equal(got[:, :, 1:], whole[:, :, :19])


def _integers(graph: Graph, runs: int) -> dict[str, np.ndarray]:
    """The integers and truth values of a run after so many."""
    known = {**graph.consts, **{s.input: np.array([runs], np.int32) for s in graph.kept}}
    for node in graph.nodes:
        types = [graph.types[n] for n in (*node.inputs, node.result)]
        if all(t.dtype.kind in "ib" and t.dtype.name != "int64" for t in types):
            known[node.result] = evaluate(node, [known[n] for n in node.inputs])
    return known


@pytest.mark.parametrize("step", [1, 3, 4096, 999_999])
def test_a_long_stream_does_not_begin_again(step: int) -> None:
    """The number of elements before would overflow after 2^31 of them: what is late is told from
    what is not by as many runs as that takes."""
    text = f"""(float[1,1,{step + 9}] x) => (float[1,1,n] y) {{
        a = Conv <pads = [2, 2]> (x, w115) y = Conv <pads = [1, 1]> (a, w113) }}"""
    spec = ModuleSpec(network(text), "m", stream=("axis=2", f"step={step}"))
    graph = compile_module(spec).imported
    (early,) = [n.result for n in graph.nodes if n.op == "Less"]
    assert _integers(graph, 0)[early].any()
    for runs in (2, 1 << 19, MOST_RUNS):
        assert not _integers(graph, runs)[early].any()
