"""Which tests run again after an edit: those of the rooms that read the file, and no other.

Bazel answers for tests/BUILD.bazel (`readers_of_...`): a room is a folder of tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Rooms about the project as a whole.
PROJECT = {"architecture", "bazel", "examples", "manifest", "packaging", "remote", "rules"}
READERS = {
    "a_page": PROJECT,
    "a_rule": PROJECT,
    "a_test": {"architecture", "targets"},
    "a_tool": PROJECT | {"frontends"},
    "another_page": PROJECT | {"api", "compat"},
    "the_changelog": PROJECT,
}


def read_by(name: str) -> set[str]:
    """The rooms whose tests depend on the file of that name in tests/BUILD.bazel."""
    if "TEST_TMPDIR" not in os.environ:
        pytest.skip("Bazel says who reads what")
    labels = (TESTS / f"readers_of_{name}").read_text().split()
    return {label.removeprefix("//tests:") for label in labels}


@pytest.mark.parametrize("name", READERS)
def test_an_edit_runs_the_rooms_that_read_it(name: str) -> None:
    assert read_by(name) == READERS[name]


def test_a_kernel_concerns_all() -> None:
    """All rooms compile something; this is the answer when it is `everybody`."""
    folders = {p.relative_to(TESTS).parts[0] for p in TESTS.glob("*/test_*.py")}
    assert read_by("a_kernel") >= {"ops", "random", "rules", "targets", *folders} - {"rooms"}
