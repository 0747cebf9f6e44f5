"""What a manifest of many models costs Bazel: one command, one table.

    python benchmarks/scale.py [--models 10,100,1000] [--analysis] [--folder DIR] [--wheels DIR]
                               [--jobs N] [--markdown FILE]

For each number a manifest of that many small networks, all different, one target each, built as
libraries by a Bazel of its own:

- cold analysis: `build --nobuild` by a server that has just been started, its start included
- build: all of it, nothing cached
- null build: the same command again, fastest of three
- one model changed: a weight of one network; the actions that ran
- manifest edited: one model asks for other sums; the targets that were configured again
- heap: megabytes that the server holds after a collection, when all is analysed

With --analysis nothing is built, which takes most of the time, and the columns that need it are
empty.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
WORKSPACE = """workspace(name = "scale")

local_repository(
    name = "mlftool",
    path = "{root}",
)

load(
    "@mlftool//rules:repositories.bzl",
    "mlf_dependencies",
    "mlf_manifest_repository",
    "mlf_register_toolchains",
)

mlf_dependencies()

mlf_register_toolchains()

mlf_manifest_repository(
    name = "models",
    manifest = "//:models.yaml",
)
"""
BUILD = """load("@models//:defs.bzl", "MODELS")

exports_files(["models.yaml"] + glob(["networks/*"]))

filegroup(
    name = "all",
    srcs = ["@models//%s:host" % name for name in MODELS],
)
"""


@dataclass(frozen=True)
class Row:
    """One line of the table; seconds, unless the name says otherwise."""

    models: int
    cold_analysis: float
    build: float | None
    null_build: float | None
    one_model_changed: float | None
    actions: int | None
    manifest_edited: float
    configured_again: int
    heap: int


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="10,100,1000", help="how many, for each row")
    parser.add_argument("--analysis", action="store_true", help="build nothing")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    parser.add_argument("--wheels", type=Path, help="an external/mlf_python that is there already")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="actions at a time")
    parser.add_argument("--markdown", type=Path, help="file that gets the table")
    args = parser.parse_args(arguments)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="mlf-scale-"))
    bazel = Bazel(folder, args.wheels, args.jobs)
    try:
        kind = analyse if args.analysis else measure
        rows = [kind(bazel, int(count)) for count in args.models.split(",")]
    finally:
        bazel.run("shutdown")
        if not args.folder:
            subprocess.run(["chmod", "-R", "u+w", folder], check=False)
            shutil.rmtree(folder, ignore_errors=True)
    print(table(rows))
    if args.markdown:
        args.markdown.write_text(table(rows) + "\n")
    return 0


class Bazel:
    """A server with a workspace of its own."""

    def __init__(self, folder: Path, wheels: Path | None, jobs: int) -> None:
        self.workspace, self.server = folder / "workspace", folder / "server"
        self.options = ["--experimental_repository_disable_download", f"--jobs={jobs}"]
        if wheels:
            self.options.append(f"--override_repository=mlf_python={wheels.resolve()}")
        (self.workspace / "networks").mkdir(parents=True, exist_ok=True)
        (self.workspace / "WORKSPACE").write_text(WORKSPACE.format(root=ROOT))
        (self.workspace / "BUILD.bazel").write_text(BUILD)
        rc = "".join(
            line
            for line in (ROOT / ".bazelrc").read_text().splitlines(True)
            if not line.startswith("try-import")
        )
        (self.workspace / ".bazelrc").write_text(rc)

    def run(self, command: str, *arguments: str) -> tuple[float, str]:
        """Seconds, and what Bazel said. Raises on failure."""
        start = [f"--output_user_root={self.server}", "--nohome_rc"]
        started = time.monotonic()
        run = subprocess.run(
            ["bazel", *start, command, *arguments],
            cwd=self.workspace, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - started
        if run.returncode != 0:
            raise SystemExit(run.stdout + run.stderr[-4000:])
        return seconds, run.stdout + run.stderr

    def build(self, *options: str) -> tuple[float, str]:
        return self.run("build", *self.options, *options, "//:all")


def cold_analysis(bazel: Bazel, count: int) -> tuple[float, int]:
    """Models of the row before are other models, so nothing of them is used again."""
    write_workspace(bazel.workspace, count)
    bazel.build("--nobuild")  # repositories are there
    bazel.run("shutdown")
    cold, _ = bazel.build("--nobuild")
    heap = int(bazel.run("info", "used-heap-size-after-gc")[1].split("MB")[0])
    say(f"{count} models: analysed in {cold:.1f} s")
    return cold, heap


def edited(bazel: Bazel, *options: str) -> tuple[float, int]:
    """One model of the manifest is changed: seconds, and targets that are configured again."""
    manifest = bazel.workspace / "models.yaml"
    manifest.write_text(manifest.read_text().replace("exact", "fused", 1))
    seconds, talk = bazel.build(*options)
    return seconds, number(r"(\d+) targets? configured", talk)


def analyse(bazel: Bazel, count: int) -> Row:
    """One row of what is known without building."""
    cold, heap = cold_analysis(bazel, count)
    return Row(count, cold, None, None, None, None, *edited(bazel, "--nobuild"), heap)


def measure(bazel: Bazel, count: int) -> Row:
    """One row."""
    cold, heap = cold_analysis(bazel, count)
    full, _ = bazel.build()
    say(f"{count} models: built in {full:.0f} s")
    null = min(bazel.build()[0] for _ in range(3))
    network = bazel.workspace / "networks" / f"{name_of(count, count // 2)}.onnx"
    network.write_bytes(network_bytes(10**6))
    changed, talk = bazel.build()
    actions = number(r"(\d+) [a-z-]*sandbox", talk)
    return Row(count, cold, full, null, changed, actions, *edited(bazel), heap)


def number(pattern: str, talk: str) -> int:
    """What Bazel said last of something it counts; it says nothing of none."""
    found = re.findall(pattern, talk)
    return int(found[-1]) if found else 0


def write_workspace(workspace: Path, count: int) -> None:
    lines = ["version: 1", "models:"]
    for k in range(count):
        name = name_of(count, k)
        (workspace / "networks" / f"{name}.onnx").write_bytes(network_bytes(count * 10_000 + k))
        lines.append(f"  {name}: {{model: networks/{name}.onnx, float_mode: exact}}")
    (workspace / "models.yaml").write_text("\n".join(lines) + "\n")


def name_of(count: int, k: int) -> str:
    return f"of_{count}_{k:04}"


def network_bytes(seed: int) -> bytes:
    """Two dense layers with random weights."""
    rng = np.random.default_rng(seed)
    shapes = {"a": (16, 8), "b": (8, 4)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("x", [1, 16]), ("y", [1, 4]))
    )
    graph = helper.make_graph(nodes, "small", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    names = [f.name for f in fields(Row)]
    lines = [
        "| " + " | ".join(n.replace("_", " ") for n in names) + " |",
        "|" + " ---: |" * len(names),
    ]
    for row in rows:
        values = (getattr(row, n) for n in names)
        shown = (
            f"{v:.1f}" if isinstance(v, float) else "" if v is None else str(v) for v in values
        )
        lines.append("| " + " | ".join(shown) + " |")
    return "\n".join(lines)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
