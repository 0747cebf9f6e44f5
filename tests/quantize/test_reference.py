"""The reference computes integer sums as the standard says, on processors without VNNI, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from mlftool.quantize import reference
from mlftool.quantize.reference import session_of

DEPTH = 64
SUM = DEPTH * 255 * 127  # of the largest products: pairs of them saturate at 16 bits
STEP = 20000  # of outputs
ONE, X_ZERO, W_ZERO = np.float32(1), np.uint8(0), np.int8(0)
CONSTANTS: dict[str, Any] = {"one": ONE, "xz": X_ZERO, "wz": W_ZERO, "step": np.float32(STEP)}
LINEAR = ["x", "one", "xz", "w", "one", "wz"]
STORED = ["step", "xz"]
LEVELS = ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"]


def of(op: str, *inputs: str, output: str = "y") -> onnx.NodeProto:
    domain = "com.microsoft" if op in ("QGemm", "MatMulIntegerToFloat") else ""
    return helper.make_node(op, inputs, [output], domain=domain)


CASES = {
    "integer": ([of("MatMulInteger", "x", "w")], SUM),
    "integer with zeros": ([of("MatMulInteger", "x", "w", "xz", "wz")], SUM),
    "integer to float": ([of("MatMulIntegerToFloat", "x", "w", "one", "one", "xz", "wz")], SUM),
    "linear": ([of("QLinearMatMul", *LINEAR, *STORED)], round(SUM / STEP)),
    "gemm": ([of("QGemm", *LINEAR, "", *STORED)], round(SUM / STEP)),
    "convolution": ([of("QLinearConv", *LINEAR, *STORED)], round(SUM / STEP)),
    "dequantised": (
        [
            of("DequantizeLinear", "x", "one", "xz", output="a"),
            of("DequantizeLinear", "w", "one", "wz", output="b"),
            of("MatMul", "a", "b", output="c"),
            of("QuantizeLinear", "c", *STORED),
        ],
        round(SUM / STEP),
    ),
    "without zeros": (
        [
            of("DequantizeLinear", "x", "one", "xz", output="a"),
            of("DequantizeLinear", "w", "one", output="b"),
            of("Gemm", "a", "b", output="c"),
            of("QuantizeLinear", "c", *STORED),
        ],
        round(SUM / STEP),
    ),
}


@pytest.fixture(autouse=True, params=[True, False], ids=["raised", "as this processor needs it"])
def raised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights become uint8 on every processor, or where that is needed."""
    if request.param:
        monkeypatch.setattr(reference, "saturates", lambda: True)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES)
def test_sums_do_not_saturate(case: str, level: str, constant: bool) -> None:
    nodes, wanted = CASES[case]
    image = (1, 1) if case == "convolution" else ()
    x = np.full((2, DEPTH, *image), 255, np.uint8)
    w = np.full((4, DEPTH, *image) if image else (DEPTH, 4), 127, np.int8)
    kind = {c: onnx.TensorProto.INT32 for c in ("integer", "integer with zeros")}
    kind["integer to float"] = onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)]
    feeds, stored = {"x": x}, dict(CONSTANTS)
    if constant:
        stored["w"] = w
    else:
        feeds["w"] = w
        inputs.append(helper.make_tensor_value_info("w", onnx.TensorProto.INT8, w.shape))
    graph = helper.make_graph(
        nodes,
        "sums",
        inputs,
        [helper.make_tensor_value_info("y", kind.get(case, onnx.TensorProto.UINT8), None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def configure(options: Any) -> None:
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)

    (made,) = session_of(model, configure).run(None, feeds)
    assert (made == wanted).all()


@pytest.mark.parametrize("level", LEVELS)
def test_int8_activations_stay(level: str) -> None:
    """onnxruntime makes them uint8 by default, and the products of those saturate."""
    nodes = [
        of("DequantizeLinear", "x", "one", "wz", output="a"),
        of("DequantizeLinear", "w", "one", "wz", output="b"),
        of("MatMul", "a", "b", output="c"),
        of("QuantizeLinear", "c", "step", "wz"),
    ]
    x, w = np.full((2, DEPTH), 127, np.int8), np.full((DEPTH, 4), 127, np.int8)
    graph = helper.make_graph(
        nodes,
        "sums",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT8, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT8, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in {**CONSTANTS, "w": w}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def configure(options: Any) -> None:
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)

    (made,) = session_of(model, configure).run(None, {"x": x})
    assert (made == round(DEPTH * 127 * 127 / STEP)).all()


def test_sums_in_functions_do_not_saturate() -> None:
    inputs = ["x", "w", "one", "xz", "wz"]
    body = [of("MatMulIntegerToFloat", "x", "w", "one", "one", "xz", "wz")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    function = helper.make_function("own", "Sums", inputs, ["y"], body, opsets)
    x, w = np.full((2, DEPTH), 255, np.uint8), np.full((DEPTH, 4), 127, np.int8)
    stored = {"w": w, "one": ONE, "xz": X_ZERO, "wz": W_ZERO}
    graph = helper.make_graph(
        [helper.make_node("Sums", inputs, ["y"], domain="own")],
        "sums",
        [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()],
    )
    opsets.append(helper.make_opsetid("own", 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[function])
    (made,) = session_of(model, lambda options: None).run(None, {"x": x})
    assert (made == SUM).all()


def test_sums_in_subgraphs_do_not_saturate() -> None:
    """What they multiply by is in the graph around them or in their own."""
    kinds = {"x": onnx.TensorProto.UINT8, "choice": onnx.TensorProto.BOOL}
    sums = [of("MatMulInteger", "x", "w", "xz", "wz", output="integers")]
    scaled = [*sums, of("Cast", "integers"), of("DequantizeLinear", "w", "one", output="floats")]
    scaled[1].attribute.append(helper.make_attribute("to", onnx.TensorProto.FLOAT))
    products = [of("DequantizeLinear", "x", "one", "xz", output="a"), of("MatMul", "a", "floats")]
    stored = {"w": np.full((DEPTH, 4), 127, np.int8), **CONSTANTS}
    result = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (2, 4))]
    branch = helper.make_graph(scaled[:2], "integers", [], result)
    other = helper.make_graph(products, "floats", [], result)
    choose = helper.make_node("If", ["choice"], ["y"], then_branch=branch, else_branch=other)
    inputs = [
        helper.make_tensor_value_info(name, kind, (2, DEPTH) if name == "x" else ())
        for name, kind in kinds.items()
    ]
    initialisers = [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()]
    graph = helper.make_graph([scaled[2], choose], "g", inputs, result, initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = session_of(model, lambda options: None)
    for choice in (True, False):
        x = np.full((2, DEPTH), 255, np.uint8)
        (made,) = session.run(None, {"x": x, "choice": np.asarray(choice)})
        assert (made == SUM).all(), choice
