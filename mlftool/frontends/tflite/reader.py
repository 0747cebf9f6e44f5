"""Bytes -> Model, behind bounds checks of our own: the `tflite` package has no verifier.

Its accessors follow whatever offset the file has. An offset beyond the file raises an exception of
Python, and every one becomes our error here. Lengths are compared with the bytes that are there
before anything is done that often, and what is read in all with the file's size, so that lists that
overlap cannot make a small file a long task. What the values mean is checked by those who use them.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from mlftool.errors import ENVIRONMENT, MlfError, Problem
from mlftool.frontends.tflite.model import (
    DOWNLOAD,
    NO_MARK,
    NO_MODEL,
    Model,
    Operator,
    Option,
    Quantised,
    Subgraph,
    Tensor,
    is_tflite,
)
from mlftool.ir import dtype
from mlftool.ir.dtype import DType
from mlftool.ir.graph import Array, TensorType

VERSION = 3
CUSTOM = 32  # the operator code that says: see the name
MOST_AXES = 8
MOST_ELEMENTS = 2**31 - 1
TYPES: dict[int, DType] = {
    0: dtype.float32,
    1: dtype.float16,
    2: dtype.int32,
    3: dtype.uint8,
    4: dtype.int64,
    6: dtype.bool_,
    7: dtype.int16,
    8: dtype.float32,  # COMPLEX64: two of them
    9: dtype.int8,
    10: dtype.float64,
    12: dtype.uint64,
    15: dtype.uint32,
    16: dtype.uint16,
    17: dtype.int8,  # INT4: as int8 once it is unpacked
}
COMPLEX64, INT4, RESOURCE = 8, 17, 13
EXTERNAL = 24  # where a tensor's table has `external_buffer`, which the package does not know
SHARED = {"Pool2DOptions": r"\w+_POOL_2D", "ReducerOptions": r"MEAN|SUM|REDUCE_\w+"}
BUILTIN_CODE = 10  # where an operator code's table has `builtin_code`
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# What the package's accessors, and ours, raise for a file whose offsets or numbers are wrong.
BROKEN = (struct.error, TypeError, ValueError, IndexError, OverflowError, AttributeError)


class MalformedError(Exception):
    """The file is no model; the text says what is wrong with it."""


def schema() -> Any:
    """The package that knows the format's tables. Raises MlfError where it is not installed."""
    try:
        import tflite
    except ImportError:
        help = "pip install 'mlftool[tflite]', or: pip install tflite flatbuffers"
        text = "reading TensorFlow Lite models needs the Python package 'tflite'"
        raise MlfError(Problem("MLF0700", text, help=help), ENVIRONMENT) from None
    return tflite


def read(data: bytes, file: str) -> Model:
    """The model. Raises MlfError for other bytes."""
    tables = schema()
    try:
        return _Reader(data, tables).model()
    except MalformedError as error:
        text = str(error)
    except BROKEN:
        text = "an offset points outside the file"
    raise MlfError(Problem("MLF0202", NO_MODEL + text, file, help=DOWNLOAD)) from None


class _Reader:
    """One file. `left` is how many elements of lists may still be read."""

    def __init__(self, data: bytes, tables: Any) -> None:
        self.data, self.tables = data, tables
        self.left = 4 * len(data) + 1024

    def count(self, length: int, what: str) -> int:
        """A length that the file may have."""
        if not 0 <= length <= len(self.data) or length > self.left:
            raise MalformedError(f"{length} {what} in a file of {len(self.data)} bytes")
        self.left -= length
        return length

    def each(self, table: Any, field: str, what: str) -> Iterator[Any]:
        """The elements of a table's list."""
        get = getattr(table, field)
        for k in range(self.count(getattr(table, f"{field}Length")(), what)):
            element = get(k)
            if element is None:
                raise MalformedError(f"an empty list of {what}")
            yield element

    def numbers(self, table: Any, field: str, what: str) -> list[Any]:
        return list(self.each(table, field, what))

    def array(self, table: Any, field: str, what: str, kind: Any) -> Array:
        """The same at once, for lists of many numbers."""
        n = self.count(getattr(table, f"{field}Length")(), what)
        values = getattr(table, f"{field}AsNumpy")() if n else ()
        found = np.array(values, kind).reshape(-1)
        if found.size != n:
            raise MalformedError(f"{found.size} {what} where {n} are announced")
        return found

    def model(self) -> Model:
        if len(self.data) < 16 or not is_tflite(self.data):
            raise MalformedError(NO_MARK)
        root = self.tables.Model.GetRootAs(self.data, 0)
        if root.Version() != VERSION:
            raise MalformedError(f"version {root.Version()} of the format; expected {VERSION}")
        kinds = [self.kind(code) for code in self.each(root, "OperatorCodes", "operator codes")]
        buffers = list(self.each(root, "Buffers", "buffers"))
        subgraphs = tuple(
            self.subgraph(graph, kinds, buffers)
            for graph in self.each(root, "Subgraphs", "subgraphs")
        )
        if not subgraphs:
            raise MalformedError("it has no subgraph")
        arena = self.arena(root, buffers, len(subgraphs[0].tensors))
        subgraphs = (replace(subgraphs[0], arena=arena), *subgraphs[1:])
        return Model(subgraphs, self.names(root, len(subgraphs[0].tensors)))

    def arena(self, root: Any, buffers: list[Any], tensors: int) -> tuple[int, ...]:
        """Of the first subgraph's tensors: a version, a subgraph, how many tensors, and of each its
        offset, or -1. Nothing for a model without other compilers' work."""
        for entry in self.each(root, "Metadata", "metadata"):
            if entry.Name() != b"OfflineMemoryAllocation":
                continue
            k = entry.Buffer()
            if not 0 <= k < len(buffers):
                raise MalformedError(f"metadata in buffer {k} of {len(buffers)}")
            raw = self.array(buffers[k], "Data", "bytes of metadata", np.uint8).tobytes()
            numbers = struct.unpack(f"<{len(raw) // 4}i", raw[: len(raw) // 4 * 4])
            if len(numbers) < 3 or numbers[2] != len(numbers) - 3:
                raise MalformedError("an OfflineMemoryAllocation of the wrong size")
            return numbers[3:] if numbers[2] == tensors else ()
        return ()

    def kind(self, code: Any) -> str:
        number = max(code.DeprecatedBuiltinCode(), _builtin_code(code))
        if number == CUSTOM:
            return text(code.CustomCode())
        return builtins(self.tables).get(number, f"operator code {number}")

    def names(self, root: Any, tensors: int) -> dict[int, str]:
        """Of the tensors of the first subgraph, if there is one signature for it."""
        found = [
            s for s in self.each(root, "SignatureDefs", "signatures") if s.SubgraphIndex() == 0
        ]
        if len(found) != 1:
            return {}
        pairs = [
            (int(t.TensorIndex()), text(t.Name()))
            for side in ("Inputs", "Outputs")
            for t in self.each(found[0], side, "names of a signature")
        ]
        return {k: name for k, name in pairs if 0 <= k < tensors and name}

    def subgraph(self, graph: Any, kinds: list[str], buffers: list[Any]) -> Subgraph:
        tensors = tuple(self.tensor(t, buffers) for t in self.each(graph, "Tensors", "tensors"))
        inputs = self.places(graph, "Inputs", tensors)
        outputs = self.places(graph, "Outputs", tensors)
        operators = tuple(
            self.operator(op, kinds, tensors) for op in self.each(graph, "Operators", "operators")
        )
        made = {*inputs, *(place for op in operators for place in op.outputs)}
        tensors = tuple(_empty(t) if k not in made else t for k, t in enumerate(tensors))
        return Subgraph(text(graph.Name()), tensors, inputs, outputs, operators)

    def places(
        self, table: Any, field: str, tensors: tuple[Tensor, ...], least: int = 0
    ) -> tuple[int, ...]:
        found = tuple(int(k) for k in self.numbers(table, field, field.lower()))
        wrong = [k for k in found if not least <= k < len(tensors)]
        if wrong:
            raise MalformedError(f"tensor {wrong[0]} of {len(tensors)}")
        return found

    def operator(self, op: Any, kinds: list[str], tensors: tuple[Tensor, ...]) -> Operator:
        code = op.OpcodeIndex()
        if not 0 <= code < len(kinds):
            raise MalformedError(f"operator code {code} of {len(kinds)}")
        return Operator(
            kinds[code],
            self.places(op, "Inputs", tensors, -1),
            self.places(op, "Outputs", tensors),
            {**self.options(op, "BuiltinOptions"), **self.options(op, "BuiltinOptions2")},
            self.array(op, "CustomOptions", "bytes of options", np.uint8).tobytes(),
            self.misplaced(op, kinds[code]),
        )

    def misplaced(self, op: Any, kind: str) -> str:
        """The class of an options table that other operators have, whose fields of the same names
        a runtime does not read; or ""."""
        for field in ("BuiltinOptions", "BuiltinOptions2"):
            class_ = union(self.tables, field).get(getattr(op, f"{field}Type")())
            name = class_.__name__ if class_ else ""
            plain = kind.replace("_", "").lower() + "options"
            if name and name.lower() != plain and not re.fullmatch(SHARED.get(name, ""), kind):
                return name
        return ""

    def options(self, op: Any, field: str) -> dict[str, Option]:
        """The scalars of a union's table, by their names in the schema."""
        number, table = getattr(op, f"{field}Type")(), getattr(op, field)()
        class_ = union(self.tables, field).get(number)
        if class_ is None or table is None:
            return {}
        made = class_()
        made.Init(table.Bytes, table.Pos)
        found = {name: get(made) for name, get in scalars(class_)}
        return {name: value for name, value in found.items() if value is not None}

    def tensor(self, t: Any, buffers: list[Any]) -> Tensor:
        name, shape = text(t.Name()), tuple(int(n) for n in self.numbers(t, "Shape", "extents"))
        number = t.Type()
        problem, data = "", None
        row = dtype.int32 if number == RESOURCE else TYPES.get(number)
        if row is None:
            row, problem = dtype.uint8, f"element type {self.type_name(number)}"
        if len(shape) > MOST_AXES or any(n < 0 for n in shape):
            raise MalformedError(f"tensor '{name}' has the shape {list(shape)[:16]}")
        pairs = number == COMPLEX64
        shape = (*shape, 2) if pairs else shape
        if math.prod(shape) > MOST_ELEMENTS:
            raise MalformedError(f"tensor '{name}' has {math.prod(shape)} elements")
        type_ = TensorType(row, shape)
        k = t.Buffer()
        if not 0 <= k < max(1, len(buffers)):
            raise MalformedError(f"tensor '{name}' is in buffer {k} of {len(buffers)}")
        if t._tab.Offset(EXTERNAL):
            problem = "a tensor in another file"
        elif t.Sparsity() is not None:
            problem = "a sparse tensor; densify the model when it is converted"
        elif k and not problem:
            data = self.data_of(buffers[k], type_, number == INT4, name)
        if data is not None and t.IsVariable():
            problem = "a constant value, although it is a variable"
        if data is None and number == INT4:
            problem = "element type INT4, which only constants have"
        quantised, why = self.quantised(t.Quantization(), type_, name)
        variable, nibbles = bool(t.IsVariable()), number == INT4
        open_ = any(n < 0 for n in self.numbers(t, "ShapeSignature", "extents"))
        parts = (name, type_, data, quantised, variable, nibbles, problem, why)
        return Tensor(*parts, open=open_, pairs=pairs)

    def type_name(self, number: int) -> str:
        for name, value in vars(self.tables.TensorType).items():
            if value == number:
                return str(name)
        return str(number)

    def data_of(self, buffer: Any, type_: TensorType, nibbles: bool, name: str) -> Array | None:
        if buffer.Offset() > 1 or buffer.Size() > 1:
            raise MalformedError(
                f"tensor '{name}' is beyond the end of the flatbuffer, as in files above 2 GB"
            )
        n = self.count(buffer.DataLength(), "bytes of data")
        if not n:
            return None
        wanted = (type_.elements + 1) // 2 if nibbles else type_.bytes
        if n != wanted:
            raise MalformedError(f"tensor '{name}' {type_} has {n} bytes; expected {wanted}")
        raw = np.array(buffer.DataAsNumpy(), np.uint8).tobytes()
        if len(raw) != n:
            raise MalformedError(f"tensor '{name}' reaches beyond the file")
        if nibbles:
            packed = dtype.restored(raw, dtype.int4, (type_.elements,))
            return packed.astype(np.int8).reshape(type_.shape)
        return np.frombuffer(raw, type_.dtype.numpy).reshape(type_.shape)

    def quantised(self, q: Any, type_: TensorType, name: str) -> tuple[Quantised | None, str]:
        """The parameters, and why they cannot be used."""
        if q is None:
            return None, ""
        scale = self.array(q, "Scale", "scales", np.float32)
        zero = self.array(q, "ZeroPoint", "zero points", np.int64)
        if q.DetailsType():
            return None, "quantised by a custom scheme, blocks or several axes"
        if not scale.size or not zero.size:
            return None, ""
        zero = np.broadcast_to(zero, scale.shape) if zero.size == 1 else zero
        axis = q.QuantizedDimension()
        if not np.all(np.isfinite(scale) & (scale > 0)):
            return None, "a scale that is not a positive finite number"
        if zero.shape != scale.shape:
            return None, f"{zero.size} zero points for {scale.size} scales"
        if scale.size > 1 and not (
            0 <= axis < len(type_.shape) and type_.shape[axis] == scale.size
        ):
            return None, f"{scale.size} scales along axis {axis} of {type_}"
        if type_.dtype.kind in "iu":
            low, high = type_.dtype.range
            if zero.min() < low or zero.max() > high:
                return None, f"a zero point outside of {type_.dtype}"
            if type_.dtype.bits > 16 and zero.any():  # as of biases: nothing subtracts it
                return None, f"zero point {zero[zero != 0][0]} of {type_.dtype}; expected 0"
        return Quantised(scale, zero, axis), ""


def _empty(tensor: Tensor) -> Tensor:
    """What nothing makes is a constant if it has no elements: a file has no bytes for it."""
    if tensor.type.elements or tensor.data is not None or tensor.problem:
        return tensor
    return replace(tensor, data=np.zeros(tensor.type.shape, tensor.type.dtype.numpy))


def _builtin_code(code: Any) -> int:
    """As it stands in the file. The package gives the deprecated one for codes below 127, and tools
    that write the new one alone, as ai-edge-quantizer does, would then seem to mean operator 0."""
    at = code._tab.Offset(BUILTIN_CODE)
    return struct.unpack_from("<i", code._tab.Bytes, code._tab.Pos + at)[0] if at else 0


def text(raw: bytes | None) -> str:
    """A name; bytes that are no UTF-8 are shown as such."""
    return (raw or b"").decode("utf-8", "backslashreplace")


@cache
def builtins(tables: Any) -> dict[int, str]:
    return {v: k for k, v in vars(tables.BuiltinOperator).items() if isinstance(v, int)}


@cache
def union(tables: Any, field: str) -> dict[int, Any]:
    """The tables' classes by their numbers in a union."""
    pairs = vars(getattr(tables, field)).items()
    return {v: getattr(tables, k, None) for k, v in pairs if isinstance(v, int) and v}


@cache
def scalars(class_: Any) -> tuple[tuple[str, Callable[[Any], Option | None]], ...]:
    """The accessors of a table's numbers and strings, by their names in the schema."""
    found = []
    for name, get in vars(class_).items():
        plain = callable(get) and name[0].isupper() and get.__code__.co_argcount == 1
        if plain and not name.endswith(("Length", "AsNumpy", "IsNone")):
            found.append((_WORDS.sub("_", name).lower(), get))
    return tuple(found)
