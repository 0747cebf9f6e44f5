"""What a peer's process does: show that its results are right, then time turns of inferences.

It says "ready", and answers every line with the microseconds of the fastest of fifty inferences.
FOLDER/inputs.npz and FOLDER/expected.npz hold a sample and its results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
CALLS = 50  # in a turn
INPUTS, EXPECTED = "inputs.npz", "expected.npz"


def write(folder: Path, inputs: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    np.savez(folder / INPUTS, **inputs)
    np.savez(folder / EXPECTED, **expected)


def inputs_of(folder: Path) -> dict[str, Array]:
    with np.load(folder / INPUTS) as file:
        return dict(file)


def serve(folder: Path, results: Iterable[Array], run: Callable[[], object]) -> None:
    """Raises AssertionError where results, in the network's order, are off by more than a bit."""
    with np.load(folder / EXPECTED) as file:
        for got, want in zip(results, file.values(), strict=True):
            off = np.abs(got.astype(np.float64) - want).max()
            whole = want.dtype.kind in "iu"
            limit = 1 if whole else 1e-3 * max(1.0, float(np.abs(want).max()))
            assert off <= limit, f"off by {off}"
    print("ready", flush=True)
    for _ in sys.stdin:
        best = float("inf")
        for _ in range(CALLS):
            start = time.perf_counter()
            run()
            best = min(best, time.perf_counter() - start)
        print(best * 1e6, flush=True)
