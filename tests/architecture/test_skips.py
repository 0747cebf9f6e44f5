"""No test of `./bazelw test //...` is left out because a program is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from shared import HARNESS, REPO

SKIPS = """import pytest

def test_called():
    pytest.skip("prog is not installed")

@pytest.mark.skipif(True, reason="apt-get install prog")
def test_marked():
    pass

def test_for_another_reason():
    pytest.skip("one is for another core")
"""


@pytest.mark.parametrize(
    ("variables", "said"),
    [({"TEST_TMPDIR": "/tmp"}, "1 failed, 1 skipped, 1 error"), ({}, "3 skipped")],
    ids=["bazel", "alone"],
)
def test_a_missing_program(variables: dict[str, str], said: str, tmp_path: Path) -> None:
    for file in HARNESS:
        shutil.copy(REPO / "tests" / file, tmp_path)
    (tmp_path / "test_it.py").write_text(SKIPS)
    kept = {k: v for k, v in os.environ.items() if k != "TEST_TMPDIR" and "PYTEST" not in k}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path, env={**kept, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said in run.stdout, run.stdout
