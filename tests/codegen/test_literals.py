"""Constants reach the C compiler exactly: what it reads back is what was written, bit for bit."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlftool.codegen.literals import WIDTH, initialiser
from mlftool.ir import dtype
from mlftool.ops.scalar import literal

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def float_of(text: str) -> np.float32:
    """A C float constant, decimal or hexadecimal, rounded once to float as C99 does."""
    assert text.endswith("f")
    body = text[:-1]
    return np.float32(float.fromhex(body) if "x" in body else np.float32(body))


@settings(max_examples=500)
@given(FLOATS)
def test_float_literals_read_back(value: float) -> None:
    for text in (literal(value, dtype.float32), initialiser(np.float32([value])).strip()):
        assert float_of(text).tobytes() == np.float32(value).tobytes(), text
        assert "." in text or "x" in text or "e" in text, text  # `1f` is not C


@settings(max_examples=300)
@given(st.sampled_from([d for d in dtype.DTYPES if d.kind in "iu"]), st.data())
def test_integer_literals_read_back(type_: dtype.DType, data: st.DataObject) -> None:
    value = data.draw(st.integers(*type_.range))
    text = literal(value, type_)
    plain = text.replace("INT64_C", "").replace("UINT64_C", "").lstrip("U").rstrip("U")
    assert eval(plain.replace("U)", ")")) == value


EDGES: dict[str, Any] = {
    "float32": [0.0, -0.0, 1e-45, 3.4028235e38, -1.17549435e-38, 0.1, 1 / 3, 16777217.0, 1e10],
    "float64": [0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, -1 / 3],
    "int8": [-128, 127, 0],
    "uint8": [0, 255],
    "int16": [-32768, 32767],
    "uint16": [0, 65535],
    "int32": [-(2**31), 2**31 - 1, -1],
    "uint32": [0, 2**32 - 1],
    "int64": [-(2**63), 2**63 - 1, -1],
    "uint64": [0, 2**64 - 1],
}


def test_a_compiler_reads_the_same_bytes(tmp_path: Path) -> None:
    """Every type's edges as initialisers and as literals, without a warning."""
    arrays, expected = [], b""
    for name, values in EDGES.items():
        type_ = dtype.BY_NAME[name]
        array = np.array(values, type_.numpy)
        single = ", ".join(literal(v, type_) for v in array)
        for k, text in enumerate((initialiser(array), single)):
            arrays.append((f"{type_.c} {name}_{k}[] = {{{text}}}", f"{name}_{k}"))
            expected += array.tobytes()
    lines = ["#include <stdint.h>", "#include <stdio.h>"]
    lines += [f"static const {text};" for text, _ in arrays]
    lines += ["int main(void) {"]
    lines += [f"  fwrite({name}, 1, sizeof {name}, stdout);" for _, name in arrays]
    (tmp_path / "m.c").write_text("\n".join([*lines, "  return 0;", "}", ""]))
    flags = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic")
    subprocess.run(["gcc", *flags, "m.c", "-o", "m"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "m"], capture_output=True).stdout == expected


@pytest.mark.parametrize("type_", dtype.DTYPES, ids=str)
def test_long_arrays_are_wrapped(type_: dtype.DType) -> None:
    text = initialiser(np.arange(500).astype(type_.numpy))
    assert len(text.splitlines()) > 1
    assert all(len(line) <= WIDTH for line in text.splitlines())


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_an_integer_beyond_its_type_is_no_literal(name: str) -> None:
    type_ = dtype.BY_NAME[name]
    for end, step in zip(type_.range, (-1, 1), strict=True):
        literal(end, type_)
        with pytest.raises(AssertionError):
            literal(end + step, type_)
