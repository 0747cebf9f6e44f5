"""Small TensorFlow Lite models for tests, written with the packages `tflite` and `flatbuffers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

tflite = pytest.importorskip("tflite", reason="did not run: the package tflite is missing")
flatbuffers = pytest.importorskip("flatbuffers", reason="did not run: flatbuffers is missing")

TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "string": 5, "bool": 6,
    "int16": 7, "complex64": 8, "int8": 9, "float64": 10, "uint64": 12, "resource": 13,
    "uint32": 15, "int4": 17,
}  # fmt: skip
CUSTOM = 32


@dataclass(frozen=True)
class T:
    """A tensor: `data` of a constant, and its quantisation."""

    name: str
    shape: Sequence[int]
    type: str = "int8"
    scale: Sequence[float] | float | None = None
    zero: Sequence[int] | int = 0
    axis: int = 0
    data: Any = None
    variable: bool = False
    bytes: bytes | None = None  # in place of the data's own
    signature: Sequence[int] | None = None  # the shape, with -1 for what is known only at run time


@dataclass(frozen=True)
class Op:
    """An operator by its name; `options` are the table's class and its fields."""

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    table: str = ""
    options: Mapping[str, int | float | bool | str] = field(default_factory=dict)
    custom: bytes = b""


@dataclass(frozen=True)
class Sub:
    """A subgraph."""

    tensors: Sequence[T]
    operators: Sequence[Op]
    inputs: Sequence[int]
    outputs: Sequence[int]
    name: str = "main"


def model(
    *subs: Sub, names: Mapping[int, str] | None = None, version: int = 3, both: bool = True
) -> bytes:
    """The file; `names` are a signature's, of tensors of the first subgraph. Codes of operators
    are also in the field of older files if `both`."""
    return _Writer(both).model(subs, names or {}, version)


class _Writer:
    def __init__(self, both: bool) -> None:
        self.both = both
        self.b = flatbuffers.Builder(1024)
        self.buffers = [self._buffer(b"")]
        self.codes: list[str] = []

    def _numbers(self, values: Sequence[Any], row: str) -> int:
        return int(self.b.CreateNumpyVector(np.array(values, row)))

    def _offsets(self, values: Sequence[int]) -> int:
        self.b.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.b.PrependUOffsetTRelative(value)
        return int(self.b.EndVector())

    def _table(self, name: str, fields: Mapping[str, Any]) -> int:
        getattr(tflite, f"{name}Start")(self.b)
        for key, value in fields.items():
            if value is not None:
                getattr(tflite, f"{name}Add{key}")(self.b, value)
        return int(getattr(tflite, f"{name}End")(self.b))

    def _buffer(self, data: bytes) -> int:
        vector = self.b.CreateByteVector(data) if data else None
        return self._table("Buffer", {"Data": vector})

    def _data(self, t: T) -> bytes:
        if t.bytes is not None:
            return t.bytes
        if t.data is None:
            return b""
        if t.type != "int4":
            return np.array(t.data, t.type).tobytes()
        flat = np.array(t.data, np.int8).reshape(-1).view(np.uint8) & 15
        flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
        return (flat[::2] | flat[1::2] << 4).astype(np.uint8).tobytes()

    def _tensor(self, t: T) -> int:
        buffer, data = 0, self._data(t)
        if data:
            self.buffers.append(self._buffer(data))
            buffer = len(self.buffers) - 1
        quantised = None
        if t.scale is not None:
            scale = np.atleast_1d(np.array(t.scale, np.float32))
            zero = np.broadcast_to(np.array(t.zero, np.int64), scale.shape)
            parts = {
                "Scale": self._numbers(scale, "float32"),
                "ZeroPoint": self._numbers(zero, "int64"),
            }
            quantised = self._table(
                "QuantizationParameters", {**parts, "QuantizedDimension": t.axis}
            )
        name, shape = self.b.CreateString(t.name), self._numbers(t.shape, "int32")
        signature = None if t.signature is None else self._numbers(t.signature, "int32")
        return self._table(
            "Tensor",
            {
                "Shape": shape, "Type": TYPES[t.type], "Buffer": buffer, "Name": name,
                "Quantization": quantised, "IsVariable": t.variable,
                "ShapeSignature": signature,
            },
        )  # fmt: skip

    def _operator(self, op: Op) -> int:
        if op.kind not in self.codes:
            self.codes.append(op.kind)
        options = {
            k: self.b.CreateString(v) if isinstance(v, str) else v for k, v in op.options.items()
        }
        table = self._table(op.table, options) if op.table else None
        custom = self.b.CreateByteVector(op.custom) if op.custom else None
        inputs, outputs = (self._numbers(v, "int32") for v in (op.inputs, op.outputs))
        kind = getattr(tflite.BuiltinOptions, op.table) if op.table else None
        return self._table(
            "Operator",
            {
                "OpcodeIndex": self.codes.index(op.kind), "Inputs": inputs, "Outputs": outputs,
                "BuiltinOptionsType": kind, "BuiltinOptions": table, "CustomOptions": custom,
            },
        )  # fmt: skip

    def _sub(self, sub: Sub) -> int:
        tensors = self._offsets([self._tensor(t) for t in sub.tensors])
        operators = self._offsets([self._operator(op) for op in sub.operators])
        inputs, outputs = (self._numbers(v, "int32") for v in (sub.inputs, sub.outputs))
        name = self.b.CreateString(sub.name)
        parts = {"Tensors": tensors, "Inputs": inputs, "Outputs": outputs}
        return self._table("SubGraph", {**parts, "Operators": operators, "Name": name})

    def _code(self, kind: str) -> int:
        number = getattr(tflite.BuiltinOperator, kind, CUSTOM)
        custom = self.b.CreateString(kind) if number == CUSTOM else None
        old = min(number, 127) if self.both else 0
        parts = {"DeprecatedBuiltinCode": old, "BuiltinCode": number}
        return self._table("OperatorCode", {**parts, "CustomCode": custom})

    def _signature(self, sub: Sub, names: Mapping[int, str]) -> int:
        def pairs(places: Sequence[int]) -> int:
            made = []
            for place in places:
                name = self.b.CreateString(names[place])
                made.append(self._table("TensorMap", {"Name": name, "TensorIndex": place}))
            return self._offsets(made)

        parts = {"Inputs": pairs(sub.inputs), "Outputs": pairs(sub.outputs)}
        key = self.b.CreateString("serving_default")
        return self._table("SignatureDef", {**parts, "SignatureKey": key, "SubgraphIndex": 0})

    def model(self, subs: Sequence[Sub], names: Mapping[int, str], version: int) -> bytes:
        graphs = self._offsets([self._sub(sub) for sub in subs])
        codes = self._offsets([self._code(kind) for kind in self.codes])
        signatures = self._offsets([self._signature(subs[0], names)]) if names else None
        buffers = self._offsets(self.buffers)
        parts = {"Version": version, "OperatorCodes": codes, "Subgraphs": graphs}
        root = self._table("Model", {**parts, "Buffers": buffers, "SignatureDefs": signatures})
        self.b.Finish(root, file_identifier=b"TFL3")
        return bytes(self.b.Output())
