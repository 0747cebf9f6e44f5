"""One row per element type: its name in numpy and TVM, its C type, its ONNX code.

Types that C does not have are stored as unsigned integers. Narrow floats have a `codec`, a word in
the names of the helpers of mlf/convert.h that turn their bits into float32, in which all arithmetic
happens, and back. Types of 2 and 4 bits are packed into bytes, the first element lowest.

A string is a slot of fixed size (mlf/text.h): its UTF-8 and zeros after it, at least one. So a
tensor of strings is memory like any other, which the planner places and kernels copy. In numpy a
slot is an element of bytes, "S64"; ONNX's arrays of objects are turned into these at the border.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes  # its import teaches numpy the names of the narrow types
import numpy as np

from mlftool.frozen import frozen
from mlftool.nibbles import packed, unpacked

assert ml_dtypes.bfloat16


@frozen
class DType:
    """An element type. `name` is numpy's and TVM's spelling; `c` stores one element, or several
    packed ones."""

    name: str
    c: str
    onnx: int  # onnx.TensorProto.DataType
    bits: int
    kind: str  # i signed, u unsigned, f float, b bool, s string
    codec: str = ""

    @property
    def bytes(self) -> int:
        """Of one stored unit: an element, or the byte that holds several."""
        return max(8, self.bits) // 8

    @property
    def packed(self) -> bool:
        """Whether several elements share a byte."""
        return self.bits < 8

    @property
    def value_c(self) -> str:
        """The C type of an element's value in an expression."""
        if self.codec:
            return "float"
        return "int8_t" if self.packed and self.kind == "i" else self.c

    @property
    def raw(self) -> DType:
        """The unsigned integer with the same bits, for code that only moves elements."""
        return BY_NAME[f"uint{self.bits}"] if self.codec or self.packed else self

    def size(self, elements: int) -> int:
        """Bytes of so many elements."""
        return (elements * self.bits + 7) // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(f"S{self.bytes}" if self.kind == "s" else self.name)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int8(self) -> bool:
        """8-bit integers, the storage of quantised tensors."""
        return self.kind in "iu" and self.bits == 8

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.kind == "b":
            return 0, 1
        return (
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
            if self.kind == "i"
            else (0, (1 << self.bits) - 1)
        )

    def __str__(self) -> str:
        return self.name


float32 = DType("float32", "float", 1, 32, "f")
uint8 = DType("uint8", "uint8_t", 2, 8, "u")
int8 = DType("int8", "int8_t", 3, 8, "i")
uint16 = DType("uint16", "uint16_t", 4, 16, "u")
int16 = DType("int16", "int16_t", 5, 16, "i")
int32 = DType("int32", "int32_t", 6, 32, "i")
int64 = DType("int64", "int64_t", 7, 64, "i")
bool_ = DType("bool", "bool", 9, 8, "b")
float64 = DType("float64", "double", 11, 64, "f")
uint32 = DType("uint32", "uint32_t", 12, 32, "u")
uint64 = DType("uint64", "uint64_t", 13, 64, "u")

float16 = DType("float16", "uint16_t", 10, 16, "f", "f16")
bfloat16 = DType("bfloat16", "uint16_t", 16, 16, "f", "bf16")
float8_e4m3fn = DType("float8_e4m3fn", "uint8_t", 17, 8, "f", "e4m3fn")
float8_e4m3fnuz = DType("float8_e4m3fnuz", "uint8_t", 18, 8, "f", "e4m3fnuz")
float8_e5m2 = DType("float8_e5m2", "uint8_t", 19, 8, "f", "e5m2")
float8_e5m2fnuz = DType("float8_e5m2fnuz", "uint8_t", 20, 8, "f", "e5m2fnuz")
uint4 = DType("uint4", "uint8_t", 21, 4, "u")
int4 = DType("int4", "uint8_t", 22, 4, "i")
float4_e2m1 = DType("float4_e2m1fn", "uint8_t", 23, 4, "f", "e2m1")
float8_e8m0 = DType("float8_e8m0fnu", "uint8_t", 24, 8, "f", "e8m0")
uint2 = DType("uint2", "uint8_t", 25, 2, "u")
int2 = DType("int2", "uint8_t", 26, 2, "i")

HALVES = ("float16", "bfloat16")  # floats of two bytes, which C computes with as float32
TEXT_BYTES = 64  # of a string's slot; mlf/text.h has it too
string = DType("string", "mlf_string", 8, 8 * TEXT_BYTES, "s")

DTYPES = (
    float32,
    uint8,
    int8,
    uint16,
    int16,
    int32,
    int64,
    bool_,
    float64,
    uint32,
    uint64,
    float16,
    bfloat16,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0,
    float4_e2m1,
    int4,
    uint4,
    int2,
    uint2,
    string,
)
SUPPORTED = "bool, integers of 2 to 64 bits, floats of 4 to 64 bits, strings"  # for messages
BY_ONNX = {d.onnx: d for d in DTYPES}
BY_NAME = {d.name: d for d in DTYPES}


def of(array: np.ndarray[Any, Any]) -> DType:
    """The row of a numpy array's dtype, whatever form strings have. Raises KeyError for others."""
    return string if array.dtype.kind in "SUO" else BY_NAME[array.dtype.name]


def is_known(array: np.ndarray[Any, Any]) -> bool:
    """Whether we have a row for a numpy array's dtype."""
    return array.dtype.kind in "SUO" or array.dtype.name in BY_NAME


def slots(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Strings as C stores them; any other array as it is. Raises ValueError if one does not fit."""
    if array.dtype.kind not in "SUO":
        return array
    texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.reshape(-1)]
    for text in texts:
        if len(text) >= TEXT_BYTES or b"\0" in text:
            shown = text[:24].decode("utf-8", "replace")
            what = "holds a zero" if b"\0" in text else f"has {len(text)} bytes"
            raise ValueError(f"string '{shown}' {what}; expected at most {TEXT_BYTES - 1}, no zero")
    return np.array(texts, string.numpy).reshape(array.shape)


def texts(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `slots` made of an array of objects; any other array as it is."""
    if array.dtype.kind != "S":
        return array
    spoken = np.empty(array.size, object)
    spoken[:] = [t.decode("utf-8", "replace") for t in array.reshape(-1).tolist()]
    return spoken.reshape(array.shape)


def stored(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements as C stores them: an array of a type that C has, flat if they are packed."""
    row = of(array)
    if not row.packed:
        return array.view(f"u{row.bytes}") if row.codec else array
    return packed(array, row.bits)


def restored(data: bytes, row: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The array whose `stored` form has the bytes `data`."""
    if not row.packed:
        return np.frombuffer(data, row.numpy).reshape(shape)
    return unpacked(data, row.bits, row.numpy, shape)
