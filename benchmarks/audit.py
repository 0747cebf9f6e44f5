"""Whether the rules keep their promises in a workspace of a stranger: five checks, five points.

    python benchmarks/audit.py [--sources DIR] [--folder DIR] [--wheels DIR] [--models 12]

A workspace outside of this repository gets that many networks of four kinds, each for the host and
cortex-m4, with libraries, firmware and tests; `@models//...` is built by Bazel as it is installed.

1. One compile for everyone: over fastbuild, opt and dbg there is one MlfCompile for each network
   and target, by the log of the executed actions and by aquery in each mode.
2. From another path, with another HOME, USER, umask and noise in the environment, every action is
   a hit in the cache.
3. One byte of one network runs actions of that network only.
4. A comment in the manifest runs nothing.
5. Without workers, all in sandboxes, every output has the same bytes.

It prints a line for each and the points at the end; the exit code is 0 for five. --sources is a
clone of this repository (this one), --wheels an external/mlf_python that is there already.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from mlftool.workspace import workspace_files

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("host", "cortex-m4")
MODES = ("fastbuild", "opt", "dbg")
ALL = "@models//..."
NOISE = {
    "CFLAGS": "-O0", "CPATH": "/nonexistent", "LC_ALL": "C", "MLFTOOL_NOISE": "1",
    "PYTHONHASHSEED": "7", "PYTHONPATH": "/nonexistent", "TZ": "Asia/Tokyo", "USER": "somebody",
}  # fmt: skip
# Neither is an action whose result anyone waits for: links, and words of one build about itself.
NOT_SPAWNED = ("Middleman", "SymlinkTree", "SourceSymlinkManifest", "FileWrite", "Symlink")


@dataclass(frozen=True)
class Spawn:
    """One process of a build, as the log of executed actions has it."""

    mnemonic: str
    outputs: tuple[str, ...]
    digests: tuple[str, ...]
    hit: bool
    runner: str

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Spawn:
        made = entry["actualOutputs"]
        return cls(
            entry.get("mnemonic", ""),
            tuple(o["path"] for o in made),
            tuple(o["digest"]["hash"] for o in made),
            bool(entry.get("remoteCacheHit")),
            entry.get("runner", ""),
        )


@dataclass(frozen=True)
class Place:
    """A workspace, the Bazel that builds it, and the user who does."""

    workspace: Path
    home: Path
    cache: Path
    options: tuple[str, ...]
    noise: bool = False

    def run(self, command: str, *words: str) -> str:
        """What Bazel said. Raises SystemExit if it failed."""
        self.home.mkdir(parents=True, exist_ok=True)
        line = ["bazel", f"--output_user_root={self.home}/bazel", "--nohome_rc", command, *words]
        environment = {**os.environ, "HOME": str(self.home), **(NOISE if self.noise else {})}
        run = subprocess.run(
            line, cwd=self.workspace, env=environment, capture_output=True, text=True, check=False,
            umask=0o077 if self.noise else 0o022,
        )  # fmt: skip
        if run.returncode != 0:
            raise SystemExit(f"{' '.join(line)}\n{run.stdout}{run.stderr[-6000:]}")
        return run.stdout + run.stderr

    def build(self, *words: str) -> list[Spawn]:
        """The processes that the build of everything needed, run here or found in the cache."""
        log = self.home / "actions.json"
        log.unlink(missing_ok=True)
        cache = f"--disk_cache={self.cache}"
        self.run("build", *self.options, cache, f"--execution_log_json_file={log}", *words, ALL)
        return list(map(Spawn.of, entries(log)))

    def compiles(self, mode: str) -> int:
        """How many MlfCompile actions aquery names in this mode."""
        # By their names, since aquery knows no wildcards of another repository; and not what a
        # build of all leaves out, as it is for a board's platform only.
        targets = self.run("query", "--noshow_progress", *self.options, ALL).splitlines()
        ends = tuple(f"{target}_{end}" for target in TARGETS for end in ("archive", "runner"))
        wanted = " ".join(t for t in targets if t.startswith("@models//") and t.endswith(ends))
        query = f'mnemonic("MlfCompile", deps(set({wanted})))'
        flags = (*self.options, "--include_commandline=false", "-c", mode)
        said = self.run("aquery", *flags, query)
        return len(set(re.findall(r"^  Outputs: \[(.*)\]$", said, re.MULTILINE)))

    def end(self) -> None:
        self.run("shutdown")


def entries(log: Path) -> Iterator[dict[str, Any]]:
    """JSON objects, one after the other."""
    text, decoder, at = log.read_text(), json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        entry, at = decoder.raw_decode(text, at)
        yield entry


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, default=ROOT, help="a clone of mlftool")
    parser.add_argument("--folder", type=Path, help="where to work, empty (a temporary folder)")
    parser.add_argument("--wheels", type=Path, help="an external/mlf_python that is there already")
    parser.add_argument("--models", type=int, default=12, help="how many networks")
    args = parser.parse_args(arguments)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="mlf-audit-"))
    options = ["--experimental_repository_disable_download"]
    if args.wheels:
        options.append(f"--override_repository=mlf_python={args.wheels.resolve()}")
    workspace = folder / "here" / "workspace"
    write_workspace(workspace, args.sources, args.models)
    here = Place(workspace, folder / "here/home", folder / "cache", tuple(options))
    try:
        points = sum(verdicts(here, folder, args.sources, args.models))
    finally:
        here.end()
        if not args.folder:
            subprocess.run(["chmod", "-R", "u+w", folder], check=False)
            shutil.rmtree(folder, ignore_errors=True)
    print(points)
    return 0 if points == 5 else 1


def verdicts(here: Place, folder: Path, sources: Path, models: int) -> Iterator[bool]:
    first = {mode: here.build("-c", mode) for mode in MODES}
    yield one_compile(here, first, models * len(TARGETS))
    there = another_place(here, folder, sources)
    try:
        yield all_hits(there)
    finally:
        there.end()
    yield one_byte(here)
    yield comment(here)
    yield equal_bytes(here, first["fastbuild"], folder)


def one_compile(here: Place, first: dict[str, list[Spawn]], right: int) -> bool:
    ran = [s for spawns in first.values() for s in spawns if s.mnemonic == "MlfCompile"]
    asked = {mode: here.compiles(mode) for mode in MODES}
    runners = dict(Counter(s.runner for s in ran))
    say(f"1. {len(ran)} compiles over {', '.join(MODES)} ({runners}), by aquery {asked}")
    return len(ran) == right and set(asked.values()) == {right}


def another_place(here: Place, folder: Path, sources: Path) -> Place:
    """The same files under another path, seen by another user; the rules lie elsewhere, too."""
    there = folder / "another_place" / "of_somebody"
    shutil.copytree(here.workspace, there, ignore=shutil.ignore_patterns("bazel-*"))
    ignored = shutil.ignore_patterns("bazel-*", ".git", "build", "__pycache__")
    rules = there.parent / "rules_of_somebody"
    shutil.copytree(sources, rules, ignore=ignored)
    for name, data in workspace_files("audit", rules).items():
        (there / name).write_bytes(data)
    return Place(there, there.parent / "home", here.cache, here.options, noise=True)


def all_hits(there: Place) -> bool:
    spawns = [s for mode in MODES for s in there.build("-c", mode)]
    missed = [s for s in spawns if not s.hit]
    say(f"2. {len(spawns) - len(missed)} of {len(spawns)} actions are hits from another path")
    for spawn in missed[:8]:
        say(f"   missed: {spawn.mnemonic} {spawn.outputs[:1]}")
    return bool(spawns) and not missed


def one_byte(here: Place) -> bool:
    """A weight of the network that stands in the middle."""
    path = sorted(here.workspace.glob("networks/*/x.onnx"))[len(TARGETS)]
    name = path.parent.name
    model = onnx.load(path)
    raw = bytearray(model.graph.initializer[0].raw_data)
    raw[0] ^= 1
    model.graph.initializer[0].raw_data = bytes(raw)
    path.write_bytes(model.SerializeToString())
    write_vectors(path)
    ran = [s for s in here.build("-c", "fastbuild") if not s.hit]
    kinds = Counter(s.mnemonic for s in ran)
    others = [s for s in ran if not any(f"/{name}/" in o or f"{name}" in o for o in s.outputs)]
    say(f"3. one byte of {name} runs {len(ran)} actions, {kinds['MlfCompile']} of them compiles")
    for spawn in others[:8]:
        say(f"   of another: {spawn.mnemonic} {spawn.outputs[:1]}")
    return kinds["MlfCompile"] == len(TARGETS) and not others


def comment(here: Place) -> bool:
    manifest = here.workspace / "models.yaml"
    manifest.write_text("# a comment\n" + manifest.read_text() + "# another\n")
    ran = here.build("-c", "fastbuild")
    say(f"4. a comment runs {len(ran)} actions")
    return not ran


def equal_bytes(here: Place, first: list[Spawn], folder: Path) -> bool:
    """All of it again by a server of its own, without workers and without the cache."""
    alone = Place(here.workspace, folder / "alone", folder / "empty_cache", here.options)
    words = ("--strategy=MlfCompile=sandboxed", "--strategy=MlfPackage=sandboxed")
    try:
        again = {s.outputs: s for s in alone.build("-c", "fastbuild", *words)}
    finally:
        alone.end()
    now = {s.outputs: s for s in again.values() if s.mnemonic not in NOT_SPAWNED}
    changed = sorted(here.workspace.glob("networks/*/x.onnx"))[len(TARGETS)].parent.name
    pairs = [
        (s, now[s.outputs]) for s in first if s.outputs in now and changed not in str(s.outputs)
    ]
    differ = [a for a, b in pairs if a.digests != b.digests]
    files = sum(len(a.digests) for a, _ in pairs)
    workers = sum(s.runner == "worker" for s in now.values())
    say(f"5. {files} outputs, by workers and in sandboxes: {len(differ)} actions differ")
    for spawn in differ[:8]:
        say(f"   differs: {spawn.mnemonic} {spawn.outputs[:1]}")
    return files > 0 and not differ and workers == 0


def write_workspace(folder: Path, sources: Path, models: int) -> None:
    """Networks of four kinds, in packages of their own, with vectors that onnxruntime made."""
    kinds: Sequence[Callable[[np.random.Generator], onnx.ModelProto]]
    kinds = (convolutions, dense, quantised, recurrent)
    names = []
    for k in range(models):
        kind = kinds[k % len(kinds)]
        names.append(f"{kind.__name__}_{k:02}")
        package = folder / "networks" / names[-1]
        package.mkdir(parents=True)
        (package / "BUILD.bazel").write_text('exports_files(glob(["x.*"]))\n')
        (package / "x.onnx").write_bytes(kind(np.random.default_rng(k)).SerializeToString())
        write_vectors(package / "x.onnx")
    rows = [
        f"  {n}: {{model: networks/{n}/x.onnx, test: {{vectors: networks/{n}/x.npz}}}}\n"
        for n in names
    ]
    head = f"version: 1\ndefaults: {{targets: [{', '.join(TARGETS)}]}}\nmodels:\n"
    (folder / "models.yaml").write_text(head + "".join(rows))
    (folder / "BUILD.bazel").write_text('exports_files(["models.yaml"])\n')
    for name, data in workspace_files("audit", sources).items():
        (folder / name).write_bytes(data)


def write_vectors(path: Path) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (x,) = session.get_inputs()
    value = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    outputs = session.run(None, {x.name: value})
    names = [o.name for o in session.get_outputs()]
    np.savez(path.with_suffix(".npz"), **{x.name: value}, **dict(zip(names, outputs, strict=True)))


def convolutions(rng: np.random.Generator) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    return model_of(nodes, [1, 3, 8, 8], [1, 5, 4, 4], w=rng.normal(size=(5, 3, 3, 3)))


def dense(rng: np.random.Generator) -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("Gemm", ["t", "b"], ["y"]),
    ]
    return model_of(nodes, [1, 9], [1, 4], a=rng.normal(size=(9, 7)), b=rng.normal(size=(7, 4)))


def quantised(rng: np.random.Generator) -> onnx.ModelProto:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "ws"], ["wd"]),
        helper.make_node("Conv", ["xd", "wd"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]
    return model_of(
        nodes, [1, 4, 6, 6], [1, 6, 4, 4],
        wq=rng.integers(-127, 128, (6, 4, 3, 3)).astype(np.int8),
        s=np.float32(0.05), z=np.int8(3), ws=np.float32(0.01),
    )  # fmt: skip


def recurrent(rng: np.random.Generator) -> onnx.ModelProto:
    nodes = [helper.make_node("GRU", ["x", "w", "r"], ["", "y"], hidden_size=6)]
    w, r = rng.normal(size=(1, 18, 4)), rng.normal(size=(1, 18, 6))
    return model_of(nodes, [5, 1, 4], [1, 1, 6], w=w, r=r)


def model_of(
    nodes: Sequence[onnx.NodeProto], x: Sequence[int], y: Sequence[int], **constants: Any
) -> onnx.ModelProto:
    arrays = {
        n: np.asarray(a, np.float32) if np.asarray(a).dtype == np.float64 else np.asarray(a)
        for n, a in constants.items()
    }
    graph = helper.make_graph(
        nodes, "audited",
        [helper.make_tensor_value_info("x", T.FLOAT, x)],
        [helper.make_tensor_value_info("y", T.FLOAT, y)],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
