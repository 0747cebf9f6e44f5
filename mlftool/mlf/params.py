"""Named tensors as files: `.params`, little-endian without padding, and the same as JSON.

The JSON form is `parameters/<module>.json`, for readers that have no parser of TVM's records; up to
MOST_JSON bytes archives have it, too:

    {"schema_version": 1, "parameters": [
      {"name": "p0", "dtype": "float32", "shape": [2, 3], "data": "base64 of the .params bytes"}]}
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.mlf.interface import numpy_dtype
from mlftool.mlf.strict import AGAIN, parse_json

Array = np.ndarray[Any, Any]
T = TypeVar("T")

LIST_MAGIC = 0xF7E58D4F05049CB7
ARRAY_MAGIC = 0xDD5E40F096B4A13F
# Longer `.params` have no JSON twin, which is for reading and would more than double an archive.
MOST_JSON = 64 << 10
SCHEMA = 1  # of JSON and BSON
MAX_NDIM = 32  # numpy's; the C runtime's is TVM_CRT_MAX_NDIM
# DLPack's (code, bits) of each type. An element takes whole bytes, and a bool one byte of 0 or 1.
_NUMPY = {
    **{(0, b): f"int{b}" for b in (8, 16, 32, 64)},
    **{(1, b): f"uint{b}" for b in (8, 16, 32, 64)},
    **{(2, b): f"float{b}" for b in (16, 32, 64)},
    **{(5, b): f"complex{b}" for b in (64, 128)},
    (1, 1): "bool",
}
_NAMES = _NUMPY | {(0, 4): "int4", (1, 4): "uint4", (4, 16): "bfloat16"}
_CODES = {name: code for code, name in _NAMES.items()}


def numpy_name(code: int, bits: int) -> str:
    """The type of DLPack's code and bits. Raises ValueError if there is none."""
    if (code, bits) not in _NAMES:
        raise ValueError(f"type code {code} with {bits} bits")
    return _NAMES[code, bits]


def encode(arrays: Mapping[str, Array]) -> bytes:
    """The file's bytes, names in the given order; 32 bytes when there are none."""
    names = [name.encode() for name in arrays]
    parts = [struct.pack("<QQQ", LIST_MAGIC, 0, len(names))]
    parts += [struct.pack("<Q", len(n)) + n for n in names]
    parts.append(struct.pack("<Q", len(names)))
    return b"".join([*parts, *map(encode_array, arrays.values())])


def encode_array(array: Array) -> bytes:
    """One tensor, as `.params` and TVM's libraries store it."""
    code, bits = _CODES[array.dtype.name]
    data = _bytes(array)
    head = struct.pack("<QQiiiBBH", ARRAY_MAGIC, 0, 1, 0, array.ndim, code, bits, 1)
    return head + struct.pack(f"<{array.ndim}q", *array.shape) + struct.pack("<q", len(data)) + data


def decode(data: bytes, file: str = "", member: str = "") -> dict[str, Array]:
    """The tensors by name. Raises MlfError unless every byte of `data` is accounted for."""
    return located(lambda: _decode(_Cursor(data)), file, member)


def encode_json(arrays: Mapping[str, Array]) -> bytes:
    """`parameters/<module>.json`, which `decode_json` reads."""
    parameters = entries(arrays, lambda data: base64.b64encode(data).decode())
    return json.dumps({"schema_version": SCHEMA, "parameters": parameters}, indent=1).encode()


def decode_json(data: bytes, file: str = "", member: str = "") -> dict[str, Array]:
    """What `encode_json` wrote. Raises MlfError for anything that is not exactly of its form."""
    return located(lambda: from_entries(parse_json(data), _of_text), file, member)


def entries(arrays: Mapping[str, Array], stored: Callable[[bytes], object]) -> list[dict[str, Any]]:
    """The list of parameters; `stored` gives the form of the bytes."""
    return [
        {
            "name": name,
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "data": stored(_bytes(array)),
        }
        for name, array in arrays.items()
    ]


def located(read: Callable[[], T], file: str, member: str) -> T:
    try:
        return read()
    except ValueError as error:
        raise MlfError(Problem("MLF0508", str(error), file, path=member, help=AGAIN)) from None


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()


class _Cursor:
    """Reads forward through `data`; ValueError where less is left than is asked for."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def raw(self, count: int, what: str) -> bytes:
        left = len(self.data) - self.at
        if not 0 <= count <= left:
            raise ValueError(f"{what} claims {count} bytes at {self.at}; {left} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def take(self, form: str, what: str) -> tuple[int, ...]:
        return struct.unpack("<" + form, self.raw(struct.calcsize("<" + form), what))

    def expect(self, form: str, wanted: tuple[int, ...], what: str) -> None:
        start = self.at
        got = self.take(form, what)
        if got != wanted:
            raise ValueError(f"{what} at {start} is {_hex(got)}, expected {_hex(wanted)}")


def _hex(values: tuple[int, ...]) -> str:
    return " ".join(f"{v:#x}" for v in values)


def _decode(cursor: _Cursor) -> dict[str, Array]:
    cursor.expect("QQ", (LIST_MAGIC, 0), "the list's magic number")
    (count,) = cursor.take("Q", "the number of names")
    # A name takes at least 8 bytes and its tensor 44: a larger count is malformed.
    if count > len(cursor.data) // 52:
        raise ValueError(f"{count} parameters are claimed in {len(cursor.data)} bytes")
    names = [_name(cursor) for _ in range(count)]
    if len(set(names)) != count:
        raise ValueError("two parameters have the same name")
    cursor.expect("Q", (count,), "the number of tensors")
    arrays = {name: _array(cursor, f"parameter '{name[:100]}'") for name in names}
    if cursor.at != len(cursor.data):
        raise ValueError(f"{len(cursor.data) - cursor.at} bytes follow the last parameter")
    return arrays


def _name(cursor: _Cursor) -> str:
    (length,) = cursor.take("Q", "the length of a name")
    try:
        return cursor.raw(length, "a name").decode()
    except UnicodeDecodeError:
        raise ValueError(f"the name at {cursor.at - length} is not UTF-8") from None


def _array(cursor: _Cursor, what: str) -> Array:
    cursor.expect("QQ", (ARRAY_MAGIC, 0), f"{what}: the tensor's magic number")
    cursor.take("ii", f"{what}: its device")  # where it came from; here it is in memory
    (ndim,) = cursor.take("i", f"{what}: its rank")
    if not 0 <= ndim <= MAX_NDIM:
        raise ValueError(f"{what} has rank {ndim}; expected 0 to {MAX_NDIM}")
    code, bits, lanes = cursor.take("BBH", f"{what}: its type")
    if (code, bits) not in _NAMES or lanes != 1:
        text = f"{what} has type code {code} with {bits} bits and {lanes} lanes"
        raise ValueError(f"{text}; expected one lane of {', '.join(_NAMES.values())}")
    shape = cursor.take(f"{ndim}q", f"{what}: its shape")
    (size,) = cursor.take("q", f"{what}: its size")
    dtype = numpy_dtype(_NAMES[code, bits])
    _check_size(shape, dtype, size, what)
    return _values(cursor.raw(size, what), shape, dtype, what)


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any], size: int, what: str) -> None:
    if min(shape, default=0) < 0:
        raise ValueError(f"{what} has a negative extent in its shape {list(shape)}")
    wanted = dtype.itemsize * math.prod(shape)
    if size != wanted:
        text = f"{what} says {size} bytes; {dtype.name} {list(shape)} takes {wanted}"
        raise ValueError(text)


def _values(data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> Array:
    """A fresh array in the machine's byte order."""
    if dtype == np.bool_ and data.translate(None, b"\0\1"):
        raise ValueError(f"{what} is bool but has bytes other than 0 and 1")
    stored = np.frombuffer(data, dtype.newbyteorder("<"))
    return stored.astype(dtype).reshape(shape)


def from_entries(data: Any, raw: Callable[[Any], bytes]) -> dict[str, Array]:
    """The arrays of an object as JSON and BSON have it; `raw` gives an entry's bytes. Raises
    ValueError."""
    if not isinstance(data, dict) or data.keys() != {"schema_version", "parameters"}:
        raise ValueError("is not an object with schema_version and parameters")
    if data["schema_version"] != SCHEMA or not isinstance(data["parameters"], list):
        raise ValueError("schema_version is not 1, or parameters is not a list")
    arrays: dict[str, Array] = {}
    for entry in data["parameters"]:
        if not isinstance(entry, dict) or entry.keys() != {"name", "dtype", "shape", "data"}:
            raise ValueError("a parameter is not an object with name, dtype, shape and data")
        name, shape = entry["name"], entry["shape"]
        if not isinstance(name, str) or name in arrays:
            raise ValueError("a name is not text, or occurs twice")
        what = f"parameter '{name[:100]}'"
        if not isinstance(entry["dtype"], str) or entry["dtype"] not in _CODES:
            raise ValueError(f"{what} has no known dtype")
        if not isinstance(shape, list) or not all(type(e) is int for e in shape):
            raise ValueError(f"{what} has no shape of integers")
        if len(shape) > MAX_NDIM:
            raise ValueError(f"{what} has rank {len(shape)}; expected 0 to {MAX_NDIM}")
        try:
            stored = raw(entry["data"])
        except ValueError as error:
            raise ValueError(f"{what} has {error}") from None
        dtype = numpy_dtype(entry["dtype"])
        _check_size(tuple(shape), dtype, len(stored), what)
        arrays[name] = _values(stored, tuple(shape), dtype, what)
    return arrays


def _of_text(data: Any) -> bytes:
    if not isinstance(data, str):
        raise ValueError("data that is not text")
    return base64.b64decode(data, validate=True)
