"""Tests that hypothesis draws examples for fail for what they say, not for a slow machine or by
chance."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def test_examples_are_those_of_the_last_run() -> None:
    assert settings.default.derandomize == ("MLF_FUZZ" not in os.environ)
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
