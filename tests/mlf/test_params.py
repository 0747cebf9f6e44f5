"""Files of parameters: both forms, every type, and everything that can be wrong with them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mlftool.errors import MlfError
from mlftool.mlf import params
from mlftool.mlf.strict import AGAIN

DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda name: hnp.arrays(np.dtype(name), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
)
FILES = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=20), ARRAYS, max_size=4)


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert list(a) == list(b)
    for name, array in a.items():
        assert (array.dtype, array.shape) == (b[name].dtype, b[name].shape)
        assert array.tobytes() == b[name].tobytes()


@settings(max_examples=200)
@given(arrays=FILES)
def test_both_forms_give_back_what_was_written(arrays: dict[str, np.ndarray]) -> None:
    same(params.decode(params.encode(arrays)), arrays)
    same(params.decode_json(params.encode_json(arrays)), arrays)


def test_types_that_numpy_lacks() -> None:
    arrays = {
        "b": np.array([1.5, -2, np.inf], ml_dtypes.bfloat16),
        "i": np.array([[-8, 7]], ml_dtypes.int4),
        "u": np.array(15, ml_dtypes.uint4),
    }
    same(params.decode(params.encode(arrays)), arrays)
    same(params.decode_json(params.encode_json(arrays)), arrays)
    record = params.encode({"b": arrays["b"]})
    assert struct.unpack_from("<BBH", record, 24 + 9 + 8 + 16 + 8 + 4) == (4, 16, 1)
    assert record.endswith(struct.pack("<qHHH", 6, 0x3FC0, 0xC000, 0x7F80))


def test_the_json_form_is_this() -> None:
    """Byte for byte, by hand."""
    assert params.encode_json({"p0": np.array([1, 2], np.int16)}) == (
        b'{\n "schema_version": 1,\n "parameters": [\n  {\n   "name": "p0",\n'
        b'   "dtype": "int16",\n   "shape": [\n    2\n   ],\n   "data": "AQACAA=="\n  }\n ]\n}'
    )


def test_arrays_can_be_written_to() -> None:
    found = params.decode(params.encode({"a": np.zeros(3, np.int8)}))["a"]
    found[0] = 1
    assert found.dtype.isnative


LIST, ARRAY = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F


def file(
    magic: int = LIST,
    reserved: int = 0,
    count: int = 1,
    length: int = 1,
    name: bytes = b"a",
    again: int = 1,
    array_magic: int = ARRAY,
    array_reserved: int = 0,
    ndim: int = 2,
    kind: tuple[int, int, int] = (0, 16, 1),
    shape: tuple[int, ...] = (2, 3),
    size: int = 12,
    data: bytes = bytes(12),
) -> bytes:
    head = struct.pack("<QQQQ", magic, reserved, count, length) + name + struct.pack("<Q", again)
    head += struct.pack("<QQiiiBBH", array_magic, array_reserved, 1, 0, ndim, *kind)
    return head + struct.pack(f"<{len(shape)}q", *shape) + struct.pack("<q", size) + data


def two(names: tuple[str, str]) -> bytes:
    arrays = {n: np.zeros(1, np.int8) for n in ("aa", "bb")}
    out = params.encode(arrays)
    for old, new in zip(("aa", "bb"), names, strict=True):
        out = out.replace(old.encode(), new.encode())
    return out


HOSTILE = {
    "empty": (b"", "claims 16 bytes at 0; 0 are left"),
    "text": (b"{" * 100, "magic number at 0 is"),
    "wrong_magic": (file(magic=LIST + 1), "the list's magic number at 0 is 0xf7e58d4f05049cb8 0x0"),
    "reserved": (file(reserved=7), "the list's magic number at 0"),
    "count_2_62": (file(count=2**62), "4611686018427387904 parameters are claimed in"),
    "count_2": (file(count=2, again=2), "the name at 41 is not UTF-8"),
    "count_0": (file(count=0), "the number of tensors at 24 is 0x1, expected 0x0"),
    "name_2_63": (file(length=2**63), "a name claims 9223372036854775808 bytes at 32"),
    "name_all": (file(length=2**64 - 1), "a name claims"),
    "name_bytes": (file(name=b"\xff"), "the name at 32 is not UTF-8"),
    "counts_differ": (file(again=2), "the number of tensors at 33 is 0x2, expected 0x1"),
    "array_magic": (file(array_magic=LIST), "parameter 'a': the tensor's magic number"),
    "array_reserved": (file(array_reserved=1), "parameter 'a': the tensor's magic number"),
    "ndim_negative": (file(ndim=-1), "parameter 'a' has rank -1; expected 0 to 32"),
    "ndim_2_31": (file(ndim=2**31 - 1), "parameter 'a' has rank 2147483647"),
    "ndim_33": (file(ndim=33), "rank 33"),
    "ndim_3": (file(ndim=3), "parameter 'a' says"),
    "ndim_32": (file(ndim=32), "its shape claims 256 bytes"),
    "code_3": (file(kind=(3, 64, 1)), "type code 3 with 64 bits and 1 lanes"),
    "code_9": (file(kind=(9, 8, 1)), "type code 9 with 8 bits"),
    "bits_0": (file(kind=(0, 0, 1)), "type code 0 with 0 bits"),
    "lanes_4": (file(kind=(0, 16, 4)), "4 lanes"),
    "lanes_0": (file(kind=(0, 16, 0)), "0 lanes"),
    "negative": (file(shape=(-2, -3)), "a negative extent in its shape [-2, -3]"),
    "overflow_64": (
        file(shape=(2**32, 2**32), size=0, data=b""),
        "says 0 bytes; int16 [4294967296, 4294967296] takes 36893488147419103232",
    ),
    "overflow_32": (file(shape=(65536, 65536), size=0, data=b""), "takes 8589934592"),
    "zero_and_huge": (file(shape=(0, 2**62), size=0, data=b""), ""),
    "size_negative": (file(size=-12), "says -12 bytes; int16 [2, 3] takes 12"),
    "size_small": (file(size=11), "says 11 bytes"),
    "size_large": (file(size=13), "says 13 bytes"),
    "data_short": (file(data=bytes(11)), "claims 12 bytes at"),
    "data_long": (file(data=bytes(13)), "1 bytes follow the last parameter"),
    "bool_2": (
        file(kind=(1, 1, 1), shape=(1, 3), size=3, data=b"\0\1\2"),
        "is bool but has bytes other than 0 and 1",
    ),
    "same_names": (two(("aa", "aa")), "two parameters have the same name"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_params(name: str) -> None:
    data, message = HOSTILE[name]
    check(lambda: params.decode(data, "a.tar", "parameters/m.params"), message)


def test_every_truncation_is_refused() -> None:
    whole = file()
    assert list(params.decode(whole)) == ["a"]
    for end in range(len(whole)):
        with pytest.raises(MlfError):
            params.decode(whole[:end])


def as_json(**changes: object) -> bytes:
    entry = {"name": "a", "dtype": "int16", "shape": [2], "data": "AQACAA=="} | changes
    return json.dumps({"schema_version": 1, "parameters": [entry]}).encode()


HOSTILE_JSON = {
    "no_json": (b"\x80", "is not UTF-8"),
    "cut": (as_json()[:-1], "is not JSON"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "list": (b"[]", "is not an object with"),
    "later": (as_json().replace(b": 1,", b": 2,"), "schema_version is not 1"),
    "more": (as_json(more=1), "not an object with name, dtype"),
    "name": (as_json(name=3), "a name is not text"),
    "dtype": (as_json(dtype="O"), "no known dtype"),
    "dtype_list": (as_json(dtype=["int16"]), "no known dtype"),
    "shape": (as_json(shape=[2.0]), "no shape of integers"),
    "shape_bool": (as_json(shape=[True]), "no shape of integers"),
    "negative": (as_json(shape=[-2]), "negative extent"),
    "rank": (as_json(shape=[1] * 33), "rank 33"),
    "size": (as_json(shape=[2**70]), "says 4 bytes"),
    "base64": (as_json(data="AQACAA=!"), ""),
    "data": (as_json(data=[1, 2]), "data that is not text"),
    "twice": (b'{"a": 1, "a": 2}', "has the key 'a' twice"),
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_hostile_json(name: str) -> None:
    data, message = HOSTILE_JSON[name]
    check(lambda: params.decode_json(data, "a.tar", "parameters/m.params"), message)


def check(decode: Callable[[], object], message: str) -> None:
    with pytest.raises(MlfError) as caught:
        decode()
    (problem,) = caught.value.problems
    assert message in problem.message
    assert (problem.code, problem.file, problem.path) == ("MLF0508", "a.tar", "parameters/m.params")
    assert str(problem).splitlines()[1:] == [f"help: {AGAIN}"]
