"""Operators in many types and forms against TensorFlow Lite Micro's interpreter.

cases.json has, of each family in tfl_cases.py, which cases both take, as the bits of a number, and
a hash of the integers that the interpreter gave in three calls; where it is installed it is asked
again, floats are compared, too, and `--update-golden` records what it says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_tflite_oracle import INSTALLED, digest, update
from tfl_cases import FAMILIES, Case, feeds, merged

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.frontends.models import TFLite, imported
from mlftool.runtime.host import load_host

__all__ = ["update"]  # the fixture
for _name in ("elements", "moves", "states", "sums"):
    import_module(f"tfl_case_{_name}")  # registers its families
FILE = Path(__file__).parent / "cases.json"
RECORDED: dict[str, Any] = json.loads(FILE.read_text())
CALLS, TOGETHER = 3, 64  # cases of one module
Calls = list[list[np.ndarray]]  # outputs of each call


def sets(cases: Sequence[Case]) -> Calls:
    """What the inputs hold in each call: the same for a case, whatever is beside it."""
    seeds = range(CALLS)
    return [[x for c in cases for x in feeds(np.random.default_rng(k), [c])] for k in seeds]


def ours(cases: Sequence[Case]) -> Calls:
    """Not optimised: gcc takes four times as long to optimise the C, which runs three times."""
    data = merged(cases)
    run = load_host(compile_modules([ModuleSpec(TFLite(data), "m")]), optimise="-O0")
    state = {s.input: s.start for s in imported(TFLite(data), "m")[0].states}
    made = []
    for given in sets(cases):
        names = [t.name for t in run.interface.inputs][: len(given)]
        found = run({**dict(zip(names, given, strict=True)), **state})
        arrays = [np.asarray(v) for v in found.values()]
        count = len(arrays) - len(state)
        state = dict(zip(state, arrays[count:], strict=True))
        made.append(arrays[:count])
    return made


def theirs(case: Case, given: Calls) -> Calls | None:
    """None for what their interpreter refuses."""
    from tflite_micro import runtime

    try:
        interpreter = runtime.Interpreter.from_bytes(merged([case]), arena_size=1 << 20)
        found = []
        for inputs in given:
            for k, x in enumerate(inputs):
                interpreter.set_input(x, k)
            interpreter.invoke()
            outputs = range(len(case.outputs))
            found.append([np.array(interpreter.get_output(k)) for k in outputs])
    except (RuntimeError, ValueError):
        return None
    return found


def takes(case: Case) -> bool:
    try:
        imported(TFLite(merged([case])), "m")
    except MlfError:
        return False
    return True


def compared(cases: Sequence[Case]) -> tuple[int, str]:
    """The cases that both take, and a hash of the integers that ours gives; raises AssertionError
    where theirs gives others."""
    both, hashes = 0, []
    taken = [k for k, case in enumerate(cases) if takes(case)]
    if INSTALLED:
        given = {k: sets([cases[k]]) for k in taken}
        wanted = {k: theirs(cases[k], given[k]) for k in taken}
        taken = [k for k in taken if wanted[k] is not None]
    both = sum(1 << k for k in taken)
    for first in range(0, len(taken), TOGETHER):
        part = taken[first : first + TOGETHER]
        for call, arrays in enumerate(ours([cases[k] for k in part])):
            rest = iter(arrays)
            for k in part:
                for i, t in enumerate(cases[k].outputs):
                    got = next(rest)
                    if INSTALLED:
                        check(got, wanted[k][call][i], f"call {call}: {cases[k]}")
                    hashes.append(got.tobytes() if t.type != "float32" else b"")
    return both, digest(*hashes)


def check(got: np.ndarray, want: np.ndarray, what: str) -> None:
    want = want.reshape(got.shape)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, what)
        return
    size = np.abs(want[np.isfinite(want)]).max(initial=0)
    np.testing.assert_allclose(got, want, 0, 1e-5 * size, err_msg=what)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_form_of_an_operator(name: str, update: bool) -> None:
    cases = list(FAMILIES[name](np.random.default_rng(7)))
    if not INSTALLED:  # what both took then
        cases = [c for k, c in enumerate(cases) if int(RECORDED[name]["both"], 16) >> k & 1]
    both, hashed = compared(cases)
    if update:
        RECORDED[name] = {"both": f"{both:x}", "digest": hashed}
        FILE.write_text(json.dumps(RECORDED, indent=1, sort_keys=True) + "\n")
    if INSTALLED:
        assert f"{both:x}" == RECORDED[name]["both"]
    else:
        assert both == (1 << len(cases)) - 1
    assert hashed == RECORDED[name]["digest"]
