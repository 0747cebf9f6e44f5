"""Models damaged at random: each compiles or is refused in plain lines, soon and in little memory.

MLFTOOL_FUZZ_CASES sets how many (2,000, as far as a minute of processor time goes),
MLFTOOL_FUZZ_SEED where their numbers start; a failure names the seed of each.
`python tests/importer/mutant_trials.py` tries millions, and compares results, too.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest
from mutant_judge import Accepted, difference, disagreements
from mutant_trials import ALL_MENUS, BATCH, mutant, run
from onnx import parser

USUAL = 2000
CASES = int(os.environ.get("MLFTOOL_FUZZ_CASES", str(USUAL)))
SEED = int(os.environ.get("MLFTOOL_FUZZ_SEED", "0"))
SECONDS = 60.0


def test_damaged_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In children, so that a crash, a kill or a memory bomb is a failure and not our end."""
    monkeypatch.setenv("MLF_REPORTS", "")
    lines: list[str] = []
    start, tried = _used(), 0
    while tried < CASES and (CASES > USUAL or _used() - start < SECONDS):
        first, count = SEED + tried, min(BATCH, CASES - tried)
        lines += run(range(first, first + count), tmp_path, suite=False, oracle=False)
        tried += count
    print(f"seeds {SEED} to {SEED + tried - 1} in {_used() - start:.0f} s of processor time")
    assert not [line for line in lines if not line.startswith("compiled")]
    assert len(lines) > tried // 10, "next to none of the mutants is still a model"


@pytest.mark.parametrize(
    ("menu", "count", "oracle"),
    [("swapped", 60, False), ("dented", 60, False), ("woven", 24, True)],
)
def test_neighbours(
    menu: str, count: int, oracle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the fourth generator a few seconds; what is woven also runs, beside onnxruntime."""
    monkeypatch.setenv("MLF_REPORTS", "")
    start, count = _used(), count * CASES // USUAL
    lines = [*run(range(SEED, SEED + count), tmp_path, suite=False, oracle=oracle, menu=menu)]
    print(f"{menu} {SEED} to {SEED + count - 1} in {_used() - start:.0f} s of processor time")
    words = [line.partition(" ")[0] for line in lines]
    assert {*words} <= {"compiled", "agreed", "refused_by_ort"}, lines
    assert words.count("agreed" if oracle else "compiled") > count // 5, lines


@pytest.mark.parametrize(("menu", "count"), [("flat", 60), ("archived", 20)])
def test_containers(menu: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """.tflite files and archives: read or refused in plain lines, and readers agree."""
    monkeypatch.setenv("MLF_REPORTS", "")
    count = count * CASES // USUAL
    lines = [*run(range(SEED, SEED + count), tmp_path, suite=False, oracle=False, menu=menu)]
    assert {line.partition(" ")[0] for line in lines} <= {"compiled"}, lines


def test_a_mutant_is_the_same_again() -> None:
    for menu in ALL_MENUS:
        one, again, other = (mutant(number, menu=menu) for number in (5, 5, 6))
        assert one == again != other


HEAD = '<ir_version: 9, opset_import: ["": 18]>\n'
JUDGED = (
    """g (bool b, float[2,3] x) => (optional(seq(float[2,3])) s) {
      s = If (b) <then_branch = t () => (optional(seq(float[2,3])) p)
        { one = SequenceConstruct (x, x) p = Optional (one) }, else_branch =
        e () => (optional(seq(float[2,3])) q) { two = SequenceConstruct (x) q = Optional (two) }>
    }""",
    """g (float[3,2,4] x, int64[1] a) => (float[3,2] y, float[3,2] z)
      { y = ReduceMax <keepdims=0> (x, a) z = Neg (y) }""",
)


def test_judge_of_sequences_and_of_broken_declarations(tmp_path: Path) -> None:
    """Sequences are compared by length and element; where values break declared shapes, nothing."""
    models = [parser.parse_model(HEAD + text).SerializeToString() for text in JUDGED]
    accepted = [Accepted(k, model) for k, model in enumerate(models)]
    lines = [*disagreements(accepted, tmp_path, lambda _: None)]
    assert lines == ["agreed 0", "agreed 1"]


def test_judge_tells_differences() -> None:
    ours = {"y": np.ones((2, 3), np.float32), "s: length": np.array(1)}
    declared = {"y": (2, 3)}
    assert not difference([ours], [ours], declared, 1e-3)
    for key, other in (
        ("y", np.full((2, 3), 1.1, np.float32)),
        ("y", np.ones((3, 2), np.float64)),
        ("s: length", np.array(2)),
        ("s[0]", np.ones(3)),
    ):
        known = {} if other.shape == (3, 2) else declared
        assert difference([ours], [{**ours, key: other}], known, 1e-3), key


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
