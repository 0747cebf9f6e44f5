"""--trials is a group of compiled cases: Bazel compiles them in an action of its own."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--trials", type=Path, help="compiled cases, written by compiling.py")
