"""One row per element type: its name in numpy and TVM, its C type, its ONNX code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class DType:
    """An element type. `name` is numpy's and TVM's spelling; `c` stores one element."""

    name: str
    c: str
    onnx: int  # onnx.TensorProto.DataType
    bits: int
    kind: str  # i signed, u unsigned, f float, b bool

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.name)

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
)
BY_ONNX = {d.onnx: d for d in DTYPES}
BY_NAME = {d.name: d for d in DTYPES}


def of(array: np.ndarray[Any, Any]) -> DType:
    """The row of a numpy array's dtype. Raises KeyError for types we have no row for."""
    return BY_NAME[array.dtype.name]
