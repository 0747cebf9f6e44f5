"""--update-golden writes the golden C files anew; read the difference before you commit it."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/codegen/golden")


@pytest.fixture(scope="module")
def selected(request: pytest.FixtureRequest) -> Callable[[str], bool]:
    """Whether a case of this file, by its name, is needed by the tests that were chosen.

    Files compile all their cases as one program; with `-k` only those that somebody looks at.
    """
    names: set[str] = set()
    for item in request.session.items:
        if item.path != request.path or "selected" not in getattr(item, "fixturenames", ()):
            continue
        call = getattr(item, "callspec", None)
        if call is None:  # a test of no case in particular may look at any
            return lambda _: True
        names.update(getattr(v, "name", v) for v in call.params.values() if _is_name(v))
    return names.__contains__


def _is_name(value: object) -> bool:
    return isinstance(getattr(value, "name", value), str)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """A test without the program it needs fails where Bazel runs it: bazelw installs them all."""
    made: Any = yield
    report = made.get_result()
    if report.skipped and "TEST_TMPDIR" in os.environ and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if "not installed" in reason or "apt-get install" in reason:
            report.outcome = "failed"
            report.longrepr = f"{reason}: bazelw should have done that"
