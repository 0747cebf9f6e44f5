"""Random layers against TensorFlow Lite Micro's own interpreter, where its package is installed."""

from __future__ import annotations

import numpy as np
import pytest
from tfl_models import convolution, dense
from tfl_writer import Op, Sub, T, model

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.frontends.models import TFLite
from mlftool.runtime.load import LoadedArchive

micro = pytest.importorskip("tflite_micro", reason="did not run: tflite-micro is missing")


def same(data: bytes, *inputs: np.ndarray) -> None:
    """Both give the same bits."""
    interpreter = micro.runtime.Interpreter.from_bytes(data)
    for k, x in enumerate(inputs):
        interpreter.set_input(x, k)
    interpreter.invoke()
    wanted = interpreter.get_output(0)
    module = LoadedArchive(compile_modules([ModuleSpec(TFLite(data), "m")]), "", None).module()
    feeds = {t.name: x for t, x in zip(module.inputs, inputs, strict=True)}
    (got,) = module.run(feeds).values()
    np.testing.assert_array_equal(np.asarray(got), wanted)


@pytest.mark.parametrize("seed", range(6))
def test_fully_connected(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depth, units = int(rng.integers(1, 90)), int(rng.integers(1, 40))
    data = dense(rng, depth, units, FusedActivationFunction=int(rng.integers(0, 4)))
    same(data, rng.integers(-128, 128, (1, depth)).astype(np.int8))


@pytest.mark.parametrize("seed", range(8))
def test_convolutions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depthwise, scale = bool(seed % 2), float(rng.uniform(0.01, 0.3))
    data, w, _, _ = convolution(
        rng, depthwise=depthwise, activation=seed % 4, same=seed % 3 == 0, scale=scale
    )
    same(data, rng.integers(-128, 128, (1, 7, 7, 6 if depthwise else w.shape[3])).astype(np.int8))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("row", ["int8", "int16"])
@pytest.mark.parametrize(
    ("kind", "table"), [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")]
)
def test_arithmetic(kind: str, table: str, row: str, seed: int) -> None:
    """Of shapes that broadcast, with every activation."""
    rng = np.random.default_rng(seed)
    shapes = [(2, 5, 3), (2, 5, 3) if seed % 2 else (5, 1), (2, 5, 3)]
    zeros = rng.integers(-20, 20, 3) if row == "int8" else np.zeros(3, int)
    tensors = [
        T(name, shape, row, float(rng.uniform(0.01, 0.1)), int(zero))
        for name, shape, zero in zip("aby", shapes, zeros, strict=True)
    ]
    op = Op(kind, (0, 1), (2,), table, {"FusedActivationFunction": seed % 4})
    data = model(Sub(tensors, [op], (0, 1), (2,)))
    low, high = np.iinfo(row).min, np.iinfo(row).max
    same(data, *(rng.integers(low, high + 1, s).astype(row) for s in shapes[:2]))


def test_a_residual_that_joins_its_convolution() -> None:
    """The sum is computed where the convolution stores."""
    rng = np.random.default_rng(5)
    w = rng.integers(-127, 128, (4, 1, 1, 4))
    tensors = [
        T("x", (1, 6, 6, 4), scale=0.05, zero=2),
        T("w", (4, 1, 1, 4), scale=0.01, data=w),
        T("c", (1, 6, 6, 4), scale=0.06, zero=-3),
        T("y", (1, 6, 6, 4), scale=0.08, zero=1),
    ]
    window = {"Padding": 0, "StrideW": 1, "StrideH": 1}
    ops = [
        Op("CONV_2D", (0, 1, -1), (2,), "Conv2DOptions", window),
        Op("ADD", (2, 0), (3,), "AddOptions", {"FusedActivationFunction": 1}),
    ]
    data = model(Sub(tensors, ops, (0,), (3,)))
    same(data, rng.integers(-128, 128, (1, 6, 6, 4)).astype(np.int8))
