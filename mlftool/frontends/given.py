"""Inputs that the user gives a value: from here on they are constants of the model.

A rate, a threshold, a mode: what never changes on one device need not be asked for there, and what
hangs on it, such as the branches of an If, is decided while compiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, numpy_helper

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.ir import dtype
from mlftool.ir.graph import Array

Numbers = Sequence[int | float]


def with_values(
    model: ModelProto, values: Mapping[str, Numbers], shapes: Mapping[str, Sequence[int]], file: str
) -> ModelProto:
    """A copy in which the inputs named in `values` are initialisers: of one number, or of one for
    each element. `shapes` bind open extents. Raises MlfError with every problem found."""
    inputs = {info.name: info for info in model.graph.input}
    tensors: list[TensorProto] = []
    problems: list[Problem] = []
    for name, numbers in values.items():
        try:
            if name not in inputs:
                raise _Misfit("is not an input of the model", did_you_mean(name, list(inputs)))
            array = _array(inputs[name], numbers, shapes.get(name))
            tensors.append(numpy_helper.from_array(array, name))
        except _Misfit as error:
            where = f"input '{name}'"
            problems.append(Problem("MLF0209", error.text, file, path=where, help=error.help))
    if problems:
        raise MlfError(problems)
    copy = ModelProto()
    copy.CopyFrom(model)
    kept = [t for t in copy.graph.initializer if t.name not in values]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend([*kept, *tensors])
    return copy


class _Misfit(Exception):  # noqa: N818
    def __init__(self, text: str, help: str = "") -> None:
        super().__init__(text)
        self.text, self.help = text, help


def _array(info: ValueInfoProto, numbers: Numbers, given: Sequence[int] | None) -> Array:
    tensor = info.type.tensor_type
    row = dtype.BY_ONNX.get(tensor.elem_type) if info.type.HasField("tensor_type") else None
    if row is None or row.kind not in "iufb" or row.name not in _NUMPY:
        raise _Misfit(f"a value is for tensors of {', '.join(_NUMPY)}")
    shape = tuple(given) if given else _shape(info, len(numbers))
    count = int(np.prod(shape, dtype=np.int64))
    if len(numbers) not in (1, count):
        expected = "1" if count == 1 else f"1 or {count}"
        raise _Misfit(f"got {len(numbers)} numbers for shape {list(shape)}, expected {expected}")
    kind = np.dtype(row.name)
    low, high = row.range
    for number in numbers if kind.kind != "f" else ():
        if not isinstance(number, int) or not low <= number <= high:
            whole = f"a whole number from {low} to {high}"
            raise _Misfit(f"got {number}, expected {whole} for {row.name}")
    return np.full(shape, np.array(numbers, kind).reshape(shape if count == len(numbers) else ()))


_NUMPY = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64"),
)


def _shape(info: ValueInfoProto, count: int) -> tuple[int, ...]:
    """The declared shape; a vector's open extent is as many numbers as there are."""
    dims = [d.dim_value if d.HasField("dim_value") else -1 for d in info.type.tensor_type.shape.dim]
    if dims == [-1]:
        return (count,)
    if min(dims, default=0) < 0:
        example = ",".join("1" if d < 0 else str(d) for d in dims)
        raise _Misfit("its shape is not known", f"bind it: --input-shape {info.name}:{example}")
    return tuple(dims)
