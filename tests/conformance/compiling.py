"""The compiler's part of a backend case; as a program, that of all cases:

python -m tests.conformance.compiling OUT_00 OUT_01 ...    writes as many groups of cases
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "support"))

from batch import Job, compile_job

from mlftool.errors import MlfError
from mlftool.ir.values import is_deferred, taken_apart
from tests.conformance.suite import SuiteCase, load_suite, subject
from tests.conformance.trials import Outcome, Trial, one_line, plain, save

# What a user says of models whose shapes nothing else limits: more than the cases need.
LIMITS: dict[str, dict[str, tuple[int, ...]]] = {
    "test_loop13_seq": {"seq_res": (7,)},
    "test_loop16_seq_none": {"seq_res": (7,)},
}


def compile_case(case: SuiteCase, target: str = "host") -> Trial | Outcome:
    """The case as C, or why there is none."""
    try:
        feeds = _feeds(case)
        job = Job(case.model, feeds, target, _module_name(case.name))
        if is_deferred(case.model):
            job.shapes = {name: np.shape(value) for name, value in feeds[0].items()}
        job.shapes |= LIMITS.get(case.name, {})
        compile_job(job)
        program = job.program()
    except MlfError as error:
        problem = error.problems[0]
        where = f"{problem.path}: " if problem.path else ""
        return Outcome(case.name, "refused", one_line(f"{problem.code} {where}{problem.message}"))
    except Exception as error:
        return Outcome(case.name, "crash", one_line(f"{type(error).__name__}: {error}"))
    infos = tuple(o.SerializeToString(deterministic=True) for o in case.model.graph.output)
    wanted = tuple(tuple(map(plain, outputs)) for _, outputs in case.data_sets)
    calls = job.compiled.program.calls
    kernels = tuple(sorted({(call.node.op, call.kernel.name) for call in calls}))
    return Trial(case.name, program, infos, wanted, case.rtol, case.atol, kernels)


def _module_name(name: str) -> str:
    """Lower-case, short, and another one for each case."""
    return name.lower()[:40] + "_" + hashlib.sha256(name.encode()).hexdigest()[:6]


def _feeds(case: SuiteCase) -> list[dict[str, Any]]:
    constant = {t.name for t in case.model.graph.initializer}
    names = [i.name for i in case.model.graph.input if i.name not in constant]
    return [taken_apart(dict(zip(names, inputs, strict=False))) for inputs, _ in case.data_sets]


def grouped(cases: Sequence[SuiteCase], count: int) -> list[list[SuiteCase]]:
    """`count` groups of about one size; the cases of one operator stay together."""
    by_operator: dict[str, list[SuiteCase]] = {}
    for case in cases:
        by_operator.setdefault(subject(case), []).append(case)
    groups: list[list[SuiteCase]] = [[] for _ in range(count)]
    for operator in sorted(by_operator, key=lambda name: (-len(by_operator[name]), name)):
        min(groups, key=len).extend(by_operator[operator])
    return groups


def _write(paths: Sequence[str], index: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = grouped(load_suite(), len(paths))[index]
        save(Path(paths[index]), [compile_case(case) for case in group])


def main() -> None:
    paths = sys.argv[1:]
    load_suite()  # once, before the workers fork
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(partial(_write, paths), range(len(paths))))


if __name__ == "__main__":
    main()
