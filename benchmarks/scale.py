"""What a manifest of many models costs Bazel: one command, two tables.

    python benchmarks/scale.py [--models 10,100,1000] [--analysis] [--folder DIR] [--wheels DIR]
                               [--jobs N] [--markdown FILE]

For each number a manifest of that many small networks, all different, each in a package of its own,
by a Bazel of its own. The first table has one target each, built as libraries:

- cold analysis: `build --nobuild` by a server that has just been started, its start included
- build: all of it, nothing cached
- null build: the same command again, fastest of three
- one model changed: a weight of one network; the actions that ran
- manifest edited: one model asks for other sums; the targets that were configured again
- heap: megabytes that the server holds after a collection, when all is analysed

The second has two targets, host and cortex-m4, and all that a manifest makes of models with vectors
(`@models//...`), analysed and not built:

- targets: how many there are; configured: how many Bazel configures for them
- null: the same command again, fastest of three
- edited, added, renamed, removed: the manifest changes in one model, and what is configured then

Times are seconds, and in brackets seconds of processor time that the server and its children took,
but for the persistent worker: they depend less on what else runs. load is the machine's load
average when a row is done.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mlftool.workspace import workspace_files

ROOT = Path(__file__).resolve().parent.parent
BUILD = """load("@models//:defs.bzl", "MODELS")

exports_files(["models.yaml"])

filegroup(
    name = "all",
    srcs = ["@models//%s:host" % name for name in MODELS],
)
"""
# Every network in a package of its own: Bazel configures all that uses a package's files again when
# there is another file in it.
NETWORK_BUILD = 'exports_files(glob(["x.*"]))\n'


@dataclass(frozen=True)
class Spent:
    """Seconds that a command took, by the clock and of processors."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} ({self.processor:.1f})"


@dataclass(frozen=True)
class Row:
    """One line of the first table."""

    models: int
    cold_analysis: Spent
    build: Spent | None
    null_build: Spent | None
    one_model_changed: Spent | None
    actions: int | None
    manifest_edited: Spent
    configured_again: int
    heap: int
    load: float


@dataclass(frozen=True)
class Everything:
    """One line of the second table."""

    models: int
    targets: int
    configured: int
    cold_analysis: Spent
    null: Spent
    edited: Spent
    for_edited: int
    added: Spent
    for_added: int
    renamed: Spent
    for_renamed: int
    removed: Spent
    for_removed: int
    heap: int
    load: float


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="10,100,1000", help="how many, for each row")
    parser.add_argument("--analysis", action="store_true", help="build nothing")
    parser.add_argument("--folder", type=Path, help="where to work (a temporary folder)")
    parser.add_argument("--wheels", type=Path, help="an external/mlf_python that is there already")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="actions at a time")
    parser.add_argument("--markdown", type=Path, help="file that gets the tables")
    args = parser.parse_args(arguments)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="mlf-scale-"))
    bazel = Bazel(folder, args.wheels, args.jobs)
    kinds: list[Callable[[Bazel, int], Row | Everything]]
    kinds = [analyse if args.analysis else measure, everything]
    try:
        rows = [[kind(bazel, int(count)) for count in args.models.split(",")] for kind in kinds]
    finally:
        bazel.run("shutdown")
        if not args.folder:
            subprocess.run(["chmod", "-R", "u+w", folder], check=False)
            shutil.rmtree(folder, ignore_errors=True)
    text = "\n\n".join(table(part) for part in rows)
    print(text)
    if args.markdown:
        args.markdown.write_text(text + "\n")
    return 0


class Bazel:
    """A server with a workspace of its own."""

    def __init__(self, folder: Path, wheels: Path | None, jobs: int) -> None:
        self.workspace, self.server = folder / "workspace", folder / "server"
        self.options = ["--experimental_repository_disable_download", f"--jobs={jobs}"]
        if wheels:
            self.options.append(f"--override_repository=mlf_python={wheels.resolve()}")
        self.workspace.mkdir(parents=True, exist_ok=True)
        (self.workspace / "WORKSPACE").write_bytes(workspace_files("scale", ROOT)["WORKSPACE"])
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

    def processor(self) -> float:
        """Processor seconds of the server, which is started if there is none, and its children."""
        pid = self.run("info", "server_pid")[1].split()[0]
        # After the name, which may have spaces: user, system, and the same of children.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")

    def build(self, *words: str, cold: bool = False) -> tuple[Spent, str]:
        """Builds targets, by a server that is started for it if it is to be `cold`."""
        if cold:
            self.run("shutdown")
        before = 0.0 if cold else self.processor()
        seconds, talk = self.run("build", *self.options, *words)
        return Spent(seconds, self.processor() - before), talk

    def heap(self) -> int:
        """Megabytes."""
        return int(self.run("info", "used-heap-size-after-gc")[1].split("MB")[0])


def cold_analysis(bazel: Bazel, *words: str) -> tuple[Spent, str]:
    """The repositories are there, the server is not."""
    bazel.build("--nobuild", *words)
    return bazel.build("--nobuild", *words, cold=True)


def fastest(bazel: Bazel, *words: str) -> Spent:
    return min((bazel.build(*words)[0] for _ in range(3)), key=lambda spent: spent.wall)


def edited(bazel: Bazel, old: str, new: str, *words: str) -> tuple[Spent, int]:
    """The manifest changes in one place: what that takes, and targets that are configured."""
    manifest = bazel.workspace / "models.yaml"
    text = manifest.read_text()
    assert old in text
    manifest.write_text(text.replace(old, new, 1))
    spent, talk = bazel.build(*words)
    return spent, number(r"(\d+) targets? configured", talk)


def analyse(bazel: Bazel, count: int) -> Row:
    """One row of what is known without building."""
    write_workspace(bazel.workspace, count, "host", vectors=False)
    cold, _ = cold_analysis(bazel, "//:all")
    say(f"{count} models: analysed in {cold}")
    again = edited(bazel, "exact", "fused", "--nobuild", "//:all")
    return Row(count, cold, None, None, None, None, *again, bazel.heap(), load())


def measure(bazel: Bazel, count: int) -> Row:
    """One row."""
    write_workspace(bazel.workspace, count, "host", vectors=False)
    cold, _ = cold_analysis(bazel, "//:all")
    heap = bazel.heap()
    full, _ = bazel.build("//:all")
    say(f"{count} models: built in {full}")
    null = fastest(bazel, "//:all")
    network = bazel.workspace / "networks" / name_of(count, count // 2) / "x.onnx"
    network.write_bytes(network_bytes(10**6))
    changed, talk = bazel.build("//:all")
    actions = number(r"(\d+) [a-z-]*sandbox", talk)
    again = edited(bazel, "exact", "fused", "//:all")
    return Row(count, cold, full, null, changed, actions, *again, heap, load())


def everything(bazel: Bazel, count: int) -> Everything:
    """One row of the second table."""
    words = ("--nobuild", "@models//...")
    write_workspace(bazel.workspace, count, "host, cortex-m4", vectors=True)
    cold, talk = cold_analysis(bazel, *words)
    say(f"{count} models, two targets: analysed in {cold}")
    heap = bazel.heap()
    null = fastest(bazel, *words)
    write_network(bazel.workspace, "added", 10**6, vectors=True)
    steps = [
        edited(bazel, "exact", "fused", *words),
        edited(bazel, "models:\n", "models:\n" + entry("added", vectors=True), *words),
        edited(bazel, "  added:", "  renamed:", *words),
        edited(bazel, entry("added", vectors=True).replace("  added:", "  renamed:"), "", *words),
    ]
    return Everything(
        count,
        number(r"Analyzed (\d+) targets", talk),
        number(r"(\d+) targets? configured", talk),
        cold,
        null,
        *[value for step in steps for value in step],
        heap=heap,
        load=load(),
    )


def number(pattern: str, talk: str) -> int:
    """What Bazel said last of something it counts; it says nothing of none."""
    found = re.findall(pattern, talk)
    return int(found[-1]) if found else 0


def load() -> float:
    """The machine's load of the last minute."""
    return os.getloadavg()[0]


def entry(name: str, *, vectors: bool) -> str:
    """A model's line of the manifest."""
    test = f", test: {{vectors: networks/{name}/x.npz}}" if vectors else ""
    return f"  {name}: {{model: networks/{name}/x.onnx, float_mode: exact{test}}}\n"


def write_workspace(workspace: Path, count: int, targets: str, *, vectors: bool) -> None:
    """Models of another number are other models, so nothing of them is used again."""
    names = [name_of(count, k) for k in range(count)]
    for k, name in enumerate(names):
        write_network(workspace, name, count * 10_000 + k, vectors=vectors)
    head = f"version: 1\ndefaults: {{targets: [{targets}]}}\nmodels:\n"
    rows = [entry(name, vectors=vectors) for name in names]
    (workspace / "models.yaml").write_text(head + "".join(rows))


def write_network(workspace: Path, name: str, seed: int, *, vectors: bool) -> None:
    folder = workspace / "networks" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "x.onnx").write_bytes(network_bytes(seed))
    if vectors:
        (folder / "x.npz").write_bytes(b"")
    (folder / "BUILD.bazel").write_text(NETWORK_BUILD)


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


def table(rows: Sequence[Row | Everything]) -> str:
    """Markdown."""
    names = [f.name for f in fields(rows[0])]
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
