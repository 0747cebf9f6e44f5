"""Each pass, before and after, as text. The verifier runs on every result."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net

from mlftool.compile import ModuleSpec, compile_module
from mlftool.frontends import models
from mlftool.ir.graph import Graph
from mlftool.ir.verify import verify
from mlftool.passes import batchnorm, canonicalise, fold, fuse, integers, layout, outputs, qdq

Pass = Callable[[Graph], Graph]


def imported(model: onnx.ModelProto, folder: Path) -> Graph:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return verify(models.imported(path, "g")[0], "import")


def shape(graph: Graph) -> list[str]:
    """The graph's nodes without value names: operator, kinds of its inputs, type of its output."""
    lines = []
    for line in str(graph).splitlines()[1:-2]:
        out, _, right = line.strip().partition(" = ")
        right = re.sub(r"%[^,)\s]+", "%", right)
        right = re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda m: f"{float(m[0]):.4g}", right)
        geometry = r" (kernel_shape|strides|dilations|pads|group|transB|axis)=(\[[^]]*\]|\S+)"
        right = re.sub(geometry, "", right)
        lines.append(f"{out.rpartition(': ')[2]} = {right}")
    return lines


def run(model: onnx.ModelProto, folder: Path, *passes: Pass) -> list[str]:
    graph = imported(model, folder)
    for rewrite in passes:
        graph = verify(rewrite(graph), rewrite.__name__)
    return shape(graph)


def test_canonicalise_turns_matmul_and_add_into_gemm(tmp_path: Path) -> None:
    net = Net()
    x = net.node("Identity", net.input("x", np.float32, (2, 3)))
    y = net.node("MatMul", x, net.const(np.ones((3, 4)), np.float32))
    model = net.model(net.node("Flatten", net.node("Add", y, net.const(np.ones(4), np.float32))))
    assert run(model, tmp_path) == [
        "float32[2x3] = Identity(%)",
        "float32[2x4] = MatMul(%, <float32[3x4]>)",
        "float32[2x4] = Add(%, <float32[4]>)",
        "float32[2x4] = Flatten(%)",
    ]
    assert run(model, tmp_path, canonicalise.canonicalise) == [
        "float32[2x4] = Gemm(%, <float32[3x4]>, <float32[4]>)",
        "float32[2x4] = Reshape(%)",
    ]


def test_canonicalise_keeps_a_bias_per_row_apart(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", np.float32, (2, 3))
    w, b = net.const(np.ones((3, 2)), np.float32), net.const(np.ones((2, 1)), np.float32)
    model = net.model(net.node("Gemm", x, w, b))
    assert run(model, tmp_path, canonicalise.canonicalise) == [
        "float32[2x2] = Gemm(%, <float32[3x2]>)",
        "float32[2x2] = Add(%, <float32[2x1]>)",
    ]


def batchnorm_after(op: str, seed: int) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    net = Net()
    if op == "Conv":
        x = net.input("x", np.float32, (1, 2, 4, 4))
        y = net.node("Conv", x, net.const(rng.normal(size=(3, 2, 3, 3)), np.float32))
    elif op == "Gemm":
        x = net.input("x", np.float32, (2, 5))
        w, b = rng.normal(size=(5, 3)), rng.normal(size=3)
        y = net.node("Gemm", x, net.const(w, np.float32), net.const(b, np.float32))
    else:
        y = net.node("Relu", net.input("x", np.float32, (2, 3, 4)))
    values = [rng.normal(size=3), rng.normal(size=3), rng.normal(size=3), rng.uniform(0.1, 3, 3)]
    args = [net.const(v, np.float32) for v in values]
    return net.model(net.node("BatchNormalization", y, *args, epsilon=0.001))


def test_fold_batchnorm(tmp_path: Path) -> None:
    """Into the producer where it has weights, else a factor and an addend."""
    into = (
        canonicalise.canonicalise,
        batchnorm.fold_batchnorm,
        batchnorm.spread_batchnorm,
    )
    assert run(batchnorm_after("Conv", 1), tmp_path, *into) == [
        "float32[1x3x2x2] = Conv(%, <float32[3x2x3x3]>, <float32[3]>)"
    ]
    assert run(batchnorm_after("Gemm", 1), tmp_path, *into) == [
        "float32[2x3] = Gemm(%, <float32[5x3]>, <float32[3]>)"
    ]
    assert run(batchnorm_after("Relu", 1), tmp_path, *into) == [
        "float32[2x3x4] = Relu(%)",
        "float32[2x3x4] = Mul(%, <float32[1x3x1]>)",
        "float32[2x3x4] = Add(%, <float32[1x3x1]>)",
    ]


def test_sink_and_hoist(tmp_path: Path) -> None:
    """DQ sinks below what moves or compares, meets an equal Q, and both vanish."""
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, 2, 4, 4)), 0.5, np.int8(3))
    y = net.node("MaxPool", x, kernel_shape=[2, 2])
    y = net.node("Transpose", y, perm=[0, 2, 3, 1])
    model = net.model(net.node("Identity", net.q(y, 0.5, np.int8(3))))
    assert run(model, tmp_path, canonicalise.canonicalise, qdq.sink_and_hoist) == [
        "int8[1x2x3x3] = MaxPool(%)",
        "int8[1x3x3x2] = Transpose(%) perm=[0, 2, 3, 1]",
        "int8[1x3x3x2] = Reshape(%)",
    ]


def quantised_gemm(w_scale: float | list[float], axis: int) -> onnx.ModelProto:
    net = Net()
    x = net.dq(net.input("x", np.int8, (1, 4)), 0.5, np.int8(3))
    zero = np.zeros(np.shape(w_scale), np.int8)
    w = net.dq(net.const(np.ones((4, 4)), np.int8), w_scale, zero, axis)
    y = net.node("Relu", net.node("Gemm", x, w))
    return net.model(net.q(y, 0.25, np.int8(-10)))


def test_to_integer(tmp_path: Path) -> None:
    """Relu becomes the lower end of the stored range: real 0 is -10."""
    passes = (canonicalise.canonicalise, qdq.sink_and_hoist, integers.to_integer)
    assert run(quantised_gemm(0.125, 1), tmp_path, *passes) == [
        "int8[1x4] = com.microsoft.QGemm(%, 0.5, 3, <int8[4x4]>, 0.125, 0, _, 0.25, -10) "
        "activation=(-10, 127)"
    ]


def test_to_integer_refuses_scales_along_the_wrong_axis(tmp_path: Path) -> None:
    """A scale per input channel cannot leave the sum: the Gemm stays in float."""
    passes = (canonicalise.canonicalise, qdq.sink_and_hoist, integers.to_integer)
    assert run(quantised_gemm([0.1, 0.2, 0.3, 0.4], 0), tmp_path, *passes) == [
        "float32[1x4] = DequantizeLinear(%, 0.5, 3)",
        "float32[4x4] = DequantizeLinear(<int8[4x4]>, <float32[4x1]>, <int8[4x1]>)",
        "float32[1x4] = Gemm(%, %)",
        "float32[1x4] = Relu(%)",
        "int8[1x4] = QuantizeLinear(%, 0.25, -10)",
    ]


def test_average_to_integer(tmp_path: Path) -> None:
    net = Net()
    x = net.dq(net.input("x", np.uint8, (1, 2, 4, 4)), 0.5, np.uint8(3))
    model = net.model(net.q(net.node("GlobalAveragePool", x), 0.25, np.uint8(4)))
    passes = (canonicalise.canonicalise, qdq.sink_and_hoist, integers.average_to_integer)
    assert run(model, tmp_path, *passes) == [
        "uint8[1x2x1x1] = com.microsoft.QLinearAveragePool(%, 0.5, 3, 0.25, 4)"
    ]


def test_fold_constants(tmp_path: Path) -> None:
    net = Net()
    c = net.dq(net.const([[1, 2], [3, 4]], np.int8), 0.5, np.int8(0))
    model = net.model(net.node("Add", net.input("x", np.float32, (2, 2)), net.node("Exp", c)))
    assert run(model, tmp_path, fold.fold_constants) == ["float32[2x2] = Add(%, <float32[2x2]>)"]


def test_channels_last(tmp_path: Path) -> None:
    """Two convolutions and a Relu: one transpose on the way in, one on the way out."""
    net = Net()
    y = net.input("x", np.float32, (1, 2, 4, 5))
    for n in (3, 4):
        y = net.node("Conv", y, net.const(np.ones((n, n - 1, 1, 1)), np.float32))
        y = net.node("Relu", y)
    alone = run(net.model(y), tmp_path, layout.channels_last)
    assert [line.partition(" = ")[2].partition("(")[0] for line in alone] == [
        *("Transpose", "Conv", "Transpose", "Relu", "Transpose", "Conv", "Transpose", "Relu")
    ]
    assert run(net.model(y), tmp_path, layout.channels_last, layout.cancel_transposes) == [
        "float32[1x4x5x2] = Transpose(%) perm=[0, 2, 3, 1]",
        "float32[1x4x5x3] = Conv(%, <float32[3x2x1x1]>)",
        "float32[1x4x5x3] = Relu(%)",
        "float32[1x4x5x4] = Conv(%, <float32[4x3x1x1]>)",
        "float32[1x4x5x4] = Relu(%)",
        "float32[1x4x4x5] = Transpose(%) perm=[0, 3, 1, 2]",
    ]


def residual() -> onnx.ModelProto:
    net = Net()
    a = net.dq(net.input("a", np.int8, (2, 3)), 0.5, np.int8(0))
    b = net.dq(net.input("b", np.int8, (2, 3)), 0.25, np.int8(0))
    return net.model(net.q(net.node("Relu", net.node("Add", a, b)), 0.5, np.int8(0)))


def test_fuse_chains(tmp_path: Path) -> None:
    graph = imported(residual(), tmp_path)
    (node,) = verify(fuse.fuse_chains(graph), "fuse_chains").nodes
    kinds = [n.op for n in node.body]
    assert sorted(kinds[:2]) == ["DequantizeLinear"] * 2
    assert kinds[2:] == ["Add", "Relu", "QuantizeLinear"]


def test_fuse_epilogues_takes_the_residual_add(tmp_path: Path) -> None:
    """Conv, then Add of the input, Relu: one node, so that nothing is stored between them."""
    net = Net()
    x = net.input("x", np.float32, (2, 4))
    y = net.node("Gemm", x, net.const(np.ones((4, 4)), np.float32))
    model = net.model(net.node("Relu", net.node("Add", y, x)))
    graph = imported(model, tmp_path)
    for rewrite in (fuse.fuse_chains, fuse.fuse_epilogues):
        graph = verify(rewrite(graph), rewrite.__name__)
    (node,) = graph.nodes
    assert [n.op for n in node.body] == ["Gemm", "Add", "Relu"]
    assert node.core.op == "Gemm"
    assert shape(graph) == ["float32[2x4] = Gemm(%, <float32[4x4]>) { Gemm; Add; Relu }"]


def test_what_the_host_reads_itself_is_not_part_of_its_epilogue(tmp_path: Path) -> None:
    """A Gemm of floats, and an Add of what both dequantise: the chain has a copy of the
    DequantizeLinear, which cannot be computed behind the Gemm that reads it."""
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 4)), 0.5, np.int8(1))
    y = net.node("Gemm", x, net.const(np.ones((4, 4)), np.float32))
    model = net.model(net.q(net.node("Add", y, x), 0.25, np.int8(0)))
    graph = imported(model, tmp_path)
    for rewrite in (fuse.fuse_chains, fuse.fuse_epilogues):
        graph = verify(rewrite(graph), rewrite.__name__)
    gemm = next(n for n in graph.nodes if n.core.op == "Gemm")
    assert gemm.inputs[0] in {out for n in graph.nodes for out in n.outputs}
    compile_module(ModuleSpec(model))


def test_fuse_prologues(tmp_path: Path) -> None:
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 4)), 0.5, np.int8(1))
    assert run(net.model(net.node("Softmax", x)), tmp_path, fuse.fuse_prologues) == [
        "float32[2x4] = Softmax(%, 0.5, 1) { DequantizeLinear; Softmax }"
    ]


def test_tabulate(tmp_path: Path) -> None:
    net = Net()
    x = net.dq(net.input("x", np.int8, (9,)), 0.5, np.int8(0))
    model = net.model(net.q(net.node("Sigmoid", x), 1 / 256, np.int8(-128)))
    assert run(model, tmp_path, fuse.fuse_chains, fuse.tabulate) == [
        "int8[9] = mlf.Table(%, <int8[256]>)"
    ]


def test_tabulate_looks_through_tables(tmp_path: Path) -> None:
    """x * sigmoid(x) is a function of one byte, whoever else reads x. Of a table that somebody else
    reads nothing is gained, unless its source is alive anyway."""
    net = Net()
    stored = net.input("x", np.int8, (9,))
    x = net.dq(stored, 0.5, np.int8(0))
    sigmoid = net.q(net.node("Sigmoid", x), 1 / 256, np.int8(-128))
    swish = net.q(net.node("Mul", x, net.dq(sigmoid, 1 / 256, np.int8(-128))), 0.5, np.int8(0))
    tanh = net.q(net.node("Tanh", net.dq(swish, 0.5, np.int8(0))), 1 / 128, np.int8(0))
    passes = (fuse.fuse_chains, fuse.tabulate)
    assert run(net.model(tanh), tmp_path, *passes) == ["int8[9] = mlf.Table(%, <int8[256]>)"]
    graph = imported(net.model(tanh, swish), tmp_path)
    for rewrite in passes:
        graph = verify(rewrite(graph), rewrite.__name__)
    assert [(n.inputs[0], n.outputs[0]) for n in graph.nodes] == [(stored, swish), (swish, tanh)]


def test_a_view_of_more_axes_sinks(tmp_path: Path) -> None:
    """The one element of [1,1,1] would give the vector more axes than it has."""
    net = Net()
    x = net.input("x", np.float32, (2,))
    view = net.node("Reshape", x, net.const([2, 1, 1], np.int64))
    y = net.node("Add", net.const(np.full((1, 1, 1), 5), np.float32), view)
    assert run(net.model(y), tmp_path, layout.cancel_transposes) == [
        "float32[2] = Add(5, %)",
        "float32[2x1x1] = Reshape(%)",
    ]
    compile_module(ModuleSpec(net.model(y)))


def test_store_outputs(tmp_path: Path) -> None:
    """A view of an input, and a second view of one buffer, are copied."""
    net = Net()
    x = net.input("x", np.float32, (2, 3))
    y = net.node("Relu", x)
    views = [net.node("Reshape", y, net.const(s, np.int64)) for s in ([6], [3, 2])]
    passes = (canonicalise.canonicalise, outputs.store_outputs)
    assert run(net.model(*views, net.node("Identity", x)), tmp_path, *passes) == [
        "float32[2x3] = Relu(%)",
        "float32[6] = Reshape(%)",
        "float32[3x2] = mlf.Copy(%)",
        "float32[2x3] = mlf.Copy(%)",
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_views_of_views_are_stored_in_any_order(order: Sequence[int], tmp_path: Path) -> None:
    """Four outputs hold one value: in whatever order they are listed, one is its buffer."""
    net = Net()
    views = [net.node("Exp", net.input("x", np.float32, (2, 3)))]
    for shape in ([6], [3, 2], [1, 6], [2, 3]):
        views.append(net.node("Reshape", views[-1], net.const(shape, np.int64)))
    model = net.model(*(views[1 + k] for k in order))
    lines = run(model, tmp_path, canonicalise.canonicalise, outputs.store_outputs)
    assert [line.split(" = ")[1].split("(")[0] for line in lines] == [
        "Exp",
        "Reshape",
        *["mlf.Copy"] * 3,
    ]
    compile_module(ModuleSpec(model, opt_level=0))


@pytest.mark.parametrize("op", ["Conv", "Gemm", "Relu"])
@pytest.mark.parametrize("seed", range(3))
def test_fold_batchnorm_keeps_the_numbers(op: str, seed: int, tmp_path: Path) -> None:
    from batch import Job, run_jobs
    from builders import random_feeds
    from oracle import onnxruntime_float, relative_error

    model = batchnorm_after(op, seed)
    job = Job(model, random_feeds(model, seed))
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for got, want in zip(job.results, onnxruntime_float(model, job.feeds), strict=True):
        for name, value in want.items():
            assert relative_error(got[name], value) <= 1e-5
