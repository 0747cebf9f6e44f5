"""Architectures of PyPI's packages, exported with random weights: which compile, and do they agree
with onnxruntime?

    python -m venv build/zoo
    build/zoo/bin/pip install torch torchvision timm transformers onnxscript skl2onnx onnxruntime \\
        jinja2 pyyaml pyelftools flatbuffers tflite
    build/zoo/bin/python benchmarks/zoo.py --results build/zoo.jsonl [SOURCE[:NAME]..]
    build/zoo/bin/python benchmarks/zoo.py --results build/zoo.jsonl --markdown docs/zoo.md

Each network has its own processes and time limits, so one that hangs costs no other. A result that
--results already has is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tables import grid, refresh
from zoo_sources import SOURCES

Array = np.ndarray[Any, Any]
REPO = Path(__file__).resolve().parent.parent
MOST_SECONDS = {"export": 300, "run": 300}
CLOSE = 1e-5  # of the largest absolute value of an output


def feeds_of(model: onnx.ModelProto) -> dict[str, Array]:
    random = np.random.default_rng(0)
    constants = {t.name for t in model.graph.initializer}
    feed: dict[str, Array] = {}
    for info in (i for i in model.graph.input if i.name not in constants):
        tensor = info.type.tensor_type
        shape = tuple(d.dim_value or 1 for d in tensor.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            feed[info.name] = random.uniform(0, 1, shape).astype(dtype)
        else:
            feed[info.name] = random.integers(3, 90, shape).astype(dtype)
    return feed


def theirs(path: Path, feed: Mapping[str, Array]) -> dict[str, Array]:
    """onnxruntime's answers."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feed)), strict=True))


def ours(path: Path, feed: Mapping[str, Array], work: Path) -> dict[str, Array]:
    """What `mlftool run` answers. Raises RuntimeError with its message."""
    np.savez(work / "in.npz", **{name: value[np.newaxis] for name, value in feed.items()})
    command = [sys.executable, "-m", "mlftool", "run", str(path)]
    command += ["--inputs", str(work / "in.npz"), "-o", str(work / "out.npz")]
    for info in onnx.load(path, load_external_data=False).graph.input:
        shape = info.type.tensor_type.shape.dim
        if info.name in feed and not all(d.dim_value for d in shape):
            extents = ",".join(str(n) for n in feed[info.name].shape)
            command += ["--input-shape", f"{info.name}:{extents}"]
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, timeout=MOST_SECONDS["run"]
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise RuntimeError(lines[0].replace(str(path), "").lstrip(": "))
    with np.load(work / "out.npz", allow_pickle=True) as file:
        return {name: value[0] for name, value in file.items()}


def difference(got: Mapping[str, Array], wanted: Mapping[str, Array]) -> tuple[float, str]:
    """The largest of any output relative to that output's largest value, and what is no difference
    of numbers: another shape, other integers."""
    worst, wrong = 0.0, ""
    for name, want in wanted.items():
        have = got.get(name)
        if have is None or have.shape != np.shape(want):
            return float(
                "inf"
            ), f"{name}: {None if have is None else have.shape}, not {np.shape(want)}"
        if np.asarray(want).dtype.kind not in "fiu":
            wrong = wrong or ("" if np.array_equal(have, want) else f"{name} differs")
            continue
        a, b = have.astype(np.float64), np.asarray(want).astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        largest = max(np.abs(b[np.isfinite(b)]).max(initial=0), 1e-30)
        away = np.where(same, 0, np.abs(a - b)).max(initial=0) / largest
        worst = max(worst, float(away))
    return worst, wrong


def one(network: str, work: Path) -> dict[str, Any]:
    """What became of a network: exports, onnxruntime runs it, ours runs it, they agree."""
    path = work / "model.onnx"
    command = [sys.executable, __file__, "--export", str(path), network]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MOST_SECONDS["export"]
        )
    except subprocess.TimeoutExpired:
        return {"stage": "export", "reason": "takes too long"}
    if done.returncode or not path.exists():
        lines = done.stderr.strip().splitlines() or ["nothing was written"]
        return {"stage": "export", "reason": lines[-1][:200]}
    size = sum(p.stat().st_size for p in work.glob("model.onnx*"))
    try:
        model = onnx.load(path)
        feed = feeds_of(model)
        wanted = theirs(path, feed)
    except Exception as error:  # whatever onnxruntime refuses with
        return {"stage": "onnxruntime", "reason": str(error).splitlines()[0][:200]}
    start = time.monotonic()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        got = ours(path, feed, work)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {"stage": "ours", "reason": str(error)[:300], "mb": size / 1e6}
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    away, wrong = difference(got, wanted)
    return {
        "stage": "agrees" if away <= CLOSE and not wrong else "differs",
        "reason": wrong,
        "difference": away,
        "mb": size / 1e6,
        "seconds": time.monotonic() - start,
        "cpu": now.ru_utime - used.ru_utime,
        "nodes": len(model.graph.node),
    }


def chosen(asked: Sequence[str]) -> Iterator[str]:
    for word in asked or SOURCES:
        source, _, name = word.partition(":")
        if name:
            yield word
        else:
            yield from (f"{source}:{name}" for name in SOURCES[source].names())


HEAD = (
    "source",
    "exported",
    "onnxruntime runs",
    "compile and agree",
    "refused",
    "differ",
    "most s",
)


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for source in SOURCES:
        mine = [r for name, r in results.items() if name.startswith(f"{source}:")]
        if not mine:
            continue
        ran = [r for r in mine if r["stage"] in ("ours", "agrees", "differs")]
        stages = [r["stage"] for r in mine]
        slowest = max((r.get("seconds", 0.0) for r in mine), default=0.0)
        counts = (len(mine) - stages.count("export"), len(ran), stages.count("agrees"))
        counts += (stages.count("ours"), stages.count("differs"))
        rows.append((source, *map(str, counts), f"{slowest:.0f}"))
    return grid(HEAD, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", metavar="SOURCE[:NAME]")
    parser.add_argument("--results", type=Path, help="a file of JSON lines that is added to")
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    parser.add_argument("--export", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--keep", type=Path, help="a folder for networks that are refused or differ"
    )
    args = parser.parse_args()
    if args.export:
        source, name = args.networks[0].split(":", 1)
        SOURCES[source].write(name, args.export)
        return
    results: dict[str, dict[str, Any]] = {}
    if args.results and args.results.exists():
        lines = args.results.read_text().splitlines()
        results = {entry["network"]: entry for entry in map(json.loads, lines)}
    for network in chosen(args.networks):
        if network in results:
            continue
        with tempfile.TemporaryDirectory() as folder:
            entry = {"network": network, **one(network, Path(folder))}
            if args.keep and entry["stage"] in ("ours", "differs"):
                kept = args.keep / network.replace("/", "_").replace(":", "_")
                kept.parent.mkdir(parents=True, exist_ok=True)
                os.system(f"cp -r {folder} {kept}")
        results[network] = entry
        print(json.dumps(entry), flush=True)
        if args.results:
            with args.results.open("a") as file:
                file.write(json.dumps(entry) + "\n")
    print(table(results))
    if args.markdown:
        refresh(args.markdown, {"zoo": table(results)})


if __name__ == "__main__":
    main()
