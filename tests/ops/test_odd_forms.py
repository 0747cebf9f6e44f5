"""Models that are valid but odd, or false in what they declare: onnxruntime's numbers, or a refusal
of one line; never an internal error, and no byte beyond a tensor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from batch import Job, run_jobs
from builders import Net
from onnx import helper

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

F32, I64 = np.float32, np.int64
Model = tuple[onnx.ModelProto, dict[str, Any]]
X = np.arange(12, dtype=F32).reshape(3, 4) - 3


def declared(
    op: str, x: Any, given: dict[str, Any], *shapes: tuple[int, ...], **attrs: Any
) -> Model:
    """An operator of inputs only, whose outputs are declared to have `shapes`."""
    feeds = {"x": np.asarray(x), **{n: np.asarray(v) for n, v in given.items() if n[0] != "_"}}
    code = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(n, code(v.dtype), v.shape) for n, v in feeds.items()]
    kinds = [1, 7 if op == "TopK" else 1]
    outs = [helper.make_tensor_value_info(f"y{k}", kinds[k], s) for k, s in enumerate(shapes)]
    names = ["x", *("" if n[0] == "_" else n for n in given)]
    node = helper.make_node(op, names, [o.name for o in outs], **attrs)
    graph = helper.make_graph([node], "net", inputs, outs)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    ), feeds


def lies() -> list[Model]:
    made = [
        declared("TopK", X, {"k": np.array([3])}, a, b)
        for a, b in (
            *(((3, 3), (2, 3)), ((2, 3), (3, 3)), ((2, 3), (2, 3)), ((1, 1), (1, 1))),
            *(((3, 9), (3, 9)), ((3,), (3,)), ((12,), (12,)), ((), ())),
        )
    ]
    made += [
        declared("Split", X, {"k": np.array([1, 3])}, a, b, axis=1)
        for a, b in (((2, 1), (3, 3)), ((2, 2), (2, 4)), ((3, 1), (3,)), ((3, 9), (3, 9)))
    ]
    size = {"size": np.array([1, 1, 3, 4])}
    made += [
        declared("AffineGrid", np.ones((1, 2, 3), F32), size, shape)
        for shape in ((2, 3, 4, 2), (1, 3, 4, 3), (1, 3, 4, 5, 2), (12,))
    ]
    signal = np.ones((1, 8, 1), F32)
    given: dict[str, Any] = {"step": np.array(2), "_": None, "length": np.array(4)}
    made += [
        declared("STFT", signal, given, shape)
        for shape in ((2, 2, 3), (2, 3, 3, 2), (1, 9, 3, 2), (1, 3, 9, 2), (12,))
    ]
    wave, axis = np.ones((1, 10, 10, 1), F32), {"_": None, "axis": np.array(2)}
    made += [
        declared("DFT", wave, axis, shape, onesided=1)
        for shape in ((1, 6, 10, 2), (1, 10, 6, 2), (1, 6, 6, 2), (2, 10, 6, 2))
    ]
    return made


def test_no_byte_is_beyond_tensors_of_models_that_declare_false_shapes(tmp_path: Path) -> None:
    """What follows from values is taken as declared; a shape that no value gives is refused."""
    jobs = [Job(model, [feeds]) for model, feeds in lies()]
    run_jobs(jobs, tmp_path)
    for job in jobs:
        assert not job.failure or "error[MLF03" in job.failure or "error[MLF02" in job.failure
    assert sum(bool(job.failure) for job in jobs) >= 15


def refused() -> dict[str, tuple[str, onnx.ModelProto]]:
    made = {}
    for count in (2, 3):
        net = Net()
        x = net.input("x", np.int8, (2, 3))
        scale, zero = net.const(0.1, F32), net.const(1, np.int8)
        w, zeros = net.const(np.ones((3, 4)), np.int8), net.const(np.zeros(count), np.int8)
        y = net.node("QLinearMatMul", x, scale, zero, w, scale, zeros, scale, zero)
        made[f"zero_points_{count}"] = ("supported: 1 or per channel", net.model(y))
    net = Net()
    x = net.input("x", I64, (2, 3))
    y = net.node("Slice", net.const([0], I64), x, net.const([1], I64))
    made["slice_by_a_matrix"] = ("expected as many of each", net.model(y))
    net = Net()
    places = net.node("NonZero", net.input("x", F32, (2, 3)))
    y = net.node("Compress", places, net.const(True, np.bool_), axis=1)
    made["compress_by_a_scalar"] = ("by a scalar", net.model(y))
    parts = "expected 1 (real) or 2 (complex)"
    for shape in ((2, 8), (2, 8, 3)):
        net = Net()
        made[f"dft_{shape}"] = (parts, net.model(net.node("DFT", net.input("x", F32, shape))))
    net = Net()
    x, window = net.input("x", F32, (1, 16, 3)), net.const(np.ones(8), F32)
    y = net.node("STFT", x, net.const(2, I64), window)
    made["stft_of_three"] = ("or 1 or 2 parts of each", net.model(y))
    return made


@pytest.mark.parametrize("name", refused())
def test_a_refusal_is_a_line(name: str) -> None:
    text, model = refused()[name]
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(model, "m"))
    assert text in str(caught.value)
    assert "MLF0900" not in str(caught.value)


def _net(build: Callable[[Net], tuple[str, ...]], opset: int = 21) -> onnx.ModelProto:
    net = Net(opset)
    return net.model(*build(net))


def _quantised(value: Any) -> Callable[[Net], tuple[str, ...]]:
    def build(net: Net) -> tuple[str, ...]:
        x = net.input("x", F32, np.shape(value)) if value is not None else net.const([1, np.nan, 2])
        if value is None:
            net.input("x", F32, (3,))
            x = net.node("Cast", x, to=1)
        y = net.node("DynamicQuantizeLinear", x)
        net._nodes[-1].output.extend(["scale", "zero"])
        return (y, "scale", "zero")

    return build


def _one_hot(net: Net) -> tuple[str, ...]:
    at, depth = net.const([[-1, 0], [2, 5], [-4, -3]], I64), net.const([3], I64)
    y = net.node("OneHot", at, depth, net.const([0.5, 2], F32), axis=1)
    return (net.node("Add", y, net.input("x", F32, (3, 3, 2))),)


def _leaky(net: Net) -> tuple[str, ...]:
    y = net.node("LeakyRelu", net.const([1, -1, 0, 2], F32), alpha=float("nan"))
    return (net.node("Add", y, net.input("x", F32, (4,))),)


def _recurrent(net: Net) -> tuple[str, ...]:
    """The default pair spelt out, as exporters do, of which one direction takes the first."""
    w, r = net.const(np.full((1, 2, 3), 0.1), F32), net.const(np.full((1, 2, 2), 0.2), F32)
    x = net.input("x", F32, (4, 1, 3))
    return (net.node("RNN", x, w, r, hidden_size=2, activations=["Tanh", "Tanh"]),)


def _no_products(net: Net) -> tuple[str, ...]:
    y = net.node("MatMul", net.input("x", F32, (3, 0)), net.const(np.zeros((0, 17)), F32))
    return (net.node("Add", y, net.const(np.ones(17), F32)),)


def _signal(net: Net) -> tuple[str, ...]:
    """Real, without an axis of parts: onnx's inference and onnxruntime take it so."""
    step, window = net.const(6, I64), net.node("HannWindow", net.const(8, I64))
    return (net.node("STFT", net.input("x", F32, (2, 40)), step, window, net.const(8, I64)),)


RIGHT: dict[str, tuple[Callable[[Net], tuple[str, ...]], Any]] = {
    "quantised_zeros": (_quantised(np.zeros((2, 3))), np.zeros((2, 3), F32)),
    "quantised_nan": (_quantised(None), np.zeros(3, F32)),
    "one_hot": (_one_hot, np.ones((3, 3, 2), F32)),
    "leaky_nan": (_leaky, np.zeros(4, F32)),
    "recurrent_pair": (_recurrent, np.ones((4, 1, 3), F32)),
    "signal": (_signal, np.sin(np.arange(80, dtype=F32)).reshape(2, 40)),
    "no_products": (_no_products, np.zeros((3, 0), F32)),
}


def test_odd_models_have_the_numbers_of_onnxruntime(tmp_path: Path) -> None:
    models = {name: _net(build) for name, (build, _) in RIGHT.items()}
    jobs = {name: Job(m, [{"x": RIGHT[name][1]}]) for name, m in models.items()}
    run_jobs(list(jobs.values()), tmp_path)
    for name, job in jobs.items():
        assert not job.failure, f"{name}: {job.failure}"
        session = onnxruntime.InferenceSession(models[name].SerializeToString())
        want = session.run(None, {"x": RIGHT[name][1]} if session.get_inputs() else {})
        for got, right in zip(job.results[0].values(), want, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-6, atol=1e-6, err_msg=name)


def test_patches_of_a_model_that_computes_nothing() -> None:
    net = Net()
    x = net.input("x", F32, (1, 4, 4, 2))
    ends = (net.const([n], I64) for n in (2, 2, 1))
    model = net.model(net.node("Slice", x, *ends))
    for patches in ("2", "3", "auto"):
        assert not compile_module(ModuleSpec(model, "m", patches=patches)).program.calls


def test_a_variance_below_zero_gives_no_warning() -> None:
    """Its numbers are nan, as the standard's formula has them; the compiler says nothing of it."""
    net = Net()
    y = net.node("Conv", net.input("x", F32, (1, 2, 3, 3)), net.const(np.ones((2, 2, 1, 1)), F32))
    ones, below = net.const(np.ones(2), F32), net.const([-1, 1], F32)
    model = net.model(net.node("BatchNormalization", y, *[ones] * 3, below))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_module(ModuleSpec(model, "m"))
