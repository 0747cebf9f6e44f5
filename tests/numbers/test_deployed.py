"""Small networks of the families that people deploy, in float and as onnxruntime's quantiser writes
them in both of its formats, against onnxruntime."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import Layers, random_feeds
from onnxruntime.quantization import QuantFormat
from oracle import assert_close, onnxruntime_float, onnxruntime_integer
from quantiser import quantised

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board


def signal_cnn() -> onnx.ModelProto:
    n = Layers()
    x = n.input("signal", np.float32, (1, 3, 32))
    x = n.node("MaxPool", n.node("Relu", n.conv(x, 3, 8, 5)), kernel_shape=[2], strides=[2])
    x = n.node("Relu", n.conv(x, 8, 8, 3, strides=[2]))
    x = n.node("Flatten", n.node("GlobalAveragePool", x))
    return n.model(n.node("Gemm", x, n.weights(5, 8), n.weights(5, fan=50), transB=1))


def residual_depthwise() -> onnx.ModelProto:
    n = Layers()
    x = n.node("Relu", n.conv(n.input("image", np.float32, (1, 3, 12, 12)), 3, 8, 3, 3))
    y = n.node("Relu", n.conv(x, 8, 8, 3, 3, group=8))
    x = n.node("Add", x, n.conv(y, 8, 8, 1, 1))
    x = n.node("AveragePool", x, kernel_shape=[3, 3], strides=[3, 3])
    return n.model(n.dense(n.node("Flatten", x), 128, 4))


def autoencoder() -> onnx.ModelProto:
    n = Layers()
    x = n.input("image", np.float32, (1, 1, 8, 8))
    x = n.node("Relu", n.conv(x, 1, 6, 3, 3, strides=[2, 2]))
    x = n.node("Relu", n.conv(x, 6, 4, 3, 3, strides=[2, 2]))
    for ic, oc in ((4, 6), (6, 1)):
        w, b = n.weights(ic, oc, 2, 2), n.weights(oc, fan=50)
        x = n.node("ConvTranspose", x, w, b, strides=[2, 2])
        x = n.node("Relu" if oc > 1 else "Sigmoid", x)
    return n.model(x)


def recurrent(kind: str, gates: int, direction: str) -> onnx.ModelProto:
    n, hidden = Layers(), 6
    ways = 2 if direction == "bidirectional" else 1
    x = n.node("Transpose", n.input("steps", np.float32, (1, 10, 4)), perm=[1, 0, 2])
    w = n.weights(ways, gates * hidden, 4, fan=4), n.weights(ways, gates * hidden, hidden, fan=6)
    bias = n.weights(ways, 2 * gates * hidden, fan=50)
    y = n.node(kind, x, *w, bias, hidden_size=hidden, direction=direction)
    last = n.node("Gather", y, n.const(-1, np.int64), axis=0)
    return n.model(n.dense(n.shaped(last, 1, ways * hidden), ways * hidden, 3))


def transformer() -> onnx.ModelProto:
    n, time, width, heads = Layers(), 6, 8, 2
    x = n.input("tokens", np.float32, (1, time, width))
    split = (1, time, heads, width // heads)
    q, k, v = (
        n.node("Transpose", n.shaped(n.dense(x, width, width), *split), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scores = n.node("Div", n.node("MatMul", q, k), n.const(2.0, np.float32))
    mixed = n.node("MatMul", n.node("Softmax", scores, axis=-1), v)
    mixed = n.shaped(n.node("Transpose", mixed, perm=[0, 2, 1, 3]), 1, time, width)
    x = n.normal(n.node("Add", x, n.dense(mixed, width, width)), width)
    inner = n.dense(x, width, 16)
    half = n.node("Div", inner, n.const(np.sqrt(2), np.float32))
    gate = n.node("Add", n.node("Erf", half), n.const(1.0, np.float32))
    inner = n.node("Mul", n.node("Mul", inner, gate), n.const(0.5, np.float32))
    return n.model(n.normal(n.node("Add", x, n.dense(inner, 16, width)), width))


def pyramid_head() -> onnx.ModelProto:
    """Two scales joined as in YOLO: Resize, Concat, Sigmoid."""
    n = Layers()
    fine = n.node("Relu", n.conv(n.input("image", np.float32, (1, 3, 16, 16)), 3, 6, 3, 3))
    coarse = n.node("MaxPool", fine, kernel_shape=[2, 2], strides=[2, 2])
    coarse = n.node("Relu", n.conv(coarse, 6, 6, 3, 3))
    scales = n.const([1, 1, 2, 2], np.float32)
    up = n.node(
        "Resize",
        coarse,
        "",
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    y = n.conv(n.node("Concat", up, fine, axis=1), 12, 7, 1, 1)
    y = n.node("Transpose", n.shaped(y, 1, 7, 256), perm=[0, 2, 1])
    return n.model(n.node("Sigmoid", y))


def yolo_head() -> onnx.ModelProto:
    """Convolutions with x * sigmoid(x), pools joined, and boxes from a grid: x, y, w, h, scores."""
    n, cells = Layers(), 16

    def block(x: str, ic: int, oc: int, *kernel: int, **attrs: Any) -> str:
        y = n.conv(x, ic, oc, *kernel, **attrs)
        return n.node("Mul", y, n.node("Sigmoid", y))

    x = block(n.input("image", np.float32, (1, 3, 16, 16)), 3, 8, 3, 3, strides=[2, 2])
    x = block(x, 8, 8, 3, 3, strides=[2, 2])
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pooled = n.node("MaxPool", x, **same)
    joined = n.node("Concat", x, pooled, n.node("MaxPool", pooled, **same), axis=1)
    y = n.conv(block(joined, 24, 8, 1, 1), 8, 7, 1, 1)
    y = n.node("Sigmoid", n.node("Transpose", n.shaped(y, 1, 7, cells), perm=[0, 2, 1]))
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(4)), -1).reshape(1, cells, 2)
    xy = n.node("Split", y, n.const([2, 2, 3], np.int64), axis=2)
    n._nodes[-1].output.extend(["wh", "scores"])
    xy = n.node("Mul", n.node("Add", xy, n.const(grid, np.float32)), n.const(0.25, np.float32))
    wh = n.node("Mul", n.node("Mul", "wh", "wh"), n.const([[[1.5, 2.5]]], np.float32))
    return n.model(n.node("Concat", xy, wh, "scores", axis=2))


def upscaler() -> onnx.ModelProto:
    """Resize by lines, and pixels from channels."""
    n = Layers()
    x = n.node("Relu", n.conv(n.input("image", np.float32, (1, 3, 6, 6)), 3, 8, 3, 3))
    y = n.node("DepthToSpace", n.conv(x, 8, 12, 3, 3), blocksize=2)
    up = n.node("Resize", x, "", n.const([1, 1, 2, 2], np.float32), mode="linear")
    return n.model(n.conv(n.node("Concat", up, y, axis=1), 11, 3, 1, 1))


def detector() -> onnx.ModelProto:
    """What comes after such a head: the best boxes that do not overlap."""
    n = Layers()
    boxes = n.node("Sigmoid", n.input("boxes", np.float32, (1, 20, 4)))
    scores = n.node("Sigmoid", n.input("scores", np.float32, (1, 2, 20)))
    limits = n.const([3], np.int64), n.const([0.5], np.float32), n.const([0.3], np.float32)
    best = n.node("TopK", scores, n.const([5], np.int64), axis=2)
    n._nodes[-1].output.append("places")
    return n.model(n.node("NonMaxSuppression", boxes, scores, *limits), best, "places")


FAMILIES: dict[str, Callable[[], onnx.ModelProto]] = {
    "signal_cnn": signal_cnn,
    "residual_depthwise": residual_depthwise,
    "autoencoder": autoencoder,
    "lstm": lambda: recurrent("LSTM", 4, "forward"),
    "gru": lambda: recurrent("GRU", 3, "bidirectional"),
    "transformer": transformer,
    "pyramid_head": pyramid_head,
    "yolo_head": yolo_head,
    "upscaler": upscaler,
    "detector": detector,
}
INTEGERS = ("signal_cnn", "residual_depthwise", "transformer", "pyramid_head", "yolo_head")
QUANTISED = (*INTEGERS, "autoencoder", "upscaler", "lstm", "gru")
FORMATS = {"qdq": QuantFormat.QDQ, "operators": QuantFormat.QOperator}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    work = tmp_path_factory.mktemp("deployed")
    models = {name: build() for name, build in FAMILIES.items()}
    for name in QUANTISED:
        models |= {f"{name}_{f}": quantised(models[name], form) for f, form in FORMATS.items()}
    made = {name: Job(model, random_feeds(model, 5)) for name, model in models.items()}
    run_jobs(list(made.values()), work)
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_float(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    for want, got in zip(onnxruntime_float(job.model, job.feeds), job.results, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", QUANTISED)
def test_quantised(name: str, form: str, jobs: dict[str, Job]) -> None:
    """Nine in ten results equal, the rest off by a step or two of the last quantisation."""
    job = jobs[f"{name}_{form}"]
    assert not job.failure, job.failure
    # Its optimiser reorders what lies between a transformer's quantisers: as it stands, then.
    oracle = onnxruntime_float if name == "transformer" else onnxruntime_integer
    for want, got in zip(oracle(job.model, job.feeds), job.results, strict=True):
        for key, value in want.items():
            span = float(value.max() - value.min())
            off = np.abs(got[key].astype(np.float64) - value)
            assert np.mean(off > 1e-5 * max(1.0, span)) <= 0.1, key
            assert off.max() <= 3 * span / 255 + 1e-5, key


@pytest.mark.sampled(6)
@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
@pytest.mark.parametrize("name", [*FAMILIES, *(f"{name}_qdq" for name in QUANTISED)])
def test_on_a_cortex_m4(name: str, jobs: dict[str, Job]) -> None:
    """The host's bits, on an emulated device with the kernels of that device."""
    job, board = jobs[name], BOARDS["cortex-m4"]
    bundle = compile_modules([ModuleSpec(job.model, "m", "cortex-m4")])
    interface = read_interface(bundle, "m")
    elf = link_firmware(bundle, interface, board)
    ran = run_on_board(elf, board, interface, job.feeds[:1])
    host = job.program().results(job.output)[0]
    for key, value in ran.outputs[0].items():
        box = host.get(key)
        if box is not None and box.shape == value.shape:
            assert value.tobytes() == box.tobytes(), key
        elif box is not None:  # a box of upper bounds: what is true of it is in its first corner
            corner = value[tuple(slice(n) for n in box.shape)]
            assert corner.tobytes() == box.tobytes(), key


@pytest.mark.parametrize("name", [*INTEGERS, "autoencoder", "upscaler"])
def test_no_float_in_memory(name: str, jobs: dict[str, Job]) -> None:
    """Between a QDQ model's first quantisation and its outputs all tensors are integers."""
    module = jobs[f"{name}_qdq"].module
    assert module is not None
    graph, storage = module.program.graph, module.program.storage
    made = {storage(o) for call in module.program.calls for o in call.node.outputs}
    inside = made - set(graph.outputs)
    assert inside
    assert not [o for o in inside if graph.types[o].dtype.is_float]
