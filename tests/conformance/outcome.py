"""Runs backend cases as real C, many at a time, and says what became of each."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "support"))

from batch import SANITIZERS, Job, build_jobs, compile_job
from onnx.backend.test.runner import Runner

from mlftool.backend import is_deferred, put_together, taken_apart
from mlftool.errors import MlfError
from mlftool.mlf.runtime_tree import helper_headers
from mlftool.targets import CFLAGS
from tests.conformance.suite import SuiteCase, load_suite

FLAGS = ("-O1", *SANITIZERS)
BATCH = 64  # cases that become one program


@dataclass(frozen=True)
class Outcome:
    """`status`: pass; refused, an error of the compiler; wrong, other results; crash, all else."""

    name: str
    status: str
    reason: str = ""

    @property
    def line(self) -> str:
        return f"{self.name}: {self.status}: {self.reason}" if self.reason else self.name


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
    cases = [by_name[n] for n in names]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tried = [_compile(case) for case in cases]
        made = {o.name: o for o in tried if isinstance(o, Outcome)}
        jobs = [j for j in tried if isinstance(j, Job)]
        new = [j for j in jobs if not _recall(j, cache_dir)]
        build_jobs(new, Path(folder), FLAGS, threads=1)
        for job in new:
            _remember(job, cache_dir)
        judged = (_judge(c, j) for c, j in zip(cases, tried, strict=True) if isinstance(j, Job))
        made |= {o.name: o for o in judged}
    return [made[n] for n in names]


def _module_name(name: str) -> str:
    """Lower-case, short, and another one for each case."""
    return name.lower()[:40] + "_" + hashlib.sha256(name.encode()).hexdigest()[:6]


def _compile(case: SuiteCase) -> Job | Outcome:
    try:
        feeds = _feeds(case)
        job = Job(case.model, feeds, name=_module_name(case.name))
        if is_deferred(case.model):
            job.shapes = {name: np.shape(value) for name, value in feeds[0].items()}
        compile_job(job)
    except MlfError as error:
        problem = error.problems[0]
        where = f"{problem.path}: " if problem.path else ""
        return Outcome(case.name, "refused", _one_line(f"{problem.code} {where}{problem.message}"))
    except Exception as error:
        return Outcome(case.name, "crash", _one_line(f"{type(error).__name__}: {error}"))
    return job


def _feeds(case: SuiteCase) -> list[dict[str, Any]]:
    constant = {t.name for t in case.model.graph.initializer}
    names = [i.name for i in case.model.graph.input if i.name not in constant]
    return [taken_apart(dict(zip(names, inputs, strict=False))) for inputs, _ in case.data_sets]


def _judge(case: SuiteCase, job: Job) -> Outcome:
    if job.failure:
        return Outcome(case.name, "crash", _one_line(job.failure))
    for result, (_, wanted) in zip(job.results, case.data_sets, strict=True):
        try:
            got = [put_together(info, result) for info in case.model.graph.output]
            Runner.assert_similar_outputs(list(wanted), got, case.rtol, case.atol)
        except (AssertionError, AttributeError, TypeError) as error:  # a sequence is no array
            return Outcome(case.name, "wrong", _one_line(str(error)))
    return Outcome(case.name, "pass")


def _one_line(text: str) -> str:
    text = re.sub(r"/\S*/|0x[0-9a-f]{6,}|==\d+==", "", text)  # nothing that differs between runs
    mark = max(text.find("error: "), text.find("ERROR: "), text.find("runtime error: "))
    return " ".join(text[max(0, mark) :].split())[:160]


def _recall(job: Job, cache_dir: Path | None) -> bool:
    """Take the job's results from the cache if they are there."""
    path = _entry(job, cache_dir)
    if path is None or not path.is_file():
        return False
    job.read(path.read_bytes())
    return True


def _remember(job: Job, cache_dir: Path | None) -> None:
    path = _entry(job, cache_dir)
    if path is None or job.failure:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(job.output)
    scratch.replace(path)


def _entry(job: Job, cache_dir: Path | None) -> Path | None:
    """Where the output of this very C on these very inputs is kept."""
    if cache_dir is None:
        return None
    assert job.module is not None
    digest = hashlib.sha256(_fixed())
    for part in (job.c_text(), *map(job.encode, job.feeds)):
        digest.update(part)
    return cache_dir / digest.hexdigest()[:40]


@cache
def _fixed() -> bytes:
    """What all programs share: the compiler, its flags, the headers, the frame around a module."""
    version = subprocess.run(["gcc", "--version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(version + repr((CFLAGS, FLAGS, np.__version__)).encode())
    for name, data in sorted(helper_headers().items()):
        digest.update(name.encode() + data)
    digest.update((Path(__file__).parents[1] / "support" / "batch.py").read_bytes())
    return digest.digest()
