"""What a network of 100 MB costs, from ONNX file to archive and linked host program: one table.

    python benchmarks/big.py [--megabytes 100] [--seconds 60] [--gigabytes 1.5]

Each network is compiled by the command line, and its test runner is compiled and linked with the
host's compiler, everything written anew. Memory is the most that all processes of a step had at one
time (private and shared pages, looked at every 10 ms). Exit code 1 if any network needs more than
`--seconds` for both steps or more than `--gigabytes` in either.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
LINK = """
import sys
from pathlib import Path
from mlftool.mlf import read_tar
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface

bundle = read_tar(Path("big.tar"))
print(build_runner(bundle, read_interface(bundle), Path("cache")))
"""
WIDTH, PIXELS = 1024, 8


def network(
    nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto], x: list[int], y: list[int]
) -> onnx.ModelProto:
    """From x to out; `x` and `y` are the extents."""
    info = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), ("out", y))
    ]
    nodes.append(helper.make_node("Identity", [nodes[-1].output[0]], ["out"]))
    graph = helper.make_graph(nodes, "big", info[:1], info[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights(layer: int, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(layer)
    return rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[1:])))


def dense_float(size: int) -> onnx.ModelProto:
    """Dense layers of 4 MB."""
    nodes, tensors, x = [], [], "x"
    for k in range(max(1, size // (4 * WIDTH * WIDTH))):
        tensors.append(numpy_helper.from_array(weights(k, WIDTH, WIDTH), f"w{k}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"m{k}"]))
        nodes.append(helper.make_node("Relu", [f"m{k}"], [f"r{k}"]))
        x = f"r{k}"
    return network(nodes, tensors, [1, WIDTH], [1, WIDTH])


def one_layer_float(size: int) -> onnx.ModelProto:
    """All in one matrix."""
    rows = size // (4 * WIDTH)
    w = numpy_helper.from_array(weights(0, WIDTH, rows), "w")
    return network([helper.make_node("MatMul", ["x", "w"], ["m"])], [w], [1, WIDTH], [1, rows])


def quantised(
    layers: int,
    shape: tuple[int, ...],
    operator: str,
    x: list[int],
    y: list[int],
    **attributes: object,
) -> onnx.ModelProto:
    """int8 layers between QuantizeLinear and DequantizeLinear, a scale per output channel."""
    channel = 0 if operator == "Conv" else 1
    scalars = {"s": np.float32(0.02), "z": np.int8(3)}
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in scalars.items()]
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])]
    nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]))
    last = "d"
    for k in range(layers):
        rng = np.random.default_rng(k)
        w = rng.integers(-127, 128, shape, np.int8)
        scale = rng.uniform(1e-4, 2e-4, shape[channel]).astype(np.float32)
        tensors.append(numpy_helper.from_array(w, f"w{k}"))
        tensors.append(numpy_helper.from_array(scale, f"s{k}"))
        tensors.append(numpy_helper.from_array(np.zeros(shape[channel], np.int8), f"z{k}"))
        parts = [
            ("DequantizeLinear", [f"w{k}", f"s{k}", f"z{k}"], f"wd{k}", {"axis": channel}),
            (operator, [last, f"wd{k}"], f"m{k}", attributes),
            ("Relu", [f"m{k}"], f"r{k}", {}),
            ("QuantizeLinear", [f"r{k}", "s", "z"], f"q{k}", {}),
            ("DequantizeLinear", [f"q{k}", "s", "z"], f"d{k}", {}),
        ]
        nodes += [helper.make_node(op, i, [o], **a) for op, i, o, a in parts]
        last = f"d{k}"
    return network(nodes, tensors, x, y)


def dense_int8(size: int) -> onnx.ModelProto:
    """Dense layers of 4 MB."""
    wide = 2 * WIDTH
    return quantised(max(1, size // wide**2), (wide, wide), "MatMul", [1, wide], [1, wide])


def one_layer_int8(size: int) -> onnx.ModelProto:
    """All in one matrix."""
    columns = size // WIDTH
    return quantised(1, (WIDTH, columns), "MatMul", [1, WIDTH], [1, columns])


def convolutions_int8(size: int) -> onnx.ModelProto:
    """3x3 convolutions of 2.4 MB."""
    c = WIDTH // 2
    shape, x = (c, c, 3, 3), [1, c, PIXELS, PIXELS]
    return quantised(max(1, size // (9 * c * c)), shape, "Conv", x, x, pads=[1, 1, 1, 1])


NETWORKS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "dense, float32": dense_float,
    "one matrix, float32": one_layer_float,
    "dense, int8": dense_int8,
    "one matrix, int8": one_layer_int8,
    "3x3 convolutions, int8": convolutions_int8,
}


def resident(process: int) -> int:
    """Bytes that a process and all that it has started hold now; 0 of one that has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (OSError, IndexError):
        return 0
    return pages * 4096 + sum(resident(int(c)) for c in children)


def measured(command: list[str], folder: Path) -> tuple[float, int, str]:
    """Seconds, most bytes, and what the command printed. Raises if it fails."""
    started, most = time.monotonic(), 0
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, stdout=subprocess.PIPE, text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    ) as running:  # fmt: skip
        while running.poll() is None:
            most = max(most, resident(running.pid))
            time.sleep(0.01)
        talk = running.stdout.read() if running.stdout else ""
    if running.returncode != 0:
        raise SystemExit(f"{command[:2]} failed with exit code {running.returncode}")
    return time.monotonic() - started, most, talk


def row(name: str, model: onnx.ModelProto) -> tuple[float, int, str]:
    """Seconds and most bytes of both steps, and the line of the table."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        onnx.save(model, folder / "big.onnx")
        size = (folder / "big.onnx").stat().st_size
        compile_s, compile_b, _ = measured(
            ["-m", "mlftool", "compile", "big.onnx", "-o", "big.tar"], folder
        )
        link_s, link_b, program = measured(["-c", LINK], folder)
        archive, linked = (folder / "big.tar").stat().st_size, Path(folder, program.strip())
        cells = (
            name, f"{size / 1e6:.0f}", f"{compile_s:.1f}", f"{compile_b / 1e6:.0f}",
            f"{link_s:.1f}", f"{link_b / 1e6:.0f}", f"{archive / 1e6:.0f}",
            f"{linked.stat().st_size / 1e6:.0f}",
        )  # fmt: skip
    return compile_s + link_s, max(compile_b, link_b), "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100, help="of weights")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--gigabytes", type=float, default=1.5)
    args = parser.parse_args()
    heads = ["network", "MB of ONNX", "compile s", "MB", "link s", "MB", "archive MB", "program MB"]
    print("| " + " | ".join(heads) + " |\n| --- |" + " ---: |" * (len(heads) - 1))
    beyond = False
    for name, make in NETWORKS.items():
        seconds, most, line = row(name, make(args.megabytes * 10**6))
        print(line, flush=True)
        beyond |= seconds > args.seconds or most > args.gigabytes * 1e9
    return int(beyond)


if __name__ == "__main__":
    sys.exit(main())
