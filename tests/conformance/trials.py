"""Backend cases as C: what a C compiler and a judge need of each, and nothing of our compiler.

Bazel compiles all cases in one action and judges groups of them in tests of their own, so a change
to the compiler reruns only the groups whose C it changes.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ValueInfoProto

sys.path.append(str(Path(__file__).parents[1] / "support"))

from programs import SANITIZED, Ran, run_programs
from units import Program, headers

from mlftool.ir.values import put_together

BUILD = SANITIZED
BATCH = 64  # cases that become one program


@dataclass(frozen=True)
class Outcome:
    """`status`: pass; refused, an error of the compiler; wrong, other results; crash, all else."""

    name: str
    status: str
    reason: str = ""

    @property
    def line(self) -> str:
        return f"{self.name}: {self.status}: {self.reason}" if self.reason else self.name


@dataclass(frozen=True)
class Trial:
    """A compiled case: `outputs` are ValueInfoProtos as bytes, `wanted` each sample's outputs."""

    name: str
    program: Program = field(repr=False)
    outputs: tuple[bytes, ...] = field(repr=False)
    wanted: tuple[tuple[Any, ...], ...] = field(repr=False)
    rtol: float
    atol: float
    kernels: tuple[tuple[str, str], ...] = ()  # operators, each with one of its kernels

    @property
    def digest(self) -> bytes:
        """Of all that its results depend on, but for the C compiler and headers."""
        p = self.program
        parts = (p.header, p.lib0, p.lib1, p.input_bytes, p.outputs, p.samples)
        return hashlib.sha256(repr(parts).encode()).digest()

    @property
    def headers(self) -> bytes:
        """What its C includes of ours."""
        return b"".join(headers(self.program).values())


def run_trials(trials: Sequence[Trial], work: Path) -> list[Ran]:
    """What the C of each wrote, built and run under sanitizers in folder `work`."""
    return run_programs(list(_sampled(trials)), work, BUILD, threads=1)


def _sampled(trials: Sequence[Trial]) -> Iterator[Program]:
    """All, of which those run optimised, too, that have a kernel which none before has, and every
    fourth by its C: which ones these are changes with what we generate."""
    seen: set[tuple[str, str]] = set()
    for trial in trials:
        new = not seen.issuperset(trial.kernels)
        seen.update(trial.kernels)
        yield replace(trial.program, optimised=new or trial.digest[0] % 4 == 0)


def judge(trial: Trial, ran: Ran) -> Outcome:
    """Whether the outputs are the suite's, by dtype, shape and value at the suite's tolerances."""
    from onnx.backend.test.runner import Runner  # imports pytest, which an action does not have

    if ran.failure:
        return Outcome(trial.name, "crash", one_line(ran.failure))
    infos = [ValueInfoProto.FromString(data) for data in trial.outputs]
    for result, wanted in zip(trial.program.results(ran.output), trial.wanted, strict=True):
        try:
            got = [put_together(info, result) for info in infos]
            Runner.assert_similar_outputs(_flat(wanted), _flat(got), trial.rtol, trial.atol)
        except (AssertionError, AttributeError, TypeError) as error:  # a sequence is no array
            return Outcome(trial.name, "wrong", one_line(str(error)))
    return Outcome(trial.name, "pass")


def _flat(values: Sequence[Any]) -> list[Any]:
    """The values with how many elements a sequence has, and these, in its place: the standard's own
    runner takes an empty list for any, and cannot compare scalars in one."""
    flat: list[Any] = []
    for value in values:
        flat += [np.array(len(value)), *value] if isinstance(value, list) else [value]
    return flat


def one_line(text: str) -> str:
    """The first error in `text`, without what differs between runs."""
    text = re.sub(r"/\S*/|0x[0-9a-f]{6,}|==\d+==", "", text)
    mark = max(text.find("error: "), text.find("ERROR: "), text.find("runtime error: "))
    return " ".join(text[max(0, mark) :].split())[:160]


def save(path: Path, group: Sequence[Trial | Outcome]) -> None:
    """Write a group of cases, compiled or refused, for `load`."""
    path.write_bytes(pickle.dumps(list(group), protocol=4))


def load(path: Path) -> list[Trial | Outcome]:
    """What `save` wrote."""
    found: list[Trial | Outcome] = pickle.loads(path.read_bytes())
    return found


def plain(value: Any) -> Any:
    """`value` as an array that owns its elements, so that what is saved is the same every time."""
    return np.array(value) if isinstance(value, np.ndarray) else value
