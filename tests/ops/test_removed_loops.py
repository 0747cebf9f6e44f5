"""Loops that run once, written and left out: both compute the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import Net
from programs import Build, run_programs

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.ir import holes, loops
from mlftool.targets import TARGETS
from tests.conformance.compiling import compile_case
from tests.conformance.suite import load_suite
from tests.conformance.trials import Trial

APART = 60  # of so many cases of the standard's suite one is compiled


def test_programs_with_all_their_loops_compute_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(holes._settled.cache_clear)
    cases = load_suite()[::APART]
    short = [compile_case(c) for c in cases]
    monkeypatch.setattr(loops, "_once", lambda bound, step: False)
    holes._settled.cache_clear()  # of texts without them
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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_windows_of_one_row_name_no_step(kind: type, target: str) -> None:
    """A window declares the step to its next row where it has one."""
    net = Net()
    x, w = net.input("x", np.float32, (1, 3, 6, 7)), np.ones((5, 3, 1, 3), kind)
    if kind is np.int8:
        scale, zero = np.float32(0.5), np.int8(0)
        x, weights = net.dq(net.q(x, scale, zero), scale, zero), net.dq(net.const(w), scale, zero)
    else:
        weights = net.const(w)
    y = net.node("Conv", x, weights, pads=[0, 1, 0, 1])
    model = net.model(net.q(y, scale, zero) if kind is np.int8 else y)
    files = compile_modules([ModuleSpec(model, "m", target=target)]).files
    assert b"step0" not in b"".join(data for path, data in files.items() if path.endswith("lib1.c"))
