"""Inputs that are given a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

INT64 = TensorProto.INT64


def rate_decides() -> ModelProto:
    """An If by the input `rate` whose one branch is a Reshape that 4 elements do not fit."""
    shapes = {"then": [2, 2], "else": [3, 3]}
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Reshape", ["x", f"{name}_shape"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
            [helper.make_tensor(f"{name}_shape", INT64, [2], shape)],
        )
        for name, shape in shapes.items()
    }
    nodes = [
        helper.make_node("Equal", ["rate", "khz"], ["same"]),
        helper.make_node("If", ["same"], ["picked"], **branches),
        helper.make_node("Mul", ["picked", "gain"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
        helper.make_tensor_value_info("rate", INT64, []),
        helper.make_tensor_value_info("gain", TensorProto.FLOAT, ["n"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    khz = helper.make_tensor("khz", INT64, [], [16])
    graph = helper.make_graph(nodes, "g", inputs, outputs, [khz])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(rate_decides().SerializeToString())
    return path


def test_only_the_branch_that_is_meant_is_compiled(model: Path, tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32)
    np.savez(tmp_path / "in.npz", x=x[np.newaxis])
    command = ["run", str(model), "--inputs", str(tmp_path / "in.npz")]
    command += ["-o", str(tmp_path / "out.npz")]
    for executor in ("aot", "debug"):
        given = ["--input-value", "rate:16", "--input-value", "gain:0.5,-2"]
        assert main([*command, "--executor", executor, *given]) == 0
        with np.load(tmp_path / "out.npz") as file:
            np.testing.assert_array_equal(file["y"][0], x.reshape(2, 2) * np.float32([0.5, -2]))


def test_one_number_fills_a_shape(model: Path) -> None:
    values = {"rate": (16,), "gain": (3,)}
    module = compile_module(ModuleSpec(model, input_shapes={"gain": (2,)}, input_values=values))
    assert module.imported.inputs == ("x",)
    np.testing.assert_array_equal(module.imported.consts["gain"], np.float32([3, 3]))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rat": (16,)}, "input 'rat': is not an input of the model"),
        ({"rate": (16.5,)}, "input 'rate': got 16.5, expected a whole number from -9223372036854"),
        ({"rate": (1 << 63,)}, "input 'rate': got 9223372036854775808, expected a whole number"),
        ({"rate": (1, 2)}, "input 'rate': got 2 numbers for shape [], expected 1"),
        ({"x": (1, 2, 3)}, "input 'x': got 3 numbers for shape [4], expected 1 or 4"),
    ],
)
def test_what_does_not_fit_is_refused(
    values: dict[str, tuple[float, ...]], said: str, model: Path
) -> None:
    with pytest.raises(MlfError) as refused:
        compile_module(ModuleSpec(model, input_values={"gain": (1, 1), **values}))
    (problem,) = refused.value.problems
    assert problem.code == "MLF0209"
    assert f"{problem.path}: {problem.message}".startswith(said)


@pytest.mark.parametrize("text", ["rate", "rate:", "rate:x", ":1", "rate:1,,2", "rate:0x10"])
def test_what_is_no_number_is_refused(
    text: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.tar"
    assert main(["compile", str(model), "-o", str(out), "--input-value", text]) == 2
    expected = f"--input-value: got '{text}', expected NAME:16000 or NAME:0.5,1,2"
    assert expected in capsys.readouterr().err
    assert not out.exists()


ONE_HOT = """(int64[3] x, int64 d) => (float[3,k] y) { v = Constant <value = float[2] {0, 1}> ()
    y = OneHot (x, d, v) }"""
RESIZE = """(float[1,1,4,4] x, int64[4] d) => (float[a,b,c,e] y) { y = Resize (x, "", "", d) }"""


@pytest.mark.parametrize(
    ("node", "advice", "options", "shape"),
    [
        (ONE_HOT, "--input-value NAME:VALUE", {"input_values": {"d": (4,)}}, (3, 4)),
        (RESIZE, "--input-shape y:", {"input_shapes": {"y": (1, 1, 8, 6)}}, (1, 1, 8, 6)),
        (RESIZE, "", {"input_values": {"d": (1, 1, 8, 6)}}, (1, 1, 8, 6)),
    ],
)
def test_what_a_message_on_a_computed_shape_advises_helps(
    node: str, advice: str, options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]>\ng {node}')
    with pytest.raises(MlfError) as refused:
        compile_module(ModuleSpec(model))
    (problem,) = refused.value.problems
    assert problem.code == "MLF0206"
    assert advice in problem.help
    assert compile_module(ModuleSpec(model, **options)).imported.types["y"].shape == shape
