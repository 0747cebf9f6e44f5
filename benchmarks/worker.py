"""What persistent workers are worth: one command, one table.

    python benchmarks/worker.py [--models 100] [--rounds 3] [--least 3]

Real Bazel builds the archives of small networks with nothing built before: server and workers
start anew, no output and no cache are there. In turns: a process per model in a sandbox, which is
Bazel's usual way; workers in sandboxes, which is ours; multiplexed workers. Exit code 1 if
sandboxed workers are not `--least` times as fast as a process each, by the medians of the rounds.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "bazel"))

from nested import Workspace, make_workspace  # noqa: E402

WORKER = (
    "--strategy=MlfCompile=worker",
    "--worker_sandboxing",
    "--noexperimental_worker_multiplex",
)
WAYS = {
    "a process each, sandboxed": ("--strategy=MlfCompile=sandboxed",),
    "workers, sandboxed": WORKER,
    "multiplexed workers": (WORKER[0], "--noworker_sandboxing", "--experimental_worker_multiplex"),
}


def small_model(number: int) -> onnx.ModelProto:
    """Two dense layers; sizes and weights depend on `number`: no two models are the same."""
    values, hidden = np.random.default_rng(number), 8 + number % 16
    shapes = {"w1": (16, hidden), "b1": (hidden,), "w2": (hidden, 4), "b2": (4,)}
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, values.standard_normal(shape).ravel())
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"]),
    ]
    tensors = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 16)), ("y", (1, 4)))
    ]
    graph = helper.make_graph(nodes, "small", tensors[:1], tensors[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def make_models(folder: Path, count: int) -> None:
    """A package of `count` models and their targets."""
    folder.mkdir()
    lines = ['load("@mlftool//rules:defs.bzl", "mlf_compile")']
    for i in range(count):
        onnx.save(small_model(i), folder / f"m{i}.onnx")
        lines.append(f'mlf_compile(name = "m{i}", model = "m{i}.onnx", target = "cortex-m4")')
    (folder / "BUILD.bazel").write_text("\n".join(lines) + "\n")


def cold_build(workspace: Workspace, options: Sequence[str]) -> float:
    """Seconds."""
    workspace.bazel("clean")
    workspace.shutdown()
    shutil.rmtree(workspace.cache, ignore_errors=True)
    start = time.perf_counter()
    workspace.bazel("build", *workspace.options(), *options, "//small/...")
    return time.perf_counter() - start


def measure(count: int, rounds: int) -> dict[str, list[float]]:
    """Way -> seconds of each round."""
    with tempfile.TemporaryDirectory() as name:
        workspace = make_workspace(Path(name), Path(name) / "cache")
        make_models(workspace.folder / "small", count)
        # The wheels are fetched and files are read once before anything is measured.
        workspace.bazel("build", *workspace.options(), "//small:m0")
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way, options in WAYS.items():
                seconds[way].append(cold_build(workspace, options))
        workspace.shutdown()
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=3.0)
    args = parser.parse_args()
    seconds = measure(args.models, args.rounds)
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    slow, ours, _ = medians.values()
    print(f"| {args.models} models, cold | seconds, median of {args.rounds} | times as fast |")
    print("|---|---|---|")
    for way, median in medians.items():
        print(f"| {way} | {median:.1f} | {slow / median:.1f} |")
    if slow / ours < args.least:
        print(f"sandboxed workers are {slow / ours:.1f} times as fast; expected {args.least}")
    return int(slow / ours < args.least)


if __name__ == "__main__":
    sys.exit(main())
