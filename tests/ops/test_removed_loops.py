"""Loops that run once, written and left out: both compute the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import Build, run_programs

from mlftool.ir import loops
from tests.conformance.compiling import compile_case
from tests.conformance.suite import load_suite
from tests.conformance.trials import Trial

APART = 60  # of so many cases of the standard's suite one is compiled


def test_programs_with_all_their_loops_compute_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = load_suite()[::APART]
    short = [compile_case(c) for c in cases]
    monkeypatch.setattr(loops, "_once", lambda bound, step: False)
    both = zip(short, map(compile_case, cases), strict=True)
    trials = [(a, b) for a, b in both if isinstance(a, Trial) and isinstance(b, Trial)]
    pairs = [(a.program, b.program) for a, b in trials if a.program != b.program]
    assert len(pairs) >= len(cases) // 10
    build = Build()
    folders = [tmp_path / "short", tmp_path / "long"]
    for folder in folders:
        folder.mkdir()
    found = [run_programs([p[k] for p in pairs], f, build) for k, f in enumerate(folders)]
    assert all(ran.output and not ran.failure for ran in found[0])
    assert [ran.output for ran in found[0]] == [ran.output for ran in found[1]]
