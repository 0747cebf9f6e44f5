"""Parameters as BSON, by a stand-in for pymongo that has only the types that they need."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from shared import REPO

import mlftool
from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, read_tar, write_tar
from mlftool.mlf.bson import decode_bson, encode_bson
from mlftool.mlf.strict import AGAIN

MODEL = REPO / "examples" / "models" / "gesture_int8.onnx"
NAME = "parameters/gesture_int8"


def element(name: str, value: Any) -> bytes:
    """Its type, its name and its value, as bsonspec.org has them."""
    key = name.encode() + b"\0"
    match value:
        case int():
            return b"\x10" + key + struct.pack("<i", value)
        case str():
            text = value.encode() + b"\0"
            return b"\x02" + key + struct.pack("<i", len(text)) + text
        case bytes():
            return b"\x05" + key + struct.pack("<iB", len(value), 0) + value
        case list():
            return b"\x04" + key + encode({str(k): v for k, v in enumerate(value)})
    assert isinstance(value, dict), value
    return b"\x03" + key + encode(value)


def encode(document: dict[str, Any]) -> bytes:
    body = b"".join(element(k, v) for k, v in document.items()) + b"\0"
    return struct.pack("<i", len(body) + 4) + body


def decode(data: bytes) -> dict[str, Any]:
    if len(data) < 5 or struct.unpack_from("<i", data) != (len(data),) or data[-1]:
        raise RuntimeError("invalid length")
    found: dict[str, Any] = {}
    at = 4
    while data[at]:
        kind, end = data[at], data.index(0, at + 1)
        name, at = data[at + 1 : end].decode(), end + 1
        (number,) = struct.unpack_from("<i", data, at)
        if kind == 0x10:
            found[name], at = number, at + 4
        elif kind == 0x02:
            found[name], at = data[at + 4 : at + 3 + number].decode(), at + 4 + number
        elif kind == 0x05:
            found[name], at = data[at + 5 : at + 5 + number], at + 5 + number
        else:
            inner = decode(data[at : at + number])
            found[name], at = (list(inner.values()) if kind == 4 else inner), at + number
    return found


@pytest.fixture
def pymongo(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("bson")
    vars(module).update(encode=encode, decode=decode)
    monkeypatch.setitem(sys.modules, "bson", module)


@pytest.mark.usefixtures("pymongo")
def test_written_on_request_and_read_alone(tmp_path: Path) -> None:
    file = tmp_path / "m.tar"
    asked = ["compile", str(MODEL), "-o", str(file), "--executor", "graph"]
    assert main(asked) == 0
    assert f"{NAME}.bson" not in read_tar(file).files
    assert main([*asked, "--params-bson"]) == 0
    files = dict(read_tar(file).files)
    wanted = mlftool.load(file).module().params
    assert wanted
    alone = {k: v for k, v in files.items() if k.endswith(".bson") or "parameters" not in k}
    del alone["checksums.sha256"]
    write_tar(Bundle(alone), tmp_path / "alone.tar")
    module = mlftool.load(tmp_path / "alone.tar").module()
    assert module.params.keys() == wanted.keys()
    for name, array in wanted.items():
        assert module.params[name].dtype == array.dtype
        np.testing.assert_array_equal(module.params[name], array)


@pytest.mark.usefixtures("pymongo")
def test_damaged_documents_are_one_line() -> None:
    good = encode_bson({"p0": np.arange(6, dtype=np.int16).reshape(2, 3)})
    np.testing.assert_array_equal(decode_bson(good)["p0"], [[0, 1, 2], [3, 4, 5]])
    entry = {"name": "p0", "dtype": "int8", "shape": [1], "data": b"x"}
    for data, said in [
        (good[:-1], "is not BSON: invalid length"),
        (b"", "is not BSON"),
        (encode({"a": 1}), "is not an object with schema_version"),
        (encode({"schema_version": 2, "parameters": []}), "schema_version is not 1"),
        (encode({"schema_version": 1, "parameters": [entry | {"data": "x"}]}), "are not bytes"),
        (encode({"schema_version": 1, "parameters": [entry | {"data": b""}]}), "says 0 bytes"),
    ]:
        with pytest.raises(MlfError, match=said) as caught:
            decode_bson(data, "a.tar", "parameters/m.bson")
        assert str(caught.value).splitlines()[1:] == [f"help: {AGAIN}"]


def test_without_the_package_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "bson", None)
    asked = ["compile", str(MODEL), "-o", str(tmp_path / "m.tar"), "--executor", "graph"]
    assert main([*asked, "--params-bson"]) == 3
    assert "needs the Python package 'pymongo'" in capsys.readouterr().err
