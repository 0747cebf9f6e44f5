"""What tests of commands that look at models share."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
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


CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="apt-get install chromium")


def printed(page: Path, folder: Path) -> bytes:
    """The PDF that a headless Chromium prints of a file."""
    assert CHROMIUM
    pdf = folder / "page.pdf"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--print-to-pdf={pdf}"]
    command += [f"--user-data-dir={folder / 'browser'}", "--proxy-server=127.0.0.1:1"]
    subprocess.run([*command, page.as_uri()], check=True, timeout=300, capture_output=True)
    return pdf.read_bytes()


def dom(page: Path, folder: Path, width: int) -> str:
    """The page after its scripts, in a window of this width."""
    assert CHROMIUM
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={folder / 'browser'}", "--proxy-server=127.0.0.1:1"]
    command += [f"--window-size={width},2000", page.as_uri()]
    return subprocess.run(command, check=True, timeout=300, capture_output=True).stdout.decode()


def photographed(
    page: Path, folder: Path, *flags: str, size: str = "500,300"
) -> np.ndarray[Any, Any]:
    """What a headless Chromium shows of a file: [height, width, 3], red, green and blue. It has no
    network: a page that asks for anything shows less."""
    assert CHROMIUM
    png = folder / "picture.png"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--window-size={size}", f"--screenshot={png}", *flags]
    command += [f"--user-data-dir={folder / 'browser'}", "--proxy-server=127.0.0.1:1"]
    subprocess.run([*command, page.as_uri()], check=True, timeout=300, capture_output=True)
    return _pixels(png.read_bytes())


def _pixels(data: bytes) -> np.ndarray[Any, Any]:
    """Of a PNG file of 8-bit colours without interlacing, as Chromium writes them."""
    at, parts = 8, b""
    width = height = colours = 0
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        chunk = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, _, colours = struct.unpack(">IIBB", chunk[:10])
        parts += chunk if kind == b"IDAT" else b""
        at += 12 + length
    step = {2: 3, 6: 4}[colours]
    lines = np.frombuffer(zlib.decompress(parts), np.uint8).reshape(height, 1 + width * step)
    above = np.zeros((width, step), np.int64)
    rows = []
    for line in lines:
        above = _unfiltered(int(line[0]), line[1:].reshape(width, step).astype(np.int64), above)
        rows.append(above)
    return np.array(rows, np.uint8)[:, :, :3]


def _unfiltered(
    kind: int, row: np.ndarray[Any, Any], above: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """A line of a PNG, of which each byte is the difference to a guess."""
    if kind == 0:
        return row
    if kind == 1:
        return np.cumsum(row, axis=0) % 256
    if kind == 2:
        return (row + above) % 256
    left = corner = np.zeros(row.shape[1], np.int64)
    made = np.empty_like(row)
    for k, (value, up) in enumerate(zip(row, above, strict=True)):
        guess = (left + up) // 2
        if kind == 4:
            near = [np.abs(p) for p in (up - corner, left - corner, left + up - 2 * corner)]
            nearer = np.where(near[1] <= near[2], up, corner)
            guess = np.where((near[0] <= near[1]) & (near[0] <= near[2]), left, nearer)
        made[k] = left = (value + guess) % 256
        corner = up
    return made


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
    """The errors of a command that refuses bad input: a line each, and at most one of help."""
    assert main([str(w) for w in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    errors = [line for line in lines if "error[MLF" in line]
    assert errors[0] == lines[0]
    assert "MLF09" not in err
    assert len(lines) <= 2 * len(errors)
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
