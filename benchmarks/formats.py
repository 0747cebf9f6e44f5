"""What a TensorFlow Lite file costs beside its ONNX form: instructions of both on simulated boards.

    python benchmarks/formats.py --models DIR [--markdown docs/tflite.md]

Counts are those of `mlftool profile MODEL --target TARGET`; DIR has MLPerf Tiny's networks as
NAME_int8.onnx and tflite/NAME_int8.tflite. A network for which a board has no room has no figure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tables import grid, refresh

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mlftool.cli.profile import add_arguments
from mlftool.cli.subject import one_subject
from mlftool.errors import MlfError
from mlftool.insight.profile import profile, to_json

NETWORKS = ("kws", "vww", "ic", "ad")
TARGETS = ("cortex-m4", "cortex-m55", "cortex-m3", "cortex-m0", "rv32imc")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--markdown", metavar="PAGE", type=Path, help="write the table there")
    args = parser.parse_args(argv)
    rows = [[name, *(cell(args.models, name, t) for t in TARGETS)] for name in NETWORKS]
    table = grid(["", *TARGETS], rows)
    print(table)
    if args.markdown:
        refresh(args.markdown, {"formats": table})
    return 0


def cell(models: Path, name: str, target: str) -> str:
    """Million instructions of the ONNX form, of the other, and how many times as many that is."""
    files = (models / f"{name}_int8.onnx", models / "tflite" / f"{name}_int8.tflite")
    counts = [million_instructions(file, target) for file in files]
    if None in counts:
        return "-"
    return f"{counts[0]:.3g} / {counts[1]:.3g} ({counts[1] / counts[0]:.2f})"


def million_instructions(model: Path, target: str) -> float | None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options = parser.parse_args([str(model), "--target", target])
    try:
        whole = profile(one_subject(options, model), None, "", None)
    except MlfError as error:
        print(f"{model.name} on {target}: {error}", file=sys.stderr)
        return None
    return to_json(whole)["totals"]["instructions"] / 1e6


if __name__ == "__main__":
    sys.exit(main())
