"""Every backend case of the installed onnx does what expected.txt says: none may get worse, and one
that gets better must be recorded (`python -m tests.conformance.run --update`)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conformance.expectations import expectations
from tests.conformance.outcome import Outcome, run_cases
from tests.conformance.run import CACHE, ROOT
from tests.conformance.suite import SuiteCase, load_suite


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """What became of the cases that were collected, all compiled and run together."""
    params = [i.callspec.params for i in request.session.items if hasattr(i, "callspec")]
    # Other files of the session may have cases of their own kind.
    wanted = {p["case"] for p in params if isinstance(p.get("case"), str)}
    cases = [c for c in load_suite() if c.name in wanted]
    bazel = "TEST_TMPDIR" in os.environ  # which caches the whole test
    return {o.name: o for o in run_cases(cases, 1 if bazel else 2, None if bazel else CACHE)}


@pytest.mark.parametrize("case", [c.name for c in load_suite()])
def test_does_what_is_expected(case: str, outcomes: dict[str, Outcome]) -> None:
    outcome, expected = outcomes[case], expectations().get(case)
    if expected is None:
        assert outcome.status == "pass", outcome.line
    else:
        assert outcome.status == expected.split(": ")[1], f"{outcome.line}\nexpected: {expected}"


def test_expectations_are_about_cases_that_exist() -> None:
    assert expectations().keys() <= {c.name for c in load_suite()}


def test_the_page_about_operators_is_current() -> None:
    command = [sys.executable, ROOT / "tools" / "operators_doc.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0)


def _has_data(case: SuiteCase) -> bool:
    return len(case.data_sets) > 0 and all(outputs for _, outputs in case.data_sets)


def test_every_case_compares_something() -> None:
    assert not [c.name for c in load_suite() if not _has_data(c)]
