"""What a model costs as a whole and as its streaming form: instructions on a simulated Cortex-M4.

python benchmarks/streaming.py [--markdown docs/stream.md]

Both forms are compared with onnxruntime; the streaming one over 1,000 elements of time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tables import grid, refresh

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))
BOARD, ELEMENTS = "mps2_an386", 1000
Shape = tuple[int, ...]


class Network:
    """Convolutions along axis 2 of x, padded at the beginning only."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def conv(self, x: str, shape: Shape, relu: bool = True, group: int = 1, **attrs: Any) -> str:
        name = f"c{len(self.nodes)}"
        reach = (shape[2] - 1) * attrs.get("dilations", [1])[0]
        side = [(shape[3] - 1) // 2] if len(shape) > 3 else []
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        weight = self.random.normal(0, scale, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(weight, f"{name}.w"))
        attrs["pads"] = [reach, *side, 0, *side]
        self.node("Conv", [x, f"{name}.w"], name, group=group, **attrs)
        return self.node("Relu", [name], f"{name}.r") if relu else name

    def node(self, op: str, inputs: list[str], out: str, **attrs: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [out], **attrs))
        return out

    def model(self, out: str) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_empty_tensor_value_info(out)
        graph = helper.make_graph(self.nodes, "g", [x], [y], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def tcn(length: int) -> onnx.ModelProto:
    """Four residual blocks of two dilated convolutions of 16 channels."""
    net = Network((1, 8, length))
    x = net.conv("x", (16, 8, 1))
    for dilation in (1, 2, 4, 8):
        y = net.conv(x, (16, 16, 3), dilations=[dilation])
        y = net.conv(y, (16, 16, 3), dilations=[dilation])
        x = net.node("Add", [x, y], f"{y}.sum")
    return net.model(net.conv(x, (4, 16, 1), False))


def keywords(length: int) -> onnx.ModelProto:
    """Like a DS-CNN for keywords: 10 features of each element of time, three separable layers."""
    net = Network((1, 1, length, 10))
    x = net.conv("x", (16, 1, 10, 4), strides=[2, 2])
    for _ in range(3):
        x = net.conv(net.conv(x, (16, 1, 3, 3), group=16), (16, 16, 1, 1))
    return net.model(net.conv(x, (12, 16, 1, 1), False))


NETWORKS = {"TCN": (tcn, 64, 1), "separable convolutions": (keywords, 48, 2)}


def cost(name: str, step: int, work: Path) -> tuple[dict[str, Any], float]:
    """The report of a run, and how far its outputs are from onnxruntime's, of the largest; with a
    step, of the streaming form."""
    import onnxruntime

    from mlftool.cli import main

    make, size, _ = NETWORKS[name]
    model, length = make(size), ELEMENTS if step else size
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).normal(0, 1, (*shape[:2], length, *shape[3:])).astype(np.float32)
    whole = onnxruntime.InferenceSession(make(length).SerializeToString())
    (want,) = whole.run(None, {"x": x})
    onnx.save(model, work / "m.onnx")
    np.savez(work / "in.npz", x=np.stack(np.split(x, length // step, 2)) if step else x[None])
    command = ["run", str(work / "m.onnx"), "--inputs", str(work / "in.npz"), "--on", BOARD]
    command += ["-o", str(work / "out.npz"), "--report", str(work / "report.json")]
    command += ["--stream", "axis=2", "--stream", f"step={step}"] if step else []
    assert main(command) == 0
    (got,) = np.load(work / "out.npz").values()
    away = np.abs(np.concatenate(list(got), 2) - want).max() / np.abs(want).max()
    return json.loads((work / "report.json").read_text()), float(away)


HEAD = ("network", "elements of a run", "instructions", "RAM", "difference")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    args = parser.parse_args()
    rows = []
    for name, (_, length, step) in NETWORKS.items():
        for elements in (0, step):
            with tempfile.TemporaryDirectory() as folder:
                report, away = cost(name, elements, Path(folder))
            counted = report["instructions"]
            what = (f"{counted:,}", f"{report['ram_bytes']:,}", f"{away:.1e}")
            rows.append((name, str(elements or f"{length}, the whole"), *what))
    print(grid(HEAD, rows))
    if args.markdown:
        refresh(args.markdown, {"streaming": grid(HEAD, rows)})


if __name__ == "__main__":
    main()
