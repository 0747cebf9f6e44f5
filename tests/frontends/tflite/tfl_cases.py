"""Operators in many types and forms, several of which are one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tfl_writer import Op, Sub, T, model

Rng = np.random.Generator
Family = Callable[[Rng], Iterator["Case"]]
FAMILIES: dict[str, Family] = {}
FUSED = range(4)  # NONE, RELU, RELU_N1_TO_1, RELU6


@dataclass(frozen=True)
class Case:
    """An operator with tensors of its own; those without data, but for variables, are inputs.
    `feed` has what inputs hold that must not be random."""

    kind: str
    inputs: Sequence[T | None]
    outputs: Sequence[T]
    table: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    custom: bytes = b""
    feed: Mapping[int, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        ins = ", ".join(f"{t.type}{list(t.shape)}" if t else "-" for t in self.inputs)
        outs = ", ".join(f"{t.type}{list(t.shape)}" for t in self.outputs)
        return f"{self.kind}({ins}) -> {outs} {dict(self.options)}"


def family(function: Family) -> Family:
    """Register cases by the function's name."""
    FAMILIES[function.__name__] = function
    return function


def merged(cases: Sequence[Case]) -> bytes:
    """One model of operators that share nothing."""
    tensors: list[T] = []
    ops: list[Op] = []
    given: list[int] = []
    made: list[int] = []
    for k, case in enumerate(cases):
        places = []
        for i, t in enumerate(case.inputs):
            if t is None:
                places.append(-1)
                continue
            places.append(len(tensors))
            if t.data is None and not t.variable:
                given.append(len(tensors))
            tensors.append(named(t, f"x{k}_{i}"))
        outs = []
        for i, t in enumerate(case.outputs):
            outs.append(len(tensors))
            tensors.append(named(t, f"y{k}_{i}"))
        made += outs
        ops.append(Op(case.kind, places, outs, case.table, case.options, case.custom))
    return model(Sub(tensors, ops, given, made))


def named(t: T, name: str) -> T:
    return T(name, t.shape, t.type, t.scale, t.zero, t.axis, t.data, t.variable, t.bytes)


def feeds(rng: Rng, cases: Sequence[Case]) -> list[np.ndarray]:
    """What the inputs of `merged` hold, in their order."""
    return [
        np.array(case.feed[i], t.type) if i in case.feed else noise(rng, t)
        for case in cases
        for i, t in enumerate(case.inputs)
        if t is not None and t.data is None and not t.variable
    ]


def noise(rng: Rng, t: T) -> np.ndarray:
    """Any numbers of the type, its ends among them."""
    if t.type == "float32":
        return rng.normal(0, 3, t.shape).astype(np.float32)
    if t.type == "bool":
        return rng.integers(0, 2, t.shape).astype(bool)
    ends = np.iinfo(t.type)
    low, high = max(ends.min, -(2**31)), min(ends.max, 2**32 - 1)
    x = rng.integers(low, high, t.shape, endpoint=True).astype(t.type)
    if x.size > 3:
        x.reshape(-1)[:3] = low, high, 0
    return x


def q(rng: Rng, shape: Sequence[int], row: str, **more: Any) -> T:
    """A tensor with a scale, if it is of int8, int16 or uint8."""
    if row not in ("int8", "int16", "uint8"):
        return T("", shape, row, **more)
    zero = {"int8": rng.integers(-40, 40), "int16": 0, "uint8": rng.integers(90, 160)}[row]
    return T(
        "", shape, row, **{"scale": float(rng.uniform(0.004, 0.09)), "zero": int(zero), **more}
    )


def like(t: T, shape: Sequence[int], **more: Any) -> T:
    """Another tensor with the same type and scale."""
    parts = {"type": t.type, "scale": t.scale, "zero": t.zero, **more}
    return T("", shape, **parts)


def ints(values: Any, row: str = "int32") -> T:
    data = np.array(values, row)
    return T("", data.shape, row, data=data)


def flex(**values: Any) -> bytes:
    """Options of a custom operator."""
    from flatbuffers import flexbuffers

    return bytes(flexbuffers.Dumps(values))
