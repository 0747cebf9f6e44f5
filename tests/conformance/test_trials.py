"""A group of compiled backend cases does what expected.txt says; runs in Bazel only, which compiled
them. test_backend_suite.py is the same with the compiler in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.expectations import met
from tests.conformance.trials import Trial, judge, load, run_trials


def test_the_group_does_what_is_expected(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    path = request.config.getoption("--trials")
    if path is None:
        pytest.skip("no --trials: test_backend_suite.py compiles and runs the cases")
    group = load(path)
    trials = [t for t in group if isinstance(t, Trial)]
    ran = run_trials(trials, tmp_path)
    judged = {t.name: judge(t, r) for t, r in zip(trials, ran, strict=True)}
    outcomes = [judged[t.name] if isinstance(t, Trial) else t for t in group]
    assert outcomes
    unexpected = [o.line for o in outcomes if not met(o.name, o.status)]
    assert not unexpected, "\n".join(unexpected)
