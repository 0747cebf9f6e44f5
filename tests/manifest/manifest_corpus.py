"""The corpus of manifests, and how hard it is fuzzed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

# As many as MLF_FUZZ says.
FUZZ = settings(
    max_examples=int(os.environ.get("MLF_FUZZ", "500")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

Place = Callable[[Path], Path]


def corpus(kind: str) -> list[object]:
    """The manifests below `kind`, as pytest parameters."""
    files = sorted((HERE / kind).rglob("*.yaml"))
    assert files
    return [pytest.param(f, id=f"{f.parent.name}/{f.stem}") for f in files]
