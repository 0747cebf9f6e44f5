"""What tests of commands that look at models share."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
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
