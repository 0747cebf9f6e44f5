"""Commands of an Ethos-U in a TensorFlow Lite model reach TVM's launch function as they are.

`ethos_u/dense_vela.tflite` is what Vela 5.2.0 made of `tfl_models.dense(default_rng(0))`:
`vela --accelerator-config ethos-u55-32 dense.tflite`.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from offload import HERE, Loaded, samples
from tfl_writer import Op, Sub, T, model

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module
from mlftool.describe import bundle
from mlftool.errors import MlfError
from mlftool.frontends.models import TFLite
from mlftool.module import Module

DOUBLE = HERE / "ethos_u"
VELA = DOUBLE / "dense_vela.tflite"
STREAM, CONSTANTS = bytes(range(40)), bytes(range(100, 120))


def made(source: Path | TFLite, **options: Any) -> Module:
    return compile_module(ModuleSpec(source, "npu", backends=("ethos-u",), **options))


def launched(module: Module, folder: Path, **places: int) -> Loaded:
    """With a double that adds 1 to `length` bytes from one place to another."""
    library = Loaded(module, folder, [DOUBLE / "double.c"], [DOUBLE])
    for name, value in places.items():
        library.number(name).value = value
    return library


def noted(library: Loaded, name: str, count: int) -> bytes:
    return bytes((ctypes.c_uint8 * count).in_dll(library.library, name))


def sizes(library: Loaded) -> list[int]:
    found = (ctypes.c_uint64 * 8).in_dll(library.library, "noted_sizes")
    return list(found)[: library.number("noted_count").value]


@pytest.mark.parametrize("executor", ["aot", "vm"])
def test_velas_output_as_it_is(executor: str, tmp_path: Path) -> None:
    """The input is where Vela placed it in the scratch memory, at 16, and the output comes
    from there, from 0."""
    module = made(VELA, executor=executor)
    library = launched(module, tmp_path, from_region=1, from_at=16, to_region=1, to_at=0, length=10)
    (inputs,) = samples(module, 1)
    context = ctypes.c_int(5)
    status, outputs = library.run(inputs, [ctypes.addressof(context)])
    assert status == 0
    (x,), (y,) = inputs.values(), outputs.values()
    np.testing.assert_array_equal(y[0], (x[0, :10].astype(int) + 1).astype(np.int8))
    assert sizes(library) == [416, 48, 48, 24, 10]
    assert library.number("same_memory").value == 1
    assert library.number("misaligned").value == 0
    assert library.number("launches").value == 1
    data = VELA.read_bytes()
    commands, constants = (noted(library, f"noted_{n}", k) for n, k in WHOLE)
    assert commands[:4] == b"COP1"
    assert commands in data
    assert constants in data
    found = ctypes.c_void_p.in_dll(library.library, "noted_context").value
    assert found == ctypes.addressof(context)


WHOLE = (("commands", 328), ("constants", 416))


def written(**changes: Any) -> TFLite:
    """A model whose commands take their own addresses, with a fast memory of its own."""
    tensors = [
        T("stream", (len(STREAM),), "uint8", data=list(STREAM)),
        T("constants", (len(CONSTANTS),), "uint8", data=list(CONSTANTS)),
        T("scratch", (33,), "uint8"),
        T("fast", (64,), "uint8"),
        T("a", (1, 8)),
        T("b", (1, 4)),
        T("y", (1, 8)),
        T("z", (1, 4)),
    ]
    given: dict[str, Any] = {"custom": b"\x01\x04\x01", "inputs": range(6), "outputs": (6, 7)}
    given |= changes
    op = Op("ethos-u", given["inputs"], given["outputs"], custom=given["custom"])
    sub = Sub(given.get("tensors", tensors), [op], (4, 5), given["outputs"])
    return TFLite(model(sub))


def test_commands_with_addresses_of_their_own(tmp_path: Path) -> None:
    module = made(written())
    library = launched(module, tmp_path, from_region=3, to_region=5, length=8)
    (inputs,) = samples(module, 1)
    status, outputs = library.run(inputs, [None])
    assert status == 0
    np.testing.assert_array_equal(outputs["y"], (inputs["a"].astype(int) + 1).astype(np.int8))
    assert sizes(library) == [20, 33, 64, 8, 4, 8, 4]
    assert library.number("same_memory").value == library.number("misaligned").value == 0
    assert noted(library, "noted_commands", 40) == STREAM
    assert noted(library, "noted_constants", 20) == CONSTANTS
    library.number("status").value = 3
    assert library.run(inputs, [None])[0] == -1
    assert library.number("is_open").value == 0


def test_the_archive_says_so() -> None:
    files = bundle([made(VELA)]).files
    header = files["codegen/host/include/tvmgen_npu.h"].decode()
    assert "struct tvmgen_npu_devices {\n  void *ethos_u;\n};" in header
    about = json.loads(files["metadata.json"])["modules"]["npu"]
    assert about["external_dependencies"][0]["short_name"] == "ethos-u-core-driver"


def test_tvms_spelling_and_the_error_without_a_backend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "m.tar")
    asked = ["compile", str(VELA), "-o", out]
    assert main([*asked, "--target", "ethos-u,cmsis-nn,c -mcpu=cortex-m55"]) == 0
    assert capsys.readouterr().out.startswith("1 of 1 nodes are for ethos-u, cmsis-nn\n")
    assert main(asked) == 2
    assert "name the backend ethos-u" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"custom": b"\x02\x04\x01"}, "options of another version than 1"),
        ({"inputs": (4, 1, 2, 3, 5)}, "commands that are computed at run time"),
        ({"inputs": (0, 1)}, "has no input 2"),
        ({"inputs": (0, 1, 2, 2, 4, 5, 0)}, "data that are constant"),
        ({"inputs": (0, 1, 2, 2, 4, 5, 4, 5)}, "9 base addresses; supported: 8"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(MlfError, match=said):
        made(written(**changes))


def test_damaged_places_are_refused() -> None:
    """Metadata that place the input behind the scratch memory, or are cut off."""
    data = VELA.read_bytes()
    places = np.array([0, 1, 5, -1, -1, 0, 16, 0], "<i4").tobytes()
    assert data.count(places) == 1
    beyond = np.array([0, 1, 5, -1, -1, 0, 25, 0], "<i4").tobytes()
    with pytest.raises(MlfError, match="beyond its 48 bytes of scratch memory"):
        made(TFLite(data.replace(places, beyond)))
    wrong = np.array([0, 1, 9, -1, -1, 0, 16, 0], "<i4").tobytes()
    with pytest.raises(MlfError, match="OfflineMemoryAllocation of the wrong size"):
        made(TFLite(data.replace(places, wrong)))
