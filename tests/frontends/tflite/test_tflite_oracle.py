"""Random layers against TensorFlow Lite Micro's own interpreter.

Its package exists in nightly versions only, which a lock cannot keep. So recorded.json has hashes
of what it gave, which are always compared; where it is installed it is asked again, and
`--update-golden` records what it says.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from tfl_models import convolution, dense
from tfl_writer import Op, Sub, T, model

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.frontends.models import TFLite
from mlftool.runtime.load import LoadedArchive

RECORD = Path(__file__).parent / "recorded.json"
INSTALLED = importlib.util.find_spec("tflite_micro") is not None
# Hash of a model and its inputs -> of the outputs.
RECORDED: dict[str, str] = json.loads(RECORD.read_text())


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:32]


def asked(data: bytes, inputs: tuple[np.ndarray, ...]) -> np.ndarray:
    """What TensorFlow Lite Micro's interpreter gives."""
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(data)
    for k, x in enumerate(inputs):
        interpreter.set_input(x, k)
    interpreter.invoke()
    return np.asarray(interpreter.get_output(0))


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    wanted = bool(request.config.getoption("--update-golden"))
    assert INSTALLED or not wanted, "--update-golden: tflite-micro is missing"
    return wanted


def same(update: bool, data: bytes, *inputs: np.ndarray) -> None:
    """Both give the same bits."""
    module = LoadedArchive(compile_modules([ModuleSpec(TFLite(data), "m")]), "", None).module()
    feeds = {t.name: x for t, x in zip(module.inputs, inputs, strict=True)}
    (got,) = (np.asarray(array) for array in module.run(feeds).values())
    key = digest(data, *(x.tobytes() for x in inputs))
    if INSTALLED:
        wanted = asked(data, inputs)
        np.testing.assert_array_equal(got, wanted)
        if update:
            RECORDED[key] = digest(wanted.tobytes())
            RECORD.write_text(json.dumps(RECORDED, indent=1, sort_keys=True) + "\n")
    assert key in RECORDED, "another model than the recorded one: --update-golden"
    assert digest(got.tobytes()) == RECORDED[key]


@pytest.mark.parametrize("seed", range(6))
def test_fully_connected(seed: int, update: bool) -> None:
    rng = np.random.default_rng(seed)
    depth, units = int(rng.integers(1, 90)), int(rng.integers(1, 40))
    data = dense(rng, depth, units, FusedActivationFunction=int(rng.integers(0, 4)))
    same(update, data, rng.integers(-128, 128, (1, depth)).astype(np.int8))


@pytest.mark.parametrize("seed", range(8))
def test_convolutions(seed: int, update: bool) -> None:
    rng = np.random.default_rng(seed)
    depthwise, scale = bool(seed % 2), float(rng.uniform(0.01, 0.3))
    data, w, _, _ = convolution(
        rng, depthwise=depthwise, activation=seed % 4, same=seed % 3 == 0, scale=scale
    )
    same(
        update,
        data,
        rng.integers(-128, 128, (1, 7, 7, 6 if depthwise else w.shape[3])).astype(np.int8),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("row", ["int8", "int16"])
@pytest.mark.parametrize(
    ("kind", "table"), [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")]
)
def test_arithmetic(kind: str, table: str, row: str, seed: int, update: bool) -> None:
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
    same(update, data, *(rng.integers(low, high + 1, s).astype(row) for s in shapes[:2]))


def test_a_residual_that_joins_its_convolution(update: bool) -> None:
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
    same(update, data, rng.integers(-128, 128, (1, 6, 6, 4)).astype(np.int8))
