"""Runs backend cases as real C, many at a time, and says what became of each."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.targets import CFLAGS
from tests.conformance.compiling import compile_case
from tests.conformance.suite import SuiteCase, load_suite
from tests.conformance.trials import BATCH, BUILD, Outcome, Ran, Trial, judge, run_trials


def run_cases(
    cases: Sequence[SuiteCase],
    jobs: int = 2,
    cache_dir: Path | None = None,
    on_done: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """What became of each case, in order. Results whose C and inputs are unchanged are taken from
    `cache_dir`."""
    names = [c.name for c in cases]
    batches = [names[i : i + BATCH] for i in range(0, len(names), BATCH)]
    outcomes = []
    for found in _map(_run_batch, [(b, cache_dir) for b in batches], min(jobs, len(batches))):
        for outcome in found:
            on_done(outcome)
            outcomes.append(outcome)
    return outcomes


def _map(function: Callable[[Any], Any], items: Sequence[Any], jobs: int) -> Iterator[Any]:
    if jobs <= 1:
        yield from map(function, items)
        return
    load_suite()  # once, before the workers fork
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(function, items)


def _run_batch(task: tuple[Sequence[str], Path | None]) -> list[Outcome]:
    names, cache_dir = task
    by_name = {c.name: c for c in load_suite()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tried = [compile_case(by_name[n]) for n in names]
        trials = [t for t in tried if isinstance(t, Trial)]
        ran = _recalled(trials, cache_dir)
        new = [t for t in trials if t.name not in ran]
        with tempfile.TemporaryDirectory() as folder:
            for trial, done in zip(new, run_trials(new, Path(folder)), strict=True):
                ran[trial.name] = done
                _remember(trial, done, cache_dir)
        return [judge(t, ran[t.name]) if isinstance(t, Trial) else t for t in tried]


def _recalled(trials: Sequence[Trial], cache_dir: Path | None) -> dict[str, Ran]:
    """What the cache knows of earlier runs of the same C on the same inputs."""
    if cache_dir is None:
        return {}
    paths = {t.name: _entry(t, cache_dir) for t in trials}
    return {name: Ran(path.read_bytes()) for name, path in paths.items() if path.is_file()}


def _remember(trial: Trial, ran: Ran, cache_dir: Path | None) -> None:
    if cache_dir is None or ran.failure:
        return
    path = _entry(trial, cache_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(ran.output)
    scratch.replace(path)


def _entry(trial: Trial, cache_dir: Path) -> Path:
    """Where the output of this very C on these very inputs is kept."""
    return cache_dir / hashlib.sha256(_fixed() + trial.digest + trial.headers).hexdigest()[:40]


@cache
def _fixed() -> bytes:
    """What all programs share: the compiler, its flags, the frame around a module."""
    version = subprocess.run(["gcc", "--version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(version + repr((CFLAGS, BUILD, np.__version__)).encode())
    support = Path(__file__).parents[1] / "support"
    for name in ("programs.py", "units.py"):
        digest.update((support / name).read_bytes())
    return digest.digest()
