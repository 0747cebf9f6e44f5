"""costs.txt, the code bytes of each operator, is what the compiler makes now."""

from __future__ import annotations

import shutil

import pytest

from tests.conformance.costs import COMPILE, committed, measured


@pytest.mark.skipif(
    shutil.which(COMPILE[0]) is None,
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi",
)
def test_costs_are_current() -> None:
    now, then = measured(), committed()
    assert now.keys() == then.keys(), "python -m tests.conformance.costs --update"
    # Room for another release of the C compiler, and for changes that nobody would notice.
    off = {n: (then[n], now[n]) for n in now if abs(now[n] - then[n]) > max(32, then[n] // 10)}
    assert not off, f"(written, now): {off}; python -m tests.conformance.costs --update"
