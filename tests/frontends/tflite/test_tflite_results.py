"""Results that contradict their operators: whatever shape or type a file gives to an output, what
is taken makes exactly that. Other bytes in such a place crashed compiled models or were silently
other numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from tfl_cases import FAMILIES, Case, merged
from tfl_writer import T

from mlftool.errors import MlfError
from mlftool.frontends.models import TFLite, imported
from mlftool.frontends.tflite.agreement import misshapen
from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType

for _name in ("elements", "moves", "states", "sums"):
    import_module(f"tfl_case_{_name}")  # registers its families
TYPES = ("float32", "int8", "int16", "int32", "int64", "bool", "uint8", "int4")
# What an output's type or shape decides; others may only add axes of 1.
ANY_TYPE = {"CAST", "QUANTIZE", "SHAPE"}
ANY_SHAPE = {"BROADCAST_TO", "CIRCULAR_BUFFER"}


def taken(case: Case) -> bool:
    try:
        imported(TFLite(merged([case])), "m")
    except MlfError:
        return False
    return True


def plain(family: str) -> Iterator[Case]:
    """The first case of each operator and type that is taken."""
    seen: set[tuple[str, str]] = set()
    for case in FAMILIES[family](np.random.default_rng(0)):
        first = next((t.type for t in case.inputs if t), "")
        if (case.kind, first) not in seen and taken(case):
            seen.add((case.kind, first))
            yield case


def changed(y: T) -> Iterator[T]:
    for axis in {0, len(y.shape) - 1} if y.shape else ():
        yield replace(y, shape=tuple(2 * n if k == axis else n for k, n in enumerate(y.shape)))
    for row in TYPES:
        if row != y.type:
            yield replace(y, type=row)


@pytest.mark.parametrize("family", FAMILIES)
def test_another_result_is_refused(family: str) -> None:
    wrong = []
    for case in plain(family):
        for y in changed(case.outputs[0]):
            free = case.kind in (ANY_TYPE if y.type != case.outputs[0].type else ANY_SHAPE)
            if not free and taken(replace(case, outputs=[y, *case.outputs[1:]])):
                wrong.append(f"{case} made {y.type}{list(y.shape)}")
    assert not wrong


def test_the_guard_by_itself() -> None:
    """What the rules would let through: a convolution whose output has another batch, and an
    addition that leaves a row."""
    row = {"x": (2, 1, 4, 4), "w": (3, 1, 1, 1), "y": (1, 3, 4, 4), "z": (4, 4), "s": (2, 4, 4)}
    types = {name: TensorType(dtype.float32, shape) for name, shape in row.items()}
    conv, add = Node("Conv", ("x", "w"), ("y",)), Node("Add", ("z", "z"), ("s",))
    assert (
        misshapen([conv], types, {}) == "float32[1x3x4x4], which would have the shape [2, 3, 4, 4]"
    )
    assert misshapen([add], types, {}) == "float32[2x4x4], which would have the shape [4, 4]"
    assert not misshapen([Node("Add", ("z", "s"), ("s",))], types, {})
