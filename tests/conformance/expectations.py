"""Which backend cases are known not to pass, and why."""

from __future__ import annotations

import functools
from pathlib import Path

EXPECTED = Path(__file__).with_name("expected.txt")
HEAD = """\
# Backend cases that do not pass, and why: `python -m tests.conformance.run --update` writes this.
# A case that is not listed passes. The test fails when a listed case passes, or another does not.
"""


@functools.cache
def expectations() -> dict[str, str]:
    """Case -> its line in expected.txt, for cases that are expected not to pass."""
    lines = [line for line in EXPECTED.read_text().splitlines() if not line.startswith("#")]
    return {line.split(":")[0]: line for line in lines}


def met(name: str, status: str) -> bool:
    """Whether `status` is what is expected of a case."""
    line = expectations().get(name)
    return status == ("pass" if line is None else line.split(": ")[1])


def write(lines: dict[str, str]) -> None:
    """Make `lines` what is expected from now on."""
    EXPECTED.write_text(HEAD + "".join(f"{lines[n]}\n" for n in sorted(lines)))
    expectations.cache_clear()
