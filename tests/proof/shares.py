"""Of how many calls the index ranges are proven, and why not of the others (docs/reliability.md).

    python -m tests.proof.shares [--target cortex-m4 ...] [--rows WORD ...] [--reasons]

MLFTOOL_SHARED_MODELS names the folder of MLPerf Tiny's models and of .tflite files; without it only
the examples and the networks of tests/support count.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from other_networks import other_networks  # noqa: E402

from mlftool.cli import main as command  # noqa: E402
from mlftool.mlf import read_tar  # noqa: E402
from mlftool.proof.certificate import CLAIMS  # noqa: E402

TARGETS = ("cortex-m0", "rv32imc", "cortex-m4", "cortex-m55", "host", "x86-64-v3", "x86-64-v4")


def groups(folder: Path) -> Mapping[str, tuple[Path, ...]]:
    """The rows of the table; `folder` is for models that are made."""
    examples = ROOT / "examples" / "models"
    found = {}
    shared = os.environ.get("MLFTOOL_SHARED_MODELS")
    for name, place, byte, number in (
        ("MLPerf Tiny", Path(shared) if shared else None, "*_int8.onnx", "*_fp32.onnx"),
        ("examples", examples, "*_int8.onnx", "*_float32.onnx"),
    ):
        if place is not None:
            found[f"{name} int8"] = tuple(sorted(place.glob(byte)))
            found[f"{name} float32"] = tuple(sorted(place.glob(number)))
    for name, model in other_networks().items():
        onnx.save(model, folder / f"{name}.onnx")
    found["ten other networks"] = tuple(sorted(folder.glob("*.onnx")))
    if shared:
        found[".tflite"] = tuple(sorted((Path(shared) / "tflite").rglob("*.tflite")))
    return found


def certificate(model: Path, target: str, folder: Path) -> Mapping[str, object]:
    archive = folder / "m.tar"
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        done = command(["compile", str(model), "--verify", "--target", target, "-o", str(archive)])
    if done:
        raise SystemExit(out.getvalue())
    files = dict(read_tar(archive).files)
    (name,) = [n for n in files if n.endswith(".certificate")]
    return json.loads(files[name])  # type: ignore[no-any-return]


def reasons(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if match := re.match(r"that (\w+) stays inside its operands: (.*)", line):
            yield match[1], match[2]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", nargs="*", default=TARGETS)
    parser.add_argument("--rows", nargs="*", default=[""], help="those with one of these words")
    parser.add_argument("--reasons", action="store_true")
    given = parser.parse_args(arguments)
    why: dict[str, Counter[str]] = {target: Counter() for target in given.target}
    print("| models |", " | ".join(given.target), "|")
    spent = dict.fromkeys(given.target, 0.0)
    with TemporaryDirectory() as folder:
        for row, models in groups(Path(folder)).items():
            if not any(word in row for word in given.rows):
                continue
            cells, calls = [], 0
            for target in given.target:
                proven = calls = 0
                for model in models:
                    start = time.process_time()
                    found = certificate(model, target, Path(folder))
                    spent[target] += time.process_time() - start
                    said = found["proven"]
                    proven += said.get(CLAIMS["ranges"], 0)
                    calls += said[CLAIMS["calls"]]
                    for symbol, reason in reasons(found["not_proven"]):
                        why[target][f"{model.stem} {symbol}: {reason}"] += 1
                cells.append(f"{proven}/{calls}")
            print(f"| {row} |", " | ".join(cells), "|", flush=True)
    print("| seconds |", " | ".join(f"{s:.1f}" for s in spent.values()), "|")
    if given.reasons:
        for target, counts in why.items():
            print(f"\n{target}")
            for text in counts:
                print(f"  {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
