"""Models damaged at random: each compiles or is refused in plain lines, soon and in little memory.

MLFTOOL_FUZZ_CASES sets how many (1,000, as far as half a minute of processor time goes),
MLFTOOL_FUZZ_SEED where their numbers start; a failure names the seed of each.
`python tests/importer/mutant_trials.py` tries millions, and compares results, too.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from mutant_trials import BATCH, run

CASES = int(os.environ.get("MLFTOOL_FUZZ_CASES", "1000"))
SEED = int(os.environ.get("MLFTOOL_FUZZ_SEED", "0"))
SECONDS = 30.0


def test_damaged_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In children, so that a crash, a kill or a memory bomb is a failure and not our end."""
    monkeypatch.setenv("MLF_REPORTS", "")
    lines: list[str] = []
    start, tried = _used(), 0
    while tried < CASES and (CASES > 1000 or _used() - start < SECONDS):
        first, count = SEED + tried, min(BATCH, CASES - tried)
        lines += run(range(first, first + count), tmp_path, suite=False, oracle=False)
        tried += count
    print(f"seeds {SEED} to {SEED + tried - 1} in {_used() - start:.0f} s of processor time")
    assert not [line for line in lines if not line.startswith("compiled")]
    assert len(lines) > tried // 10, "next to none of the mutants is still a model"


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
