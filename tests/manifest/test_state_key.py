"""What is wrong with the keys `state` and `stream` is shown at their line of the manifest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mlftool.cli import main

NET = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4] x, float[1,4] h) => (float[1,3] y, float[1,4] hn)
<float[4,3] w = {1,2,3, 4,5,6, 7,8,9, 1,1,1}>
{ hn = Add(x, h)  y = MatMul(hn, w) }"""


@pytest.mark.parametrize("quantize", ["", "\n    quantize: {data: train.npz}"])
@pytest.mark.parametrize("command", ["build", "check"])
@pytest.mark.parametrize(
    ("key", "says", "help"),
    [
        ("state: {h: y}", "input float32[1x4] and output 'y' float32[1x3] differ", "type: hn"),
        ("state: {h: z}", "'z' is not an output of the model", "one of: hn, y"),
        ("state: {g: hn}", "'g' is not an input of the model", "one of: h, x"),
        ("state: {h: hn, x: hn}", "'x' or 'hn' is in two states", "one state at most"),
        ("stream: {axis: time, step: 1}", "no input has an axis 'time'", "the number of an axis"),
        ("stream: {axis: 0, step: 1}", "axis 0 of 'x' has one element", "export the model with"),
        ("stream: {axis: 1, step: 4}", "step 4 of the 4 elements of 'x'", "a longer sequence"),
    ],
)
def test_the_place_is_the_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    quantize: str,
    command: str,
    key: str,
    says: str,
    help: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(NET), "net.onnx")
    draw = np.random.default_rng(0)
    given = {name: draw.normal(size=(8, 1, 4)).astype(np.float32) for name in ("x", "h")}
    np.savez("train.npz", **given)
    head = "version: 1\nmodels:\n  net:\n    model: net.onnx\n    targets: [host]\n"
    Path("m.yaml").write_text(f"{head}    {key}{quantize}\n")
    assert main([command, "m.yaml", *(["-o", "out"] if command == "build" else [])]) == 2
    name = key.partition(":")[0]
    found = [t for t in capsys.readouterr().err.splitlines() if not t.startswith("[")]
    first, second = found
    assert first.startswith(f"m.yaml:6:5: error[MLF0400]: models.net.{name}: ")
    assert says in first
    assert "(in net.onnx: " in first
    assert second.startswith("help: ")
    assert help in second
    assert not list(tmp_path.rglob("*.tar"))
