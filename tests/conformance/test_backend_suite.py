"""Every backend case of the installed onnx does what expected.txt says: none may get worse, and one
that gets better must be recorded (`python -m tests.conformance.run --update`)."""

from __future__ import annotations

import pytest

from tests.conformance.expectations import expectations, met
from tests.conformance.outcome import run_cases
from tests.conformance.run import CACHE
from tests.conformance.suite import load_suite
from tests.conformance.trials import Outcome


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    """What became of the cases that were collected, all compiled and run together."""
    params = [i.callspec.params for i in request.session.items if hasattr(i, "callspec")]
    # Other files of the session may have cases of their own kind.
    wanted = {p["case"] for p in params if isinstance(p.get("case"), str)}
    cases = [c for c in load_suite() if c.name in wanted]
    return {o.name: o for o in run_cases(cases, 2, CACHE)}


@pytest.mark.parametrize("case", [c.name for c in load_suite()])
def test_does_what_is_expected(case: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[case]
    assert met(case, outcome.status), f"{outcome.line}\nexpected: {expectations().get(case)}"
