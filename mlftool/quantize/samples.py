"""Calibration data: samples of a model's inputs, with labels or expected outputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array
from mlftool.runtime.vectors import LABELS, ROWS, check_labels, is_batch, missing, remedy


@frozen
class Samples:
    """`inputs` and `expected` outputs are [samples, *tensor's shape]; `labels` int64 [samples]."""

    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    labels: Array | None

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def part(self, most: int) -> Samples:
        """At most so many of them, spread evenly."""
        return self if len(self) <= most else self.taken(np.arange(most) * len(self) // most)

    def parted(self, most: int) -> tuple[Samples, Samples]:
        """What calibrates, at most so many and three quarters, and what judges it: the others,
        which calibration has not seen. Both have something of each label. Fewer than 4 do both."""
        count = min(most, len(self) - len(self) // 4)
        if count == len(self):
            return self, self
        order = (
            np.arange(len(self)) if self.labels is None else np.argsort(self.labels, kind="stable")
        )
        seen = np.zeros(len(self), bool)
        seen[order[np.arange(count) * len(self) // count]] = True
        return self.taken(np.flatnonzero(seen)), self.taken(np.flatnonzero(~seen))

    def taken(self, chosen: Array) -> Samples:
        """Those at the places `chosen`."""
        return replace(
            self,
            inputs={n: a[chosen] for n, a in self.inputs.items()},
            expected={n: a[chosen] for n, a in self.expected.items()},
            labels=None if self.labels is None else self.labels[chosen],
        )


def samples_of(arrays: Mapping[str, Array], model: ModelProto, file: str) -> Samples:
    """The arrays of a file as samples of the model, whose shapes are static. Raises MlfError with
    every problem."""
    stored = {t.name for t in model.graph.initializer}
    problems: list[Problem] = []
    inputs: dict[str, Array] = {}
    for info in (i for i in model.graph.input if i.name not in stored):
        if info.name not in arrays:
            text = f"no array for input '{info.name}'"
            problems.append(Problem("MLF0601", text, file, help=missing(info.name, arrays)))
            continue
        try:
            inputs[info.name] = _shaped(arrays[info.name], info)
        except _MisfitError as error:
            problems.append(error.problem(file, info.name))
    if problems:
        raise MlfError(problems)
    counts = {name: len(a) for name, a in inputs.items()}
    expected = {o.name: _shaped(arrays[o.name], o) for o in _given(arrays, model, file)}
    counts |= {name: len(a) for name, a in expected.items()}
    if len(set(counts.values())) != 1:
        text = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        text = f"the arrays hold different numbers of samples: {text}"
        raise MlfError(Problem("MLF0603", text, file, help=ROWS))
    labels = arrays.get(LABELS) if LABELS not in counts else None
    if labels is not None:
        check_labels(labels, next(iter(counts.values())), file)
        labels = labels.astype(np.int64)
    return Samples(inputs, expected, labels)


def _given(arrays: Mapping[str, Array], model: ModelProto, file: str) -> list[ValueInfoProto]:
    """The outputs whose expected values are in the file."""
    found, problems = [], []
    for info in model.graph.output:
        if info.name in arrays:
            try:
                _shaped(arrays[info.name], info)
                found.append(info)
            except _MisfitError as error:
                problems.append(error.problem(file, info.name))
    if problems:
        raise MlfError(problems)
    return found


class _MisfitError(Exception):
    """What is wrong with an array, its code, and the remedy."""

    def __init__(self, code: str, text: str, remedy: str) -> None:
        super().__init__(text)
        self.code, self.remedy = code, remedy

    def problem(self, file: str, name: str) -> Problem:
        """Of the array `name` in a file."""
        return Problem(self.code, str(self), file, path=name, help=self.remedy)


def _shaped(array: Array, info: ValueInfoProto) -> Array:
    """[samples, *the tensor's shape]. Raises _MisfitError."""
    tensor = info.type.tensor_type
    wanted = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    shape = tuple(d.dim_value for d in tensor.shape.dim)
    if array.dtype != wanted:
        text = f"wrong type; got {array.dtype}, expected {wanted}"
        raise _MisfitError("MLF0602", text, remedy(array, wanted, shape))
    if not array.size:
        text = f"no sample; got {list(array.shape)}"
        raise _MisfitError("MLF0617", text, "save some, as the model gets them in use")
    forms = {shape: (1, *shape), (len(array) if array.ndim else 0, *shape): array.shape}
    if is_batch(array, shape):
        forms[array.shape] = (len(array), *shape)
    if array.shape not in forms:
        expected = f"{list(shape)} or {['samples', *shape]}".replace("'", "")
        text = f"wrong shape; got {list(array.shape)}, expected {expected}"
        raise _MisfitError("MLF0602", text, remedy(array, wanted, shape))
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array.reshape(-1)))[0])
        value = array.reshape(-1)[bad]
        where = [int(k) for k in np.unravel_index(bad, array.shape)]
        text = f"not finite; got {value} at {where}, expected numbers"
        raise _MisfitError("MLF0617", text, "leave such samples out, or correct them")
    return np.ascontiguousarray(array.reshape(forms[array.shape]))
