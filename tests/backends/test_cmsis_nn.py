"""CMSIS-NN: what it is given, and that its fixed point gives what TensorFlow Lite's does.

The library is a double (tests/backends/cmsis_nn), whose arithmetic is its documentation's formula,
written apart from mlftool's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from offload import DOUBLE, Loaded, compiled, samples
from tfl_models import RELU, convolution, dense, unary
from tfl_writer import Op, Sub, T, model

from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.frontends.models import TFLite
from mlftool.ir.rounding import multiplier, rescaled
from mlftool.module import Module
from mlftool.runtime.load import LoadedArchive

RNG = np.random.default_rng


def pool(kind: str, activation: int = 0) -> bytes:
    x, y = (T(n, (1, s, s, 5), scale=0.1, zero=4) for n, s in (("x", 7), ("y", 4)))
    options = {"Padding": 0, "StrideW": 2, "StrideH": 2, "FilterWidth": 3, "FilterHeight": 3}
    options["FusedActivationFunction"] = activation
    return unary(kind, x, y, "Pool2DOptions", **options)


def pair(kind: str, table: str, activation: int = 0) -> bytes:
    tensors = [
        T("a", (1, 4, 4, 3), scale=0.05, zero=-7),
        T("b", (1, 4, 4, 3), scale=0.02, zero=11),
        T("y", (1, 4, 4, 3), scale=0.07, zero=3),
    ]
    op = Op(kind, (0, 1), (2,), table, {"FusedActivationFunction": activation})
    return model(Sub(tensors, [op], (0, 1), (2,)))


def softmax(scale: float) -> bytes:
    x, y = T("x", (3, 10), scale=scale, zero=5), T("y", (3, 10), scale=1 / 256, zero=-128)
    return unary("SOFTMAX", x, y, "SoftmaxOptions", Beta=1.0)


def conv(depthwise: bool, activation: int, same: bool) -> bytes:
    return convolution(RNG(5), depthwise=depthwise, activation=activation, same=same)[0]


MODELS = {
    "conv": conv(False, 0, True),
    "conv relu valid": conv(False, RELU, False),
    "depthwise": conv(True, 0, True),
    "depthwise relu valid": conv(True, RELU, False),
    "dense": dense(RNG(1)),
    "dense relu": dense(RNG(2), FusedActivationFunction=RELU),
    "average": pool("AVERAGE_POOL_2D"),
    "average relu": pool("AVERAGE_POOL_2D", RELU),
    "max": pool("MAX_POOL_2D"),
    "max relu": pool("MAX_POOL_2D", RELU),
    "softmax": softmax(0.09),
    "softmax narrow": softmax(0.0011),
    "softmax wide": softmax(1.7),
    "add": pair("ADD", "AddOptions"),
    "add relu": pair("ADD", "AddOptions", RELU),
    "mul": pair("MUL", "MulOptions"),
    "mul relu": pair("MUL", "MulOptions", RELU),
}


def made(data: bytes, *backends: str, target: str = "host") -> Module:
    return compile_module(ModuleSpec(TFLite(data), "m", target, backends=backends))


def loaded(module: Module, folder: Path) -> Loaded:
    folder.mkdir()
    return Loaded(module, folder, [DOUBLE / "double.c"], [DOUBLE])


@pytest.mark.parametrize("name", MODELS)
def test_each_operator_is_equal_to_tensorflow_lite(name: str, tmp_path: Path) -> None:
    own, theirs = made(MODELS[name]), made(MODELS[name], "cmsis-nn")
    assert theirs.report is not None
    assert len(theirs.report.offloaded) == 1
    plain = Loaded(own, tmp_path, [], [])
    library = loaded(theirs, tmp_path / "theirs")
    distinct = set()
    for inputs in samples(own, 20):
        status, want = plain.run(inputs)
        assert status == 0
        status, got = library.run(inputs)
        assert status == 0
        for output in want:
            np.testing.assert_array_equal(got[output], want[output])
            distinct |= set(want[output].reshape(-1).tolist())
    assert len(distinct) > 3
    assert library.number("double_calls").value == 20


def quantised(op: str, relu: bool = False) -> onnx.ModelProto:
    """One operator between DequantizeLinear and QuantizeLinear, as onnxruntime writes it."""
    net, zero = Net(17), np.int8
    a = net.dq(net.input("a", np.int8, (1, 6, 5, 5)), 0.03, zero(4))
    if op == "Softmax":
        return net.model(net.q(net.node("Softmax", a, axis=-1), 1 / 256, zero(-128)))
    if op == "Conv":
        w = RNG(3).integers(-127, 128, (4, 6, 3, 3)).astype(np.int8)
        scales = RNG(4).uniform(0.001, 0.01, 4)
        value = net.node("Conv", a, net.dq(net.const(w), scales, np.zeros(4, np.int8), axis=0))
        return net.model(net.q(value, 0.11, zero(-3)))
    b = net.dq(net.input("b", np.int8, (1, 6, 5, 5)), 0.05, zero(-9))
    value = net.node(op, a, b)
    value = net.node("Relu", value) if relu else value
    return net.model(net.q(value, 0.06, zero(-20)))


def of_onnx(model: onnx.ModelProto, *backends: str, target: str = "host") -> Module:
    return compile_module(ModuleSpec(model, "m", target, backends=backends))


def test_an_onnx_model_is_computed_in_fixed_point(tmp_path: Path) -> None:
    """The sum is exact; its factor is a multiplier of 31 bits, rounded twice."""
    model = quantised("Conv")
    module = of_onnx(model, "cmsis-nn")
    library = loaded(module, tmp_path / "conv")
    (inputs,) = samples(module, 1)
    status, got = library.run(inputs)
    assert status == 0
    w, scales = RNG(3).integers(-127, 128, (4, 6, 3, 3)), RNG(4).uniform(0.001, 0.01, 4)
    x = inputs["a"].astype(np.int64)[0] - 4
    sums = np.array(
        [
            [[(x[:, r : r + 3, c : c + 3] * w[o]).sum() for c in range(3)] for r in range(3)]
            for o in range(4)
        ]
    )
    f32 = [float(np.float32(v)) for v in (0.03, 0.11)]
    pairs = [multiplier(f32[0] * float(np.float32(s)) / f32[1]) for s in scales]
    want = [rescaled(sums[o], *pairs[o]) - 3 for o in range(4)]
    (output,) = got.values()
    np.testing.assert_array_equal(output[0], np.clip(want, -128, 127))


@pytest.mark.parametrize(
    ("op", "relu"), [("Add", False), ("Add", True), ("Mul", False), ("Softmax", False)]
)
def test_what_floats_stand_for_is_taken_whole(op: str, relu: bool, tmp_path: Path) -> None:
    """Off by one at most from our own kernels, which round floats to even."""
    own, theirs = of_onnx(quantised(op, relu)), of_onnx(quantised(op, relu), "cmsis-nn")
    assert theirs.report is not None
    assert (len(theirs.report.offloaded), len(theirs.report.kept)) == (1, 0)
    plain, library = Loaded(own, tmp_path, [], []), loaded(theirs, tmp_path / "theirs")
    for inputs in samples(own, 10):
        (want,), (got,) = (run(inputs)[1].values() for run in (plain.run, library.run))
        assert np.abs(want.astype(int) - got.astype(int)).max() <= 1
        assert len(np.unique(got)) > 10


def test_one_tensor_twice_is_one_parameter(tmp_path: Path) -> None:
    net = Net(17)
    a = net.dq(net.input("a", np.int8, (1, 8)), 0.5, np.int8(1))
    module = of_onnx(net.model(net.q(net.node("Add", a, a), 1.0, np.int8(0))), "cmsis-nn")
    library = loaded(module, tmp_path / "twice")
    x = np.arange(-4, 4, dtype=np.int8).reshape(1, 8)
    status, got = library.run({"a": x})
    assert status == 0
    (output,) = got.values()
    np.testing.assert_array_equal(output, x - 1)


def both(tmp_path: Path) -> Loaded:
    return loaded(made(MODELS["conv"], "cmsis-nn"), tmp_path / "both")


def test_a_status_that_is_no_success_fails_the_run(tmp_path: Path) -> None:
    for name in ("conv", "depthwise", "dense", "average", "max", "add", "mul"):
        library = loaded(made(MODELS[name], "cmsis-nn"), tmp_path / name)
        (inputs,) = samples(library.module, 1)
        library.number("double_fails_at").value = 0
        assert library.run(inputs)[0] == -1, name
        assert library.run(inputs)[0] == 0, name


def test_a_library_that_wants_more_memory_fails_the_run(tmp_path: Path) -> None:
    library = both(tmp_path)
    (inputs,) = samples(library.module, 1)
    library.number("double_extra_bytes").value = 16
    assert library.run(inputs)[0] == -1
    assert library.number("double_calls").value == 0


def test_another_version_does_not_compile(tmp_path: Path) -> None:
    module = made(MODELS["conv"], "cmsis-nn")
    done = compiled(module, tmp_path, [], [DOUBLE], "-DDOUBLE_VERSION=6")
    assert done.returncode != 0
    assert "mlf_needs_cmsis_nn_7" in done.stderr


@pytest.mark.parametrize(
    ("target", "name", "size"),
    [
        ("host", "conv", 4 * 48),
        ("cortex-m4", "conv", 4 * 48),
        ("cortex-m55", "conv", 4 * 48),
        ("host", "depthwise", 0),
        ("cortex-m4", "depthwise", 2 * 6 * 9),
        ("cortex-m55", "depthwise", 4 * 124 * 9),
        ("cortex-m4", "average", 4 * 5),
        ("cortex-m55", "average", 4 * 5),
        ("cortex-m0", "average", 0),
    ],
)
def test_buffers_have_what_each_core_needs(target: str, name: str, size: int) -> None:
    module = made(MODELS[name], "cmsis-nn", target=target)
    (part,) = [c.kernel.external for c in module.program.calls if c.kernel.external]
    assert part.code.workspace_bytes == size


def test_helium_is_given_sums_of_weights() -> None:
    """bias - zero point of the input * sum of a row, which the library reads from its buffer."""
    module = made(MODELS["dense"], "cmsis-nn", target="cortex-m55")
    (part,) = [c.kernel.external for c in module.program.calls if c.kernel.external]
    weights, bias = (part.code.constants[n].astype(int) for n in ("weights", "bias"))
    np.testing.assert_array_equal(part.code.constants["sums"], bias + 7 * weights.sum(axis=1))


def reasons(model: onnx.ModelProto, target: str = "host") -> list[str]:
    report = of_onnx(model, "cmsis-nn", target=target).report
    assert report is not None
    assert not report.offloaded
    return [reason for k in report.kept for reason in k.reasons.values()]


def test_what_is_refused_says_why() -> None:
    def conv(group: int, height: int = 5) -> onnx.ModelProto:
        net = Net(17)
        kernel = (1, 3) if height == 1 else (3, 3)
        x = net.dq(net.input("x", np.int8, (1, 4, height, 8)), 0.03, np.int8(4))
        w = np.ones((4, 4 // group, *kernel), np.int8)
        w = net.dq(net.const(w), 0.01, np.int8(0))
        return net.model(net.q(net.node("Conv", x, w, group=group), 0.1, np.int8(0)))

    assert reasons(conv(2)) == ["has 2 groups; supported: 1, or depthwise"]
    assert reasons(conv(1, height=1), "cortex-m55") == ["is a convolution of one row, on Helium"]

    net = Net(17)
    a = net.dq(net.input("a", np.int8, (2, 4)), 0.5, np.int8(1))
    b = net.dq(net.input("b", np.int8, (1, 4)), 0.5, np.int8(1))
    model = net.model(net.q(net.node("Add", a, b), 1.0, np.int8(0)))
    assert reasons(model) == ["has operands that broadcast"]
    net = Net(17)
    pooled = net.node("MaxPool", net.input("x", np.uint8, (1, 4, 4, 4)), kernel_shape=[2, 2])
    assert reasons(net.model(pooled)) == ["has tensors of uint8; supported: int8"]


def test_without_the_library_one_line_says_what_is_missing(tmp_path: Path) -> None:
    bundle = compile_modules([ModuleSpec(TFLite(MODELS["conv"]), "m", backends=("cmsis-nn",))])
    with pytest.raises(MlfError, match="needs the header 'arm_nn") as caught:
        LoadedArchive(bundle).module().run({"x": np.zeros((1, 7, 7, 5), np.int8)})
    assert caught.value.problems[0].code == "MLF0611"
    assert "CMSIS-NN" in caught.value.problems[0].help
    assert caught.value.exit_code == 2
