"""`mlftool compare` of TensorFlow Lite models: layers by their tensors' names, whatever the front
end puts around them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from looks import GESTURE, data_of, needs_board, refused, said
from tfl_writer import Op, Sub, T, model

OPTIONS = {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1}
X_SCALE, Y_SCALE, Z_SCALE = 0.05, 0.2, 0.8


def network(quantised: bool, weights: np.ndarray, classes: np.ndarray, bias: int = 40) -> bytes:
    """A convolution and a fully connected layer on [1, 6, 6, 3], in int8 or in float."""
    kind = "int8" if quantised else "float32"

    def activation(name: str, shape: tuple[int, ...], scale: float, zero: int) -> T:
        return T(name, shape, kind, scale, zero) if quantised else T(name, shape, kind)

    def constant(name: str, array: np.ndarray, scale: float, wide: bool = False) -> T:
        if quantised:
            return T(name, array.shape, "int32" if wide else "int8", scale, data=array)
        return T(name, array.shape, "float32", data=array * scale)

    tensors = [
        activation("x", (1, 6, 6, 3), X_SCALE, 5),
        constant("w", weights, 0.01),
        constant("b", np.full(4, bias), X_SCALE * 0.01, True),
        activation("relu", (1, 6, 6, 4), Y_SCALE, -128),
        constant("v", classes, 0.01),
        constant("c", np.zeros(5, int), Y_SCALE * 0.01, True),
        activation("scores", (1, 5), Z_SCALE, 0),
    ]
    ops = [
        Op("CONV_2D", (0, 1, 2), (3,), "Conv2DOptions", OPTIONS),
        Op(
            "FULLY_CONNECTED",
            (3, 4, 5),
            (6,),
            "FullyConnectedOptions",
            {"FusedActivationFunction": 0},
        ),
    ]
    return model(Sub(tensors, ops, (0,), (6,)))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path, np.ndarray, np.ndarray]:
    """A model in int8 and in float, and their weights."""
    rng = np.random.default_rng(3)
    weights, classes = rng.integers(-90, 91, (4, 3, 3, 3)), rng.integers(-90, 91, (5, 144))
    files = tmp_path / "q.tflite", tmp_path / "f.tflite"
    for file, quantised in zip(files, (True, False), strict=True):
        file.write_bytes(network(quantised, weights, classes))
    return *files, weights, classes


def test_against_the_float_model(
    pair: tuple[Path, Path, np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_of(capsys, "compare", pair[0], "--against", pair[1])
    assert [(row["name"], row["matched_by"]) for row in data["layers"]] == [
        ("relu", "name"),
        ("scores", "name"),
    ]
    assert data["first_wrong"] is None
    # A step of the output or two: the sample is every integer, so that none is cut off.
    for row, step in zip(data["layers"], (Y_SCALE, Z_SCALE), strict=True):
        assert 0 < row["max_abs_error"] <= 2 * step
        assert row["sqnr"] > 25


@pytest.mark.parametrize("wrong", ["relu", "scores"])
def test_the_layer_that_goes_wrong(
    wrong: str,
    pair: tuple[Path, Path, np.ndarray, np.ndarray],
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, right, weights, classes = pair
    other = pair[0].with_name("wrong.tflite")
    changed = (-weights, classes) if wrong == "relu" else (weights, -classes)
    other.write_bytes(network(True, *changed))
    text = said(capsys, "compare", other, "--against", right)
    assert f"first layer below 10 dB: '{wrong}'" in text


@needs_board
def test_on_a_board(
    pair: tuple[Path, Path, np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "compare", pair[0], "--on", "cortex-m4")
    assert "all 2 layers agree" in text
    assert "relu" in text


def test_formats_are_not_mixed(
    pair: tuple[Path, Path, np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "another order of axes" in refused(capsys, "compare", pair[0], "--against", GESTURE)
