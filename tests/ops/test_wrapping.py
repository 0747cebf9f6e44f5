"""Integer arithmetic wraps around, as ONNX's does, and is never undefined in C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.runner import run_on_host

OPERATORS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "int64")


def model(op: str, dtype: str) -> onnx.ModelProto:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    a, b, y = (helper.make_tensor_value_info(n, code, [64]) for n in "aby")
    graph = helper.make_graph([helper.make_node(op, ["a", "b"], ["y"])], "g", [a, b], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_wrap_around(dtype: str, tmp_path: Path) -> None:
    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    a, b = random.integers(limits.min, limits.max, (2, 64), dtype=dtype, endpoint=True)
    a[:2] = b[:2] = limits.max, limits.min
    for op, oracle in OPERATORS.items():
        onnx.save(model(op, dtype), tmp_path / "m.onnx")
        bundle = compile_modules([ModuleSpec(tmp_path / "m.onnx", "m")])
        interface = read_interface(bundle)
        program = build_runner(bundle, interface, sanitize=True)
        result = run_on_host(program, interface, [{"a": a, "b": b}])
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(result.outputs[0]["y"], oracle(a, b))
