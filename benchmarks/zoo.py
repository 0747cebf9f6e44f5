"""Architectures of PyPI's packages, exported with random weights: which compile, and do they agree
with onnxruntime?

    python -m venv build/zoo
    build/zoo/bin/pip install torch torchvision timm transformers onnxscript skl2onnx onnxruntime \\
        jinja2 pyyaml pyelftools flatbuffers tflite
    build/zoo/bin/python benchmarks/zoo.py --results build/zoo.jsonl [SOURCE[:NAME]..]
    build/zoo/bin/python benchmarks/zoo.py --results build/zoo.jsonl --markdown docs/published.md

The packages are imported once; each network is made, compiled and run in forks of that process with
limits of time, so one that hangs costs no other. A result that --results already has is not made
again, and --minutes ends a run that is continued later.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tables import grid, refresh
from zoo_sources import SOURCES

Array = np.ndarray[Any, Any]
REPO = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPO), str(REPO / "tests" / "support")]
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


def theirs(path: Path, feed: Mapping[str, Array], plainly: bool = False) -> dict[str, Array]:
    """onnxruntime's answers, `plainly` without its optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if plainly:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, map(as_tensor, session.run(None, dict(feed))), strict=True))


def as_tensor(answer: Any) -> Array:
    """A tensor as it is; a map for each sample as the tensor of its values."""
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        return np.array([list(row.values()) for row in answer])
    return np.asarray(answer)


def given_shapes(model: onnx.ModelProto, feed: Mapping[str, Array]) -> list[str]:
    """--input-shape for each input of which the file leaves an extent open."""
    words = []
    for info in model.graph.input:
        shape = info.type.tensor_type.shape.dim
        if info.name in feed and not all(d.dim_value for d in shape):
            extents = ",".join(str(n) for n in feed[info.name].shape)
            words += ["--input-shape", f"{info.name}:{extents}"]
    return words


def in_fork(work: Path, seconds: int, does: Callable[[], int | None]) -> str:
    """What went wrong in a process of its own; "" if nothing did."""
    messages = work / "messages"

    def child() -> None:
        with messages.open("w") as file:
            os.dup2(file.fileno(), 2)
            os.dup2(file.fileno(), 1)
            sys.exit(does() or 0)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return "takes too long"
    if not process.exitcode:
        return ""
    lines = messages.read_text(errors="replace").strip().splitlines() or ["died without a word"]
    return next((line for line in lines if "error[" in line), lines[-1])


def export_and_run(network: str, path: Path, wanted: Path) -> None:
    """Writes the network's ONNX file, and what onnxruntime answers and what it was given."""
    source, name = network.split(":", 1)
    SOURCES[source].write(name, path)
    try:
        feed = feeds_of(onnx.load(path))
        answers = theirs(path, feed)
    except Exception as error:  # whatever onnxruntime refuses with
        (path.parent / "refused").write_text((str(error).splitlines() or ["?"])[0])
        return
    np.savez(path.parent / "in.npz", **{name: value[np.newaxis] for name, value in feed.items()})
    np.savez(wanted, **answers)


def ours(path: Path, feed: Mapping[str, Array], work: Path) -> dict[str, Array]:
    """What `mlftool run` answers. Raises RuntimeError with its message."""
    from mlftool.cli import main

    command = ["run", str(path), "--inputs", str(work / "in.npz"), "-o", str(work / "out.npz")]
    command += given_shapes(onnx.load(path, load_external_data=False), feed)
    if wrong := in_fork(work, MOST_SECONDS["run"], lambda: main(command)):
        raise RuntimeError(wrong.replace(str(path), "").lstrip(": "))
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


def steps_are_exact(path: Path, work: Path) -> bool:
    """Whether each QuantizeLinear of ours stores the rounding of exact arithmetic on what those
    before it stored, ties aside: then onnxruntime's floats fell on the other side of a tie, and
    later layers read another number."""
    from steps import NEAR, beyond_ties, quantisers, with_steps

    model = onnx.load(path)
    if not quantisers(model):
        return False
    onnx.save(with_steps(model), work / "steps.onnx")
    with np.load(work / "in.npz") as given:
        feed = {name: value[0] for name, value in given.items()}
    try:
        got = ours(work / "steps.onnx", feed, work)
        return all(beyond <= NEAR for _, beyond in beyond_ties(model, feed, got))
    except Exception as error:  # what onnx's evaluator has not, or not in float64
        print(f"steps cannot be judged: {error}", file=sys.stderr)
        return False


def one(network: str, work: Path) -> dict[str, Any]:
    """What became of a network: exports, onnxruntime runs it, ours runs it, they agree."""
    path, answers = work / "model.onnx", work / "wanted.npz"
    before = time.monotonic()
    wrong = in_fork(work, MOST_SECONDS["export"], lambda: export_and_run(network, path, answers))
    export = time.monotonic() - before
    if wrong or not path.exists():
        return {"stage": "export", "reason": wrong[:200], "export": export}
    if not answers.exists():
        return {"stage": "onnxruntime", "reason": (work / "refused").read_text()[:200]}
    size = sum(p.stat().st_size for p in work.glob("model.onnx*")) / 1e6
    with np.load(work / "in.npz") as given, np.load(answers, allow_pickle=True) as file:
        feed = {name: value[0] for name, value in given.items()}
        wanted = dict(file)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    try:
        got = ours(path, feed, work)
    except RuntimeError as error:
        return {"stage": "ours", "reason": str(error)[:300], "mb": size, "export": export}
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    away, wrong = difference(got, wanted)
    same = away <= CLOSE and not wrong
    same = same or (away < 1e-2 and steps_are_exact(path, work))
    if not same:
        own, _ = difference(theirs(path, feed, plainly=True), wanted)
        wrong = f"{wrong}; " if wrong else f"differs by {away:.1e}; "
        wrong += f"onnxruntime without its optimisations by {own:.1e}"
    return {
        "stage": "agrees" if same else "differs",
        "reason": wrong,
        "difference": away,
        "mb": size,
        "seconds": time.monotonic() - start,
        "cpu": now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime,
        "export": export,
    }


def chosen(asked: Sequence[str]) -> Iterator[str]:
    """The networks that are asked for; of sources, one of each in turn, so that a run that ends
    early is a sample of them."""
    given = [word for word in asked if ":" in word]
    sources = [word for word in asked if ":" not in word] or ([] if given else list(SOURCES))
    names = [[f"{source}:{name}" for name in SOURCES[source].names()] for source in sources]
    yield from given
    for turn in itertools.zip_longest(*names):
        yield from filter(None, turn)


HEAD = (
    "source",
    "tried",
    "exported",
    "onnxruntime runs",
    "compile and agree",
    "refused",
    "differ",
    "MB, most",
    "seconds, median",
    "most",
)


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """A row per source; seconds are processor time of compiling, of gcc and of the run."""
    rows = []
    for source in SOURCES:
        mine = [r for name, r in results.items() if name.startswith(f"{source}:")]
        if mine:
            rows.append((source, *_counts(mine)))
    rows.append(("all", *_counts(list(results.values()))))
    return grid(HEAD, rows)


def _counts(mine: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    stages = [r["stage"] for r in mine]
    refused, agree, differ = (stages.count(s) for s in ("ours", "agrees", "differs"))
    counts = (len(mine), len(mine) - stages.count("export"), refused + agree + differ)
    yield from map(str, (*counts, agree, refused, differ))
    seconds = [r["cpu"] for r in mine if "cpu" in r] or [0.0]
    yield f"{max((r.get('mb', 0.0) for r in mine), default=0.0):.0f}"
    yield f"{np.median(seconds):.1f}"
    yield f"{max(seconds):.0f}"


def failed(results: Mapping[str, Mapping[str, Any]]) -> str:
    """A row per network that onnxruntime runs and we do not, or to another result."""
    rows = []
    for name, r in sorted(results.items()):
        if r["stage"] in ("ours", "differs"):
            reason = r["reason"] or f"differs by {r['difference']:.1e}"
            rows.append((f"`{name}`", reason.replace("|", "/")[:160]))
    return grid(("network", "reason"), rows or [("none", "")])


def prepared() -> None:
    """Imports what every network's fork needs, once."""
    import onnxruntime  # noqa: F401
    import onnxscript  # noqa: F401
    import timm  # noqa: F401
    import torch
    import torchvision  # noqa: F401
    import transformers  # noqa: F401

    import mlftool.compile
    import mlftool.runtime.execute  # noqa: F401

    torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("networks", nargs="*", metavar="SOURCE[:NAME]")
    add("--results", type=Path, help="a file of JSON lines that is added to")
    add("--markdown", type=Path, help="put the tables into this page")
    add("--minutes", type=float, default=float("inf"), help="begin no network after these")
    add("--keep", type=Path, help="a folder for networks that are refused or differ")
    add("--list", action="store_true", help="print the networks that would run")
    args = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    if args.results and args.results.exists():
        lines = args.results.read_text().splitlines()
        results = {entry["network"]: entry for entry in map(json.loads, lines)}
    networks = [n for n in chosen(args.networks) if n not in results]
    if args.list:
        print(*networks, sep="\n")
        return
    end = time.monotonic() + 60 * args.minutes
    if networks and args.minutes > 0:
        prepared()
    for network in networks:
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory() as folder:
            entry = {"network": network, **one(network, Path(folder))}
            if args.keep and entry["stage"] in ("ours", "differs"):
                kept = args.keep / network.replace("/", "_").replace(":", "_")
                shutil.copytree(folder, kept, dirs_exist_ok=True)
        results[network] = entry
        print(json.dumps(entry), flush=True)
        if args.results:
            with args.results.open("a") as file:
                file.write(json.dumps(entry) + "\n")
    print(table(results))
    if args.markdown:
        refresh(args.markdown, {"zoo": table(results), "zoo_failed": failed(results)})


if __name__ == "__main__":
    main()
