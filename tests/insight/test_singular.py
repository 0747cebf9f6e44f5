"""A model of one layer, one input, one output and one sample: nothing says "1 layers"."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from looks import needs_board

from mlftool.cli import main

LINES = [
    *("check M", "compile M -o m.tar --verify", "inspect m.tar", "verify m.tar", "trace M"),
    *("ops M --target cortex-m4", "memmap M --no-advice", "graph M -o g.svg", "extract m.tar"),
    *("graph M -o h.svg --before", "run M --inputs one.npz --expect one.npz"),
    *("run M --inputs one.npz --expect other.npz", "compare M --against two.onnx"),
    "bench M --on host --runs 1 --repetitions 1",
    *("diff M other.onnx --no-run", "init project M", "tune M -o t.json --target host"),
]
BOARD = ["profile M", "size M", "diff M other.onnx", "tune M -o t.json --target cortex-m4"]


@pytest.mark.parametrize("line", [*LINES, *(pytest.param(b, marks=needs_board) for b in BOARD)])
def test_one_of_a_kind(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, op in (("one", "Relu"), ("other", "Abs")):
        net = Net()
        onnx.save(net.model(net.node(op, net.input("x", np.float32, (1, 1)))), f"{name}.onnx")
    net = Net()
    x = net.input("x", np.float32, (1, 1))
    onnx.save(net.model(net.node("Relu", x), net.node("Abs", x)), "two.onnx")
    out = onnx.load("one.onnx").graph.output[0].name
    one = np.ones((1, 1, 1), np.float32)
    np.savez("one.npz", **{"x": one, out: one})
    np.savez("other.npz", **{"x": one, out: one * 0})
    if "m.tar" in line and not line.startswith("compile"):
        assert main(["compile", "one.onnx", "-o", "m.tar", "--verify", "-q"]) == 0
        capsys.readouterr()
    main([{"M": "one.onnx"}.get(word, word) for word in line.split()])
    said = "\n".join(capsys.readouterr())
    said += "".join(p.read_text() for p in tmp_path.glob("*.svg"))
    wrong = re.findall(r"(?<![\d.,])(?<!of )1 (?!less\b|is\b|as\b|has\b)[a-z]+[^s\W]s\b.*", said)
    assert wrong == []
