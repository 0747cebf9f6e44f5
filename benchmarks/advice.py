"""What a model costs that `mlftool check` warns about: a small network, quantised well and badly.

Prints the table of docs/performance.md: python benchmarks/advice.py [BOARD ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

ROOT = Path(__file__).resolve().parent.parent
SHAPE = (1, 8, 16, 16)
SAMPLES = 16
# Whether the network is prepared, and what `quantize_static` is told.
VARIANTS: tuple[tuple[bool, dict[str, object]], ...] = (
    (True, {"per_channel": True}),
    (True, {"per_channel": True, "nodes_to_exclude": ["second"]}),
    (True, {}),
    (True, {"extra_options": {"WeightSymmetric": False}}),
    (False, {"per_channel": True}),
)


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """Normal deviates as calibration data."""

    def __init__(self) -> None:
        self.left: Iterator[np.ndarray] = iter(samples(0))

    def get_next(self) -> dict[str, np.ndarray] | None:
        found = next(self.left, None)
        return None if found is None else {"x": found}


def samples(seed: int) -> np.ndarray:
    """Inputs of the network, float32 [SAMPLES, *SHAPE]."""
    return np.random.default_rng(seed).normal(size=(SAMPLES, *SHAPE)).astype(np.float32)


def network() -> onnx.ModelProto:
    """Conv 3x3, BatchNormalization, Relu and Conv 1x1; the channels' weights differ tenfold."""
    random = np.random.default_rng(1)
    deviates = {"w": (16, 8, 3, 3), "b": (16,), "beta": (16,), "mean": (16,), "u": (16, 16, 1, 1)}
    weights = {n: random.normal(scale=0.1, size=s) for n, s in deviates.items()}
    weights["w"] *= np.geomspace(0.1, 1, 16).reshape(-1, 1, 1, 1)
    weights |= {n: random.uniform(0.5, 1.5, 16) for n in ("gamma", "var")}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="first", pads=[1] * 4),
        helper.make_node(
            "BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"], name="norm"
        ),
        helper.make_node("Relu", ["n"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "u"], ["y"], name="second"),
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", SHAPE), ("y", (1, 16, 16, 16)))
    ]
    tensors = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def output(file: Path) -> np.ndarray:
    """onnxruntime's outputs for inputs that calibration did not see."""
    session = onnxruntime.InferenceSession(file)
    return np.concatenate([session.run(None, {"x": x})[0] for x in samples(2)])


def mlftool(*words: str | Path) -> dict[str, Any]:
    """What a command prints as JSON."""
    command = [sys.executable, "-m", "mlftool", *words, "--json"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def warnings(file: Path) -> str:
    """The codes of what `mlftool check` warns of."""
    found = mlftool("check", file, "--target", "cortex-m4")["warnings"]
    return ", ".join(sorted({w["code"] for w in found})) or "none"


def main(boards: list[str]) -> None:
    columns = [
        "warning",
        *(f"instructions, {b}" for b in boards),
        "constants",
        "arena",
        "RMS error",
    ]
    print("|", " | ".join(columns), "|")
    print("|---" * len(columns) + "|")
    with tempfile.TemporaryDirectory() as folder:
        plain, prepared, file = (Path(folder) / f"{n}.onnx" for n in ("plain", "prepared", "int8"))
        inputs = Path(folder) / "x.npz"
        onnx.save(network(), plain)
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        np.savez(inputs, x=samples(2)[:1])
        for ready, options in VARIANTS:
            source = str(prepared if ready else plain)
            quantize_static(source, str(file), Samples(), quant_format=QuantFormat.QDQ, **options)
            error = np.sqrt(np.mean((output(file) - output(plain)) ** 2))
            runs = [mlftool("run", file, "--inputs", inputs, "--on", b) for b in boards]
            counts = [f"{run['instructions']:,}" for run in runs]
            sizes = [f"{runs[0][key]:,}" for key in ("constants_bytes", "workspace_bytes")]
            print(
                "|", " | ".join([warnings(file), *counts, *sizes, f"{error:.5f}"]), "|", flush=True
            )


if __name__ == "__main__":
    main(sys.argv[1:] or ["cortex-m4", "cortex-m3"])
