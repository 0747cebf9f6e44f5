"""The checker finds what it is for: one fault of each kind here, 200 by tests/proof/seeded.py."""

from __future__ import annotations

from collections import Counter

from code_faults import CODE_FAULTS
from networks import PROCESSORS, findings
from plan_faults import PLAN_FAULTS
from seeded import trials
from seeds import seed_of_sources

SEED = 1


def test_every_kind_of_fault_is_found() -> None:
    found = list(trials(SEED, len(PLAN_FAULTS) + len(CODE_FAULTS)))
    assert len({trial.kind for trial in found}) == len(PLAN_FAULTS) + len(CODE_FAULTS)
    assert [trial for trial in found if not trial.said] == []


def test_random_networks_are_proven_for_every_processor() -> None:
    """A few of a new seed for each compiler; `python -m tests.proof.networks` tries more."""
    seed = seed_of_sources()
    made: Counter[str] = Counter()
    wrong = list(findings(seed, 0, 12, made))
    assert not wrong, f"MLFTOOL_RANDOM_SEED={seed}\n" + "\n".join(wrong)
    assert made["archives"] > made["networks"] * len(PROCESSORS) // 2
