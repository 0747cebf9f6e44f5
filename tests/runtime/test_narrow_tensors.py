"""Inputs and outputs of types that numpy lacks, several elements of which may share a byte."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import mlftool
from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle, write_tar
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.load import LoadedArchive
from mlftool.runtime.runner import run_on_host

TYPES = {"int4": 21, "uint2": 25, "float4e2m1": 23, "bfloat16": 21, "float8e4m3fn": 21}
SHAPE = (3, 5)  # an odd number of elements


def model(kind: str) -> onnx.ModelProto:
    text = f'<ir_version: 13, opset_import: ["":{TYPES[kind]}]> g ({kind}[3,5] x) => '
    return onnx.parser.parse_model(text + f"({kind}[5,3] y) {{ y = Transpose(x) }}")


def some(kind: str) -> np.ndarray:
    code = model(kind).graph.input[0].type.tensor_type.elem_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(code)
    return (np.arange(15).reshape(SHAPE) % 7 - 3).astype(np.float32).astype(dtype)


@cache
def compiled(kind: str, executor: str) -> Bundle:
    return compile_modules([ModuleSpec(model(kind), "m", executor=executor)])


@pytest.mark.parametrize("executor", ["aot", "vm"])
@pytest.mark.parametrize("kind", TYPES)
def test_every_way_to_run_a_module(kind: str, executor: str, tmp_path: Path) -> None:
    x, bundle = some(kind), compiled(kind, executor)
    loaded = LoadedArchive(bundle, "", None).module()
    interface = read_interface(bundle)
    write_tar(bundle, tmp_path / "m.tar")
    assert main(["library", str(tmp_path / "m.tar"), "-o", str(tmp_path / "m.so")]) == 0
    results = [
        loaded.run({"x": x}),
        mlftool.load(tmp_path / "m.so").module().run({"x": x}),
        *run_on_host(build_runner(bundle, interface), interface, [{"x": x}] * 2).outputs,
    ]
    results += [loaded.interpreter().run({"x": x})] if executor == "vm" else []
    for got in results:
        assert (got["y"].dtype, got["y"].shape) == (x.dtype, (5, 3))
        assert got["y"].tobytes() == x.T.tobytes()


def test_files_keep_them_as_bytes(tmp_path: Path) -> None:
    """numpy writes a type of its own for them, which it does not read as theirs."""
    x = some("bfloat16")
    onnx.save(model("bfloat16"), tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", x=np.stack([x, -x]))
    np.savez(tmp_path / "want.npz", y=np.stack([x.T, -x.T]))
    files = ["--inputs", str(tmp_path / "in.npz"), "--expect", str(tmp_path / "want.npz")]
    assert main(["run", str(tmp_path / "m.onnx"), *files, "-o", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as made:
        np.testing.assert_array_equal(made["y"].view(ml_dtypes.bfloat16)[1], -x.T)
