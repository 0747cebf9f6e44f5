"""`mlftool compare` of a model that was equalised: its tensors are scaled by channel, and are told
in the float model's units, so that only layers that are wrong are called wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Array, Net
from float_nets import SHAPE, mobile, residual, samples
from looks import data_of, refused

from mlftool.quantize.equalise import equalised, pairs, reached
from mlftool.quantize.factors import KEY
from mlftool.quantize.improve import plainest, ranges_of
from mlftool.quantize.network import Network, network
from mlftool.quantize.plan import Precision
from mlftool.quantize.prepare import prepared
from mlftool.quantize.samples import samples_of
from mlftool.quantize.studio import Studio
from mlftool.quantize.write import written

Act = Callable[[Net, str], str]
ACTIVATIONS: dict[str, Act] = {
    "none": lambda net, x: x,
    "relu": lambda net, x: net.node("Relu", x),
    "relu6": lambda net, x: net.node(
        "Clip", x, net.const(np.array(0, np.float32)), net.const(np.array(6, np.float32))
    ),
    "leaky": lambda net, x: net.node("LeakyRelu", x, alpha=0.1),
    "max pool": lambda net, x: net.node(
        "MaxPool", net.node("Relu", x), kernel_shape=[2, 2], strides=[2, 2]
    ),
    "mean pool": lambda net, x: net.node(
        "AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]
    ),
}


def chain(act: Act) -> onnx.ModelProto:
    """A convolution, a depthwise and a pointwise one whose channels differ a hundredfold, a
    residual around the last, and two dense layers; `act` follows each of them."""
    draw = np.random.default_rng(3)
    net = Net(opset=17)
    apart = (10 ** draw.uniform(-1, 1, (2, 8))).astype(np.float32)

    def conv(x: str, w: Array, **attributes: object) -> str:
        return net.node("Conv", x, net.const(w), net.const(0.1 * w[:, 0, 0, 0]), **attributes)

    def weights(*shape: int) -> Array:
        return draw.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32)

    x = net.input("x", np.float32, SHAPE)
    x = act(net, conv(x, weights(8, 3, 3, 3) * apart[0].reshape(-1, 1, 1, 1)))
    taps = weights(8, 1, 3, 3) * (apart[1] / apart[0]).reshape(-1, 1, 1, 1)
    x = act(net, conv(x, taps, group=8, pads=[1, 1, 1, 1]))
    x = act(net, conv(x, weights(6, 8, 1, 1) / apart[1].reshape(1, -1, 1, 1)))
    x = net.node("Add", x, conv(x, weights(6, 6, 1, 1)))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    for wide, out in ((6, 8), (8, 5)):
        rows = net.const(weights(out, wide)), net.const(weights(out, 1)[:, 0])
        x = net.node("Gemm", x, *rows, transB=1)
        x = net.node("Relu", x) if out == 8 else x
    return net.model(x)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    **{name: (lambda act=act: chain(act)) for name, act in ACTIVATIONS.items()},  # type: ignore[misc]
    "mobile": lambda: mobile(spread=1.0),
    "residual": residual,
}


def both(model: onnx.ModelProto, folder: Path) -> tuple[Network, Studio]:
    """The model equalised as far as it goes, which is written in floats and in int8."""
    plain = prepared(model, "net.onnx")
    given = samples_of({"x": samples()}, plain, "data.npz")
    net = network(plain, "net.onnx")
    studio = Studio(net, given)
    other = equalised(net, reached(net, studio), 1.0)
    studio = Studio(other, given)
    plan = plainest(other, ranges_of(studio))
    onnx.save(model, folder / "net.onnx")
    np.savez(folder / "data.npz", x=given.inputs["x"][:4])
    for precision in (Precision.FLOAT, Precision.INT8):
        made = written(other, plan.uniform(precision), "test")
        onnx.save(made, folder / f"{precision}.onnx")
    return other, studio


def told(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    words = ("--against", folder / "net.onnx", "--inputs", folder / "data.npz")
    return data_of(capsys, "compare", folder / f"{name}.onnx", *words)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MODELS)
def test_no_right_layer_is_called_wrong(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, _ = both(MODELS[name](), tmp_path)
    assert bool(net.factors) == bool(pairs(net))
    exact = told(tmp_path, "float", capsys)["layers"]
    assert len(exact) >= len(net.layers)
    assert min(layer["sqnr"] or 200 for layer in exact) > 100
    found = told(tmp_path, "int8", capsys)
    assert found["first_wrong"] is None, found
    assert min(layer["sqnr"] for layer in found["layers"]) > 15
    # An equalised model may be the reference, too.
    words = ("compare", tmp_path / "int8.onnx", "--against", tmp_path / "float.onnx")
    again = data_of(capsys, *words, "--inputs", tmp_path / "data.npz")
    assert again["first_wrong"] is None, again


@pytest.mark.parametrize("wrong", range(4))
def test_a_wrong_layer_is_named(
    wrong: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, _ = both(chain(ACTIVATIONS["relu"]), tmp_path)
    model = onnx.load(tmp_path / "int8.onnx")
    layer = net.layers[wrong]
    (stored,) = (t for t in model.graph.initializer if t.name == f"{layer.weight}_quantized")
    flipped = -onnx.numpy_helper.to_array(stored)
    stored.CopyFrom(onnx.numpy_helper.from_array(flipped, stored.name))
    onnx.save(model, tmp_path / "int8.onnx")
    assert told(tmp_path, "int8", capsys)["first_wrong"] == layer.name


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "[" * 9999, '{"NAME": 1}', '{"NAME": {"axis": 1}}'),
        *('{"NAME": {"axis": 1, "times": [1.0]}}', '{"NAME": {"axis": 9, "times": [1.0]}}'),
        *(f'{{"NAME": {{"axis": 1, "times": [{v}{", 1.0" * 7}]}}}}' for v in ("0.0", "NaN", "[]")),
        f'{{"NAME": {{"axis": -3, "times": [1.0{", 1.0" * 7}]}}}}',
    ],
)
def test_metadata_of_another_form_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, _ = both(chain(ACTIVATIONS["relu"]), tmp_path)
    model = onnx.load(tmp_path / "int8.onnx")
    (entry,) = model.metadata_props
    assert entry.key == KEY
    entry.value = text.replace("NAME", next(n for n in net.factors if n in net.group))
    onnx.save(model, tmp_path / "int8.onnx")
    words = ("compare", tmp_path / "int8.onnx", "--against", tmp_path / "net.onnx")
    said = refused(capsys, *words)
    assert KEY in said
    assert "int8.onnx" in said
