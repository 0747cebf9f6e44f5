"""What equalisation did to tensors, as the quantised model's metadata have it.

    mlftool.channel_factors   {"relu_out": {"axis": 1, "times": [0.5, 2.0]}}

Times its channels' factors, a tensor is the float model's again: commands that compare both need
that, and what computes the model does not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
from onnx import ModelProto

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.ir.graph import Array

KEY = "mlftool.channel_factors"


@frozen
class Factors:
    """What a tensor's elements are times, to be the float model's: one of `times` for each channel
    along `axis`."""

    axis: int
    times: tuple[float, ...]

    def undone(self, values: Array, shape: tuple[int, ...]) -> Array:
        """`values` of a tensor of `shape` as the float model has them."""
        spread = [-1 if k == self.axis else 1 for k in range(len(shape))]
        made: Array = values.reshape(shape) * np.asarray(self.times).reshape(spread)
        return made


def note(model: ModelProto, factors: Mapping[str, Factors]) -> None:
    """Writes them into the model's metadata; of no factors nothing."""
    if factors:
        data = {name: {"axis": f.axis, "times": list(f.times)} for name, f in factors.items()}
        text = json.dumps(data, separators=(",", ":"), sort_keys=True)
        model.metadata_props.add(key=KEY, value=text)


def noted(
    model: ModelProto, shapes: Mapping[str, tuple[int, ...]], file: str
) -> dict[str, Factors]:
    """What a model's metadata say of the tensors that have these `shapes`. Raises MlfError if that
    is not what `note` writes."""
    for entry in model.metadata_props:
        if entry.key == KEY:
            try:
                every = json.loads(entry.value).items()
                return {n: _read(found, shapes[n]) for n, found in every if n in shapes}
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
                text = f"metadata '{KEY}' are not those that mlftool quantize writes"
                hint = "quantise the model again, or delete them"
                raise MlfError(Problem("MLF0202", text, file, help=hint)) from None
    return {}


def _read(found: Mapping[str, object], shape: tuple[int, ...]) -> Factors:
    """Of a tensor of `shape`. Raises ValueError and others."""
    axis, times = found["axis"], found["times"]
    if type(axis) is not int or not isinstance(times, list) or not 0 <= axis < len(shape):
        raise ValueError(found)
    if len(times) != shape[axis] or not all(_is_factor(t) for t in times):
        raise ValueError(times)
    return Factors(axis, tuple(times))


def _is_factor(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value > 0
