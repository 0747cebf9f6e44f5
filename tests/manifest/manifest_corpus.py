"""The corpus of manifests, and how hard it is fuzzed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

# The same examples every run, unless MLF_FUZZ asks for that many random ones.
FUZZ = settings(
    max_examples=int(os.environ.get("MLF_FUZZ", "500")),
    derandomize="MLF_FUZZ" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

Place = Callable[[Path], Path]


def corpus(kind: str) -> list[object]:
    """The manifests below `kind`, as pytest parameters."""
    files = sorted((HERE / kind).rglob("*.yaml"))
    assert files
    return [pytest.param(f, id=f"{f.parent.name}/{f.stem}") for f in files]
