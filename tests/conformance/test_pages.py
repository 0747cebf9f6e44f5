"""expected.txt and docs/operators.md say what is so, and every case has something to compare."""

from __future__ import annotations

import subprocess
import sys

from tests.conformance.compiling import grouped
from tests.conformance.expectations import expectations
from tests.conformance.run import ROOT
from tests.conformance.suite import SuiteCase, load_suite, restored, stored


def test_expectations_are_about_cases_that_exist() -> None:
    assert expectations().keys() <= {c.name for c in load_suite()}


def test_the_page_about_operators_is_current() -> None:
    command = [sys.executable, ROOT / "tools" / "operators_doc.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0)


def _has_data(case: SuiteCase) -> bool:
    return len(case.data_sets) > 0 and all(outputs for _, outputs in case.data_sets)


def test_cases_are_kept_for_processes_that_import_this_file_by_another_name() -> None:
    """tests/importer imports `suite`; what it kept, others could not read."""
    case = load_suite()[0]
    data = stored([case])
    assert SuiteCase.__module__.encode() not in data
    (again,) = restored(data)
    assert (again.name, again.kind, again.model) == (case.name, case.kind, case.model)


def test_every_case_compares_something() -> None:
    assert not [c.name for c in load_suite() if not _has_data(c)]


def test_groups_hold_every_case_once() -> None:
    groups = grouped(load_suite(), 16)
    assert sorted(c.name for g in groups for c in g) == [c.name for c in load_suite()]
    assert max(map(len, groups)) < 2 * min(map(len, groups))
