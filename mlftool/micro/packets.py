"""Requests and answers of TVM's RPC, one packet each: length (u64), code (i32), body; low bytes
first.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.micro.errors import RPCError

CPU = (1, 0)  # device type and number


class Code(IntEnum):
    SHUTDOWN = 1
    CALL_FUNC = 3
    RETURN = 4
    EXCEPTION = 5
    COPY_FROM_REMOTE = 6
    COPY_TO_REMOTE = 7
    COPY_ACK = 8
    GET_GLOBAL_FUNC = 9
    FREE_HANDLE = 10
    DEV_ALLOC_DATA = 13
    DEV_FREE_DATA = 14
    DEV_STREAM_SYNC = 15
    DEV_ALLOC_DATA_WITH_SCOPE = 17


class TypeCode(IntEnum):
    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    NULL = 4
    DTYPE = 5
    DEVICE = 6
    TENSOR = 7
    MODULE = 9
    FUNCTION = 10
    STR = 11
    BYTES = 12
    NDARRAY = 13


@frozen
class Tensor:
    """A tensor in a board's memory: elements are compact."""

    data: int  # its address
    shape: tuple[int, ...]
    dtype: str  # numpy's name
    byte_offset: int = 0
    handle: int = 0  # what a function that returned it calls it, or 0

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@frozen
class Value:
    """An argument or result: its type, and an int, float, str, bytes, Tensor or None."""

    type: TypeCode
    value: Any = None


_KINDS = {"i": 0, "u": 1, "f": 2, "b": 1}


def dtype_bytes(dtype: str) -> bytes:
    """u8 kind, u8 bits, u16 lanes. A bool has one bit, and takes a byte."""
    kind = np.dtype(dtype)
    if kind.kind not in _KINDS:
        raise RPCError(f"a tensor of {dtype} cannot be sent to a board")
    bits = 1 if kind.kind == "b" else kind.itemsize * 8
    return struct.pack("<BBH", _KINDS[kind.kind], bits, 1)


def dtype_name(kind: int, bits: int, lanes: int) -> str:
    if kind == 1 and bits == 1:
        return "bool"
    if kind > 2 or lanes != 1 or bits not in (8, 16, 32, 64):
        raise RPCError(f"the board has a tensor of an unknown type: {kind}, {bits} bits x {lanes}")
    return ("int", "uint", "float")[kind] + str(bits)


def tensor_bytes(tensor: Tensor) -> bytes:
    """u64 address, device, i32 rank, type, extents, u64 offset."""
    rank = len(tensor.shape)
    head = struct.pack("<Qiii", tensor.data, *CPU, rank) + dtype_bytes(tensor.dtype)
    return head + struct.pack(f"<{rank}qQ", *tensor.shape, tensor.byte_offset)


def _value_bytes(value: Value) -> bytes:
    match value.type:
        case TypeCode.NULL:
            return b""
        case TypeCode.INT:
            return struct.pack("<q", value.value)
        case TypeCode.FLOAT:
            return struct.pack("<d", value.value)
        case TypeCode.DTYPE:
            return dtype_bytes(value.value) + bytes(4)
        case TypeCode.DEVICE:
            return struct.pack("<ii", *value.value)
        case TypeCode.TENSOR:
            return tensor_bytes(value.value)
        case TypeCode.STR | TypeCode.BYTES:
            data = value.value.encode() if isinstance(value.value, str) else bytes(value.value)
            return struct.pack("<Q", len(data)) + data
    return struct.pack("<Q", value.value)


def sequence_bytes(values: Sequence[Value]) -> bytes:
    codes = struct.pack(f"<{len(values) + 1}i", len(values), *(v.type for v in values))
    return codes + b"".join(map(_value_bytes, values))


def packet(code: Code, body: bytes = b"") -> bytes:
    return struct.pack("<Qi", 4 + len(body), code) + body


class Reader:
    """Reads a packet's values. Raises RPCError at an end that comes too early."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def take(self, count: int) -> bytes:
        if count > len(self.left):
            raise RPCError("the board's answer ends too early")
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def tensor(self) -> Tensor:
        data, _, _, rank, kind, bits, lanes = self.unpack("QiiiBBH")
        if not 0 <= rank <= len(self.left) // 8:
            raise RPCError("the board's answer ends too early")
        shape = self.unpack(f"{rank}q")
        (offset,) = self.unpack("Q")
        return Tensor(data, shape, dtype_name(kind, bits, lanes), offset)

    def value(self, code: int) -> Value:
        match code:
            case TypeCode.NULL:
                return Value(TypeCode.NULL)
            case TypeCode.INT | 15:  # 15: a bool of TVM 0.18
                return Value(TypeCode.INT, self.unpack("q")[0])
            case TypeCode.FLOAT:
                return Value(TypeCode.FLOAT, self.unpack("d")[0])
            case TypeCode.TENSOR:
                return Value(TypeCode.TENSOR, self.tensor())
            case TypeCode.STR | TypeCode.BYTES:
                data = self.take(self.unpack("Q")[0])
                text = data.decode("utf-8", "replace") if code == TypeCode.STR else data
                return Value(TypeCode(code), text)
            case TypeCode.UINT | TypeCode.HANDLE | TypeCode.MODULE | TypeCode.FUNCTION:
                return Value(TypeCode(code), self.unpack("Q")[0])
        raise RPCError(f"the board's answer has a value of an unknown type, {code}")

    def sequence(self) -> list[Value]:
        (count,) = self.unpack("i")
        if not 0 <= count <= len(self.left) // 4:
            raise RPCError("the board's answer ends too early")
        return [self.value(code) for code in self.unpack(f"{count}i")]


def answer_of(data: bytes) -> tuple[int, Reader]:
    """The code of an answer, and its body. Raises RPCError."""
    reader = Reader(data)
    (length,) = reader.unpack("Q")
    if length != len(reader.left):
        raise RPCError(f"the board's answer says {length} bytes and has {len(reader.left)}")
    (code,) = reader.unpack("i")
    return code, reader


def result_of(values: Sequence[Value]) -> Value:
    """A call's result: [real type, value], and for a tensor its handle."""
    kinds = [v.type for v in values]
    if kinds == [TypeCode.INT, TypeCode.TENSOR, TypeCode.HANDLE]:
        t = values[1].value
        tensor = Tensor(t.data, t.shape, t.dtype, t.byte_offset, values[2].value)
        return Value(TypeCode.NDARRAY, tensor)
    if len(kinds) != 2 or kinds[0] != TypeCode.INT:
        raise RPCError("the board's answer is not a call's result")
    if kinds[1] == TypeCode.HANDLE and values[0].value in (TypeCode.MODULE, TypeCode.FUNCTION):
        return Value(TypeCode(values[0].value), values[1].value)
    return values[1]
