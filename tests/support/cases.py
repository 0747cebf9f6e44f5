"""A case: one small model, its inputs, and what the generated C must give for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from batch import Job, run_jobs
from builders import random_feeds
from oracle import (
    Feeds,
    is_tie,
    onnxruntime_float,
    onnxruntime_integer,
    reference,
    relative_error,
)

Oracle = Callable[[onnx.ModelProto, Feeds], list[dict[str, np.ndarray[Any, Any]]]]
ORACLES: dict[str, Oracle] = {
    "integer": onnxruntime_integer,
    "float": onnxruntime_float,
    "reference": reference,
}
FLOAT_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Case:
    """Integer outputs must equal the oracle's bit for bit, float ones within 1e-5.

    With `ties` an integer may be one quantum off where the exact value lies half-way between two.
    With `every_target` the kernels of Cortex-M4 are run too; their DSP instructions have plain C.
    """

    name: str
    model: onnx.ModelProto = field(repr=False)
    oracle: str = "float"
    every_target: bool = False
    ties: bool = False
    feeds: Feeds | None = None
    seed: int = 1

    def inputs(self) -> Feeds:
        return self.feeds or random_feeds(self.model, self.seed)


class Results:
    """The selected cases of a file, compiled and run together."""

    def __init__(self, cases: Sequence[Case], work: Path, selected: Callable[[str], bool]) -> None:
        self._jobs: dict[tuple[str, str], Job] = {}
        for case in (c for c in cases if selected(c.name)):
            for target in ("host", "cortex-m4") if case.every_target else ("host",):
                self._jobs[case.name, target] = Job(case.model, case.inputs(), target)
        assert len({c.name for c in cases}) == len(cases)
        run_jobs(list(self._jobs.values()), work)

    def job(self, case: Case, target: str = "host") -> Job:
        return self._jobs[case.name, target]

    def check(self, case: Case) -> None:
        expected = ORACLES[case.oracle](case.model, case.inputs())
        for target in ("host", "cortex-m4") if case.every_target else ("host",):
            job = self.job(case, target)
            assert not job.failure, f"{target}: {job.failure}"
            for feed, got, want in zip(case.inputs(), job.results, expected, strict=True):
                for name, value in want.items():
                    if case.ties and _only_ties(case, feed, got[name], value):
                        continue
                    compare(got[name], value, f"{target}: {name}")

    def check_near(self, case: Case, share: float = 0.02) -> None:
        """Integers may be one off, `share` of them at most; floats as ever."""
        job = self.job(case)
        assert not job.failure, job.failure
        for got, want in zip(
            job.results, onnxruntime_float(case.model, case.inputs()), strict=True
        ):
            for name, value in want.items():
                if value.dtype.kind == "f":
                    compare(got[name], value, name)
                    continue
                assert (got[name].dtype, got[name].shape) == (value.dtype, value.shape)
                off = np.abs(got[name].astype(np.int64) - value)
                assert off.max() <= 1, f"{name}: off by {off.max()}"
                assert np.count_nonzero(off) <= max(1, share * off.size), f"{name}: {off.sum()} off"


def _only_ties(
    case: Case, feed: dict[str, Any], got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]
) -> bool:
    one_off = np.abs(got.astype(np.int64) - want) <= 1
    return bool(np.all(one_off)) and is_tie(case.model, feed, got != want)


def compare(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], what: str) -> None:
    assert got.dtype == want.dtype, what
    assert got.shape == want.shape, what
    if want.dtype.kind == "f":
        error = relative_error(got, want)
        assert error <= FLOAT_TOLERANCE, f"{what}: relative error {error:.3g}"
        return
    if want.dtype == object:
        assert got.tolist() == want.tolist(), what
        return
    different = got != want
    worst = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
    text = f"{different.sum()} of {want.size} elements differ, by up to {worst}"
    assert not different.any(), f"{what}: {text}"
