"""What tests of commands that look at models share."""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from shared import REPO

from mlftool.cli import main

MODELS = REPO / "examples" / "models"
GESTURE = MODELS / "gesture_int8.onnx"
MANIFEST = REPO / "examples" / "models.yaml"

needs_board = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


def said(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> str:
    """What a command wrote to stdout."""
    assert main([str(w) for w in words]) == status, capsys.readouterr().err
    return capsys.readouterr().out


def data_of(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> dict[str, Any]:
    """The same of a command with --json."""
    data: dict[str, Any] = json.loads(said(capsys, *words, "--json", status=status))
    assert data["schema_version"] == 1
    return data


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The error of a command that refuses bad input: a line, and at most one of help."""
    assert main([str(w) for w in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, *help_ = err.splitlines()
    assert "error[MLF" in first
    assert "MLF09" not in first
    assert len(help_) <= 1
    return err


def loop_model() -> onnx.ModelProto:
    """Three times a product with 64 weights, which the body of the Loop holds; then a Relu."""
    weights = np.arange(64, dtype=np.float32).reshape(8, 8)
    body = onnx.parser.parse_graph(
        "b (int64 i, bool c, float[1,8] s) => (bool d, float[1,8] t) {"
        "d = Identity(c)\nt = MatMul(s, w) }"
    )
    body.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    net = Net()
    x = net.input("x", np.float32, (1, 8))
    y = net.node("Loop", net.const(np.int64(3)), net.const(np.True_), x, body=body)
    return net.model(net.node("Relu", y))
