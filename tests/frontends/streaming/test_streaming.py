"""The streaming form of a model against onnxruntime's answer for the whole sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from oracle import Array, session

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.runtime.load import LoadedArchive, load

STEPS = 1000
HEAD = '<ir_version: 9, opset_import: ["": 18]>\n'
# name -> (text, length that the stream is made of, elements of a run, delay of the output)
MODELS: dict[str, tuple[str, int, int, int]] = {
    "residual_blocks": (
        """(float[1,4,time] x) => (float[1,3,time] y) {
        a = Conv <dilations = [2], pads = [4, 0]> (x, w443)
        b = Relu(a)
        c = Add(b, x)
        d = Conv <dilations = [4], pads = [8, 0]> (c, w443, v4)
        e = Add(d, c)
        y = Conv(e, w341)
    }""",
        64,
        1,
        0,
    ),
    "padded_by_an_operator": (
        """(float[1,4,time] x) => (float[1,4,time] y) {
        front = Constant <value = int64[6] {0, 0, 2, 0, 0, 0}> ()
        p = Pad(x, front)
        a = Conv(p, w443, v4)
        q = Pad(a, front)
        b = Conv <group = 4> (q, w413)
        y = Add(b, x)
    }""",
        64,
        4,
        0,
    ),
    "chomped": (
        """(float[1,4,time] x) => (float[1,time,4] y) {
        a = Conv <pads = [4, 4], dilations = [2]> (x, w443, v4)
        zero = Constant <value = int64[1] {0}> ()
        end = Constant <value = int64[1] {-4}> ()
        axis = Constant <value = int64[1] {2}> ()
        c = Slice(a, zero, end, axis)
        t = Transpose <perm = [0, 2, 1]> (c)
        m = MatMul(t, w44)
        y = Softmax <axis = -1> (m)
    }""",
        64,
        1,
        0,
    ),
    "strided": (
        """(float[1,4,time] x) => (float[1,4,less] y) {
        a = Conv <strides = [2], pads = [4, 0]> (x, w445, v4)
        b = MaxPool <kernel_shape = [3], pads = [2, 0]> (a)
        c = Conv <pads = [4, 0], dilations = [2]> (b, w443)
        y = AveragePool <kernel_shape = [2], strides = [2]> (c)
    }""",
        64,
        4,
        0,
    ),
    "norms": (
        """(float[1,4,time] x) => (float[1,4,less] y) {
        a = LpPool <kernel_shape = [5], pads = [4, 0], p = 3> (x)
        b = Conv <pads = [2, 0]> (a, w443, v4)
        y = LpPool <kernel_shape = [3], pads = [2, 0], strides = [2]> (b)
    }""",
        64,
        2,
        0,
    ),
    "looks_ahead": (
        """(float[1,4,time] x) => (float[1,4,time] y) {
        a = Conv <pads = [2, 2]> (x, w445, v4)
        b = Conv <pads = [1, 1]> (a, w443, v4)
        c = MaxPool <kernel_shape = [3], pads = [1, 1]> (b)
        d = Add(c, x)
        y = Add(d, a)
    }""",
        64,
        1,
        4,
    ),
    "images_of_time": (
        """(float[1,1,time,6] x) => (float[1,2,less,3] y) {
        a = Conv <strides = [2, 2], pads = [3, 1, 0, 1]> (x, w2144, v2)
        b = Relu(a)
        y = Conv <group = 2, pads = [2, 1, 0, 1]> (b, w2133)
    }""",
        32,
        2,
        0,
    ),
    "transposed": (
        """(float[1,4,time] x) => (float[1,4,more] y) {
        a = Conv <pads = [1, 1]> (x, w443, v4)
        b = ConvTranspose <strides = [2], pads = [1, 1]> (a, w444, v4)
        y = ConvTranspose <strides = [3], dilations = [2], group = 2, pads = [3, 3]> (b, w425)
    }""",
        64,
        1,
        12,
    ),
    "transposed_without_overlap": (
        """(float[1,4,time] x) => (float[1,4,more] y) {
        a = Conv <pads = [2, 0]> (x, w443, v4)
        y = ConvTranspose <strides = [3], output_padding = [1]> (a, w442, v4)
    }""",
        64,
        2,
        0,
    ),
    "two_levels": (
        """(float[1,4,time] x) => (float[1,4,time] y) {
        a = Conv <pads = [1, 1]> (x, w443, v4)
        p = MaxPool <kernel_shape = [2], strides = [2]> (a)
        b = Conv <pads = [1, 1]> (p, w443)
        scales = Constant <value = float[3] {1.0, 1.0, 2.0}> ()
        u = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">
            (b, , scales)
        h = Resize (b, , scales)
        c = Sum(u, h, a)
        y = Conv <pads = [2, 0]> (c, w443)
    }""",
        64,
        2,
        4,
    ),
    "gates_and_cells": (
        """(float[time,1,4] x) => (float[time,1,3] y) {
        a = GRU <hidden_size = 3> (x, gw, gr)
        one = Constant <value = int64[1] {1}> ()
        y = Squeeze(a, one)
    }""",
        32,
        1,
        0,
    ),
}


def network(text: str) -> onnx.ModelProto:
    """The model with weights whose names say their shape: w443 is 4x4x3, v4 four elements."""
    random = np.random.default_rng(len(text))
    model = parser.parse_model(HEAD + "g " + text)
    shapes = {"gw": (1, 9, 4), "gr": (1, 9, 3)}
    made = {o for n in model.graph.node for o in n.output} | {"x", ""}
    for name in sorted({i for n in model.graph.node for i in n.input} - made):
        shape = shapes.get(name) or tuple(map(int, name[1:]))
        value = random.normal(0, 0.5, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    return model


def shape_of(model: onnx.ModelProto, length: int) -> tuple[tuple[int, ...], int]:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    axis = [d.dim_param for d in dims].index("time")
    return tuple(d.dim_value or length for d in dims), axis


def streamed(
    model: onnx.ModelProto, length: int, step: int, xs: Array, executor: str = "aot"
) -> Array:
    """The outputs of all runs along the axis that has a part of them in each."""
    shape, axis = shape_of(model, length)
    words, shapes = ("axis=time", f"step={step}"), {"x": list(shape)}
    spec = ModuleSpec(model, "m", executor=executor, stream=words, input_shapes=shapes)
    module = LoadedArchive(compile_modules([spec]), "", None).module()
    assert [t.name for t in module.inputs] == ["x"]
    runs = np.split(xs, xs.shape[axis] // step, axis)
    return np.stack([next(iter(module.run({"x": x}).values())) for x in runs])


@pytest.mark.parametrize("name", MODELS)
def test_a_thousand_steps_are_the_whole(name: str) -> None:
    text, length, step, delay = MODELS[name]
    model = network(text)
    shape, _ = shape_of(model, STEPS)
    xs = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    (whole,) = session(model, False).run(None, {"x": xs})
    runs = streamed(model, length, step, xs)
    (axis,) = [k for k, n in enumerate(whole.shape) if n > 50]
    got = np.concatenate(list(runs), axis)
    assert got.shape == whole.shape
    count = whole.shape[axis] - delay - 4  # the end of the whole is padded where it looks ahead
    got = np.take(got, range(delay, delay + count), axis)
    np.testing.assert_allclose(got, np.take(whole, range(count), axis), 1e-5, 1e-5)


def test_bytecode_gives_the_same_bits() -> None:
    text, length, step, _ = MODELS["residual_blocks"]
    xs = np.random.default_rng(1).normal(0, 1, (1, 4, 50)).astype(np.float32)
    runs = [streamed(network(text), length, step, xs, e) for e in ("aot", "vm")]
    np.testing.assert_array_equal(*runs)


QUANTISED = """(float[1,4,time] x) => (float[1,4,time] y) {
    s = Constant <value = float {0.0317}> () r = Constant <value = float {0.0523}> ()
    z = Constant <value = int8 {-7}> () u = Constant <value = int8 {3}> ()
    o = Constant <value = int8 {0}> ()
    q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
    t = Constant <value = float {0.0113}> ()
    k = QuantizeLinear(w443, t, o) w = DequantizeLinear(k, t, o)
    a = Conv <pads = [4, 0], dilations = [2]> (d, w) b = Relu(a)
    e = QuantizeLinear(b, r, u) f = DequantizeLinear(e, r, u)
    g = Conv <pads = [2, 0]> (f, w)
    h = QuantizeLinear(g, r, u) i = DequantizeLinear(h, r, u)
    j = Add(i, d)
    l = QuantizeLinear(j, r, u) y = DequantizeLinear(l, r, u)
}"""


def test_histories_of_integers() -> None:
    """What a quantised layer keeps are its integers, and its sums are integer ones still."""
    model = network(QUANTISED)
    xs = np.random.default_rng(1).normal(0, 1, (1, 4, STEPS)).astype(np.float32)
    (whole,) = session(model, False).run(None, {"x": xs})
    got = np.concatenate(list(streamed(model, 64, 1, xs)), 2)
    np.testing.assert_array_equal(got, whole)
    spec = ModuleSpec(model, "m", stream=("axis=2",), input_shapes={"x": [1, 4, 64]})
    compiled = compile_module(spec)
    assert compiled.sources.state_bytes == 16 + 16  # of 16 and 8, each aligned
    assert not any(c.kernel.name == "portable.conv" for c in compiled.program.calls)


# Floats that onnxruntime's quantiser makes integers of: pools, gates and residuals along time.
QUANTISABLE = {
    "pools": """(float[1,4,time] x) => (float[1,4,less] y) {
        a = Conv <pads = [2, 0]> (x, w443, v4) b = Relu(a)
        p = AveragePool <kernel_shape = [2], strides = [2]> (b)
        c = Conv <pads = [2, 0]> (p, w443, v4) d = Add(c, p)
        y = MaxPool <kernel_shape = [2], strides = [2]> (d) }""",
    "gates": """(float[1,4,time] x) => (float[1,4,time] y) {
        a = Conv <pads = [4, 0], dilations = [2]> (x, w443, v4)
        b = Conv <pads = [4, 0], dilations = [2]> (x, w443)
        s = Sigmoid(a) t = Tanh(b) m = Mul(s, t) c = Conv(m, w441) d = Add(c, x)
        e = LeakyRelu(d) p = AveragePool <kernel_shape = [3], pads = [2, 0],
            count_include_pad = 1> (e) f = Concat <axis = 1> (p, d) y = Conv(f, w481) }""",
    "padded": MODELS["padded_by_an_operator"][0],
    "ahead": MODELS["looks_ahead"][0],
    "images": MODELS["images_of_time"][0],
}
FORMS: dict[str, dict[str, str | bool]] = {
    "qdq": {"per_channel": True, "activation_type": "QInt8", "weight_type": "QInt8"},
    "qoperator": {"quant_format": "QOperator", "activation_type": "QUInt8"},
    "int16": {"activation_type": "QInt16", "weight_type": "QInt8"},
}


def quantised(model: onnx.ModelProto, form: str, folder: Path) -> onnx.ModelProto:
    """What onnxruntime's quantiser makes of it, for any length."""
    tools = pytest.importorskip("onnxruntime.quantization")
    words = {k.name: k for kind in (tools.QuantFormat, tools.QuantType) for k in kind}
    options = {k: words.get(str(v), v) for k, v in FORMS[form].items()}
    shape, _ = shape_of(model, 64)
    samples = iter([{"x": np.random.default_rng(5).normal(0, 1, shape).astype(np.float32)}])

    class Data(tools.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, Array] | None:
            return next(samples, None)

    onnx.save(model, folder / "float.onnx")
    tools.quantize_static(folder / "float.onnx", folder / "made.onnx", Data(), **options)
    return onnx.load(folder / "made.onnx")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", QUANTISABLE)
def test_integers_are_those_of_the_whole(name: str, form: str, tmp_path: Path) -> None:
    """Not one of them is another, since no layer rounds otherwise in a part of the time."""
    model = quantised(network(QUANTISABLE[name]), form, tmp_path)
    step = {"pools": 4, "images": 2}.get(name, 1)
    delay = 4 if name == "ahead" else 0
    shape = shape_of(model, 80)[0]
    xs = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    spec = ModuleSpec(model, "m", input_shapes={"x": list(shape)})
    module = LoadedArchive(compile_modules([spec]), "", None).module()
    (whole,) = module.run({"x": xs}).values()
    (at,) = [k for k, n in enumerate(whole.shape) if n > 15]
    got = np.concatenate(list(streamed(model, 64, step, xs)), at)
    count = whole.shape[at] - delay - 4
    got = np.take(got, range(delay, delay + count), at)
    np.testing.assert_array_equal(got, np.take(whole, range(count), at))


CLASSIFIER = """(float[1,1,{length},6] x) => (float[1,3] y) {{
    a = Conv <strides = [2, 2], pads = [3, 1, 0, 1]> (x, w4144)
    b = Relu(a)
    p = {pool}
    f = Flatten(p)
    y = Gemm(f, w43)
}}"""


def test_a_pool_over_time_is_of_the_last_steps() -> None:
    """The whole of a length is the model; of a longer one its pool slides."""
    short = network(CLASSIFIER.format(length=32, pool="GlobalAveragePool(b)"))
    # 32 elements are 16 behind the stride; before the first there are zeros.
    sliding = (
        "AveragePool <kernel_shape = [16, 3], pads = [15, 0, 0, 0], count_include_pad = 1> (b)"
    )
    text = CLASSIFIER.format(length=200, pool=sliding)
    text = text.replace("f = Flatten(p) y = Gemm(f, w43)", "")
    text = text.replace("float[1,3] y", "float[1,100,3] y").replace(
        "f = Flatten(p)", "t = Transpose <perm = [0, 2, 3, 1]> (p) k = Squeeze(t, two)"
    )
    text = text.replace("y = Gemm(f, w43)", "y = MatMul(k, w43)")
    text = text.replace("{\n    a", "{\n    two = Constant <value = int64[1] {2}> ()\n    a")
    long = network(text)
    del long.graph.initializer[:]
    long.graph.initializer.extend(short.graph.initializer)
    xs = np.random.default_rng(1).normal(0, 1, (1, 1, 200, 6)).astype(np.float32)
    (whole,) = session(long, False).run(None, {"x": xs})
    spec = ModuleSpec(short, "m", stream=("axis=2", "step=2"))
    module = LoadedArchive(compile_modules([spec]), "", None).module()
    runs = [next(iter(module.run({"x": x}).values())) for x in np.split(xs, 100, 2)]
    np.testing.assert_allclose(np.concatenate(runs), whole[0], 1e-5, 1e-5)
    (first,) = session(short, False).run(None, {"x": xs[:, :, :32]})
    np.testing.assert_allclose(runs[15], first, 1e-5, 1e-5)


def test_the_last_element_of_time() -> None:
    text = """(float[1,4,32] x) => (float[1,4] y) {
        a = Conv <pads = [2, 0]> (x, w443)
        last = Constant <value = int64 {31}> ()
        y = Gather <axis = 2> (a, last) }"""
    model = network(text)
    xs = np.random.default_rng(1).normal(0, 1, (1, 4, 32)).astype(np.float32)
    module = LoadedArchive(
        compile_modules([ModuleSpec(model, "m", stream=("axis=2", "step=4"))]), "", None
    ).module()
    runs = [module.run({"x": x})["y"] for x in np.split(xs, 8, 2)]
    (whole,) = session(model, False).run(None, {"x": xs})
    np.testing.assert_allclose(runs[-1], whole, 1e-5, 1e-5)


REFUSED = {
    "y = Softmax <axis = 2> (x)": "it needs all of the time at once",
    "a = Conv <pads = [2, 0], strides = [2]> (x, w443) y = Concat <axis = 2> (a, a)": (
        "its stride 2 does not divide the 1 elements of a run; a larger step does"
    ),
    "y = MatMul(x, w99)": "it sums over time",
    "y = Add(x, w149)": "differs from step to step",
    "a = AveragePool <kernel_shape = [3], pads = [2, 0]> (x) y = Relu(a)": (
        "its averages at the beginning are of fewer elements"
    ),
    "k = Constant <value = int64[1] {2}> () g = ReduceMean(x, k) y = Mul(x, g)": (
        "one of its inputs is of all the time"
    ),
    "s = Constant <value = float[3] {1.0, 1.0, 1.5}> () y = Resize(x, , s)": (
        "it does not repeat each element of time as often"
    ),
    "y = CumSum(x, two)": "its kind of operator has none along time",
    'e = Constant <value = int64[6] {0, 0, 2, 0, 0, 0}> () y = Pad <mode = "reflect"> (x, e)': (
        "pads with elements of the time itself"
    ),
    "a = LSTM <hidden_size = 4> (x, lw, lr) k = Constant <value = int64[1] {1}> () "
    "y = Squeeze(a, k)": "it goes through the time backwards, too",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_has_no_streaming_form(body: str) -> None:
    text = f"(float[1,4,32] x) => (float[a,b,c] y) {{ {body} }}"
    model = parser.parse_model(HEAD + "g " + text)
    constants = {
        "w443": np.ones((4, 4, 3), np.float32),
        "w99": np.ones((32, 9), np.float32),
        "w149": np.ones((1, 4, 32), np.float32),
        "two": np.array(2),
        "lw": np.ones((1, 16, 32), np.float32),
        "lr": np.ones((1, 16, 4), np.float32),
    }
    used = {i for n in model.graph.node for i in n.input}
    for name in used & constants.keys():
        model.graph.initializer.append(numpy_helper.from_array(constants[name], name))
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(model, stream=("axis=2",)))
    (problem,) = caught.value.problems
    assert problem.code == "MLF0302"
    assert REFUSED[body] in problem.message


def test_every_reason_is_listed() -> None:
    text = """(float[1,4,32] x) => (float[1,4,32] y, float[1,4,32] z) {
        two = Constant <value = int64 {2}> () y = Softmax <axis = 2> (x) z = CumSum(x, two) }"""
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(parser.parse_model(f"{HEAD}g {text}"), stream=("axis=2",)))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("axis=tine",), "did you mean 'time'"),
        (("axis=7",), "no input has an axis '7'"),
        (("step=2",), "axis is missing"),
        (("axis=2", "axis=1"), "got axis=2, axis=1; expected each of axis and step once"),
        (("axis=2", "step=64"), "step 64 of the 64 elements of 'x'; expected 1 to 63"),
        (("axis=0",), "has one element; expected an axis of time"),
    ],
)
def test_axes_and_steps(words: tuple[str, ...], says: str) -> None:
    model = network(MODELS["residual_blocks"][0])
    with pytest.raises(MlfError, match="MLF0400") as caught:
        compile_module(ModuleSpec(model, stream=words, input_shapes={"x": [1, 4, 64]}))
    assert says in str(caught.value)


def test_in_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(MODELS["residual_blocks"][0]), tmp_path / "m.onnx")
    text = "version: 1\nmodels:\n  m:\n    model: m.onnx\n    input_shapes: {x: [1, 4, 64]}\n"
    (tmp_path / "models.yaml").write_text(text + "    stream: {axis: time, step: 2}\n")
    command = ["build", str(tmp_path / "models.yaml"), "-o", str(tmp_path / "out")]
    assert main(command) == 0, capsys.readouterr().err
    (archive,) = (tmp_path / "out").rglob("*.tar")
    assert [tuple(t.shape) for t in load(archive).module().inputs] == [(1, 4, 2)]
