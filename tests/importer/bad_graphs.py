"""Bad models whose nodes do not make a graph we can compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bad_corpus import case, model, node, tensor, value
from onnx import ModelProto, TensorProto, helper


@case
def unknown_operator(_: Path) -> ModelProto:
    return model([node("Reluu", "x")])


@case
def operator_without_name(_: Path) -> ModelProto:
    return model([node("", "x")])


@case
def operator_with_a_newline(_: Path) -> ModelProto:
    return model([node("Re\nFILE: error[MLF9999]: forged", "x")])


@case
def operator_of_a_newer_opset(_: Path) -> ModelProto:
    return model([node("Gelu", "x")])


@case
def unknown_domain(_: Path) -> ModelProto:
    return model([node("Relu", "x", domain="com.example")])


@case
def imported_unknown_domain(_: Path) -> ModelProto:
    made = model([node("Relu", "x", domain="com.example")], opsets=[("", 17), ("com.example", 1)])
    return made


@case
def optimised_for_one_processor(_: Path) -> ModelProto:
    domain = "com.microsoft.nchwc"
    return model([node("Conv", "x", domain=domain)], opsets=[("", 17), (domain, 1)])


@case
def operator_of_qonnx(_: Path) -> ModelProto:
    return model([node("Quant", "x", domain="qonnx.custom_op.general")])


@case
def known_operator_we_lack(_: Path) -> ModelProto:
    image = value("y", (4, 4, 3), TensorProto.UINT8)
    file = value("x", (64,), TensorProto.UINT8)
    return model([node("ImageDecoder", "x")], [file], [image], opsets=[("", 20)])


@case
def five_problems(_: Path) -> ModelProto:
    names = ["ImageDecoder", "Reluu", "ImageDecoder", "FooBar", "LSTMM"]
    steps = [node(op, f"v{i}", f"v{i + 1}", f"n{i}") for i, op in enumerate(names)]
    return model(steps, [value("v0", (4, 4))], [value("v5")], opsets=[("", 20)])


@case
def two_operators_we_lack(_: Path) -> ModelProto:
    steps = [node("ImageDecoder", "x", f"y{i}", f"n{i}") for i in range(2)]
    steps.append(node("Add", "y0 y1", "y", "sum"))
    image = [value(name, (4, 4, 3), TensorProto.UINT8) for name in ("y", "y0", "y1")]
    file = value("x", (64,), TensorProto.UINT8)
    made = model(steps, [file], image[:1], opsets=[("", 20)])
    made.graph.value_info.extend(image[1:])
    return made


@case
def node_reads_itself(_: Path) -> ModelProto:
    return model([node("Add", "x y")])


@case
def no_elements_of_huge_extents(_: Path) -> ModelProto:
    return model([node("Relu", "x")], [value("x", (1 << 62, 0, 4))], [value("y", (1 << 62, 0, 4))])


@case
def cycle_of_two(_: Path) -> ModelProto:
    return model([node("Add", "x b", "a", "p"), node("Relu", "a", "b", "q"), node("Relu", "b")])


@case
def missing_initialiser(_: Path) -> ModelProto:
    return model([node("Conv", "x w b")], [value("x", (1, 1, 4, 4))])


@case
def output_nobody_makes(_: Path) -> ModelProto:
    return model(outputs=[value("y"), value("z")])


@case
def value_made_twice(_: Path) -> ModelProto:
    return model([node("Relu", "x"), node("Neg", "x")])


@case
def node_makes_one_value_twice(_: Path) -> ModelProto:
    return model([node("Split", "x", "y y")])


@case
def node_overwrites_an_input(_: Path) -> ModelProto:
    return model([node("Relu", "x", "x"), node("Relu", "x")])


@case
def node_overwrites_a_weight(_: Path) -> ModelProto:
    return model([node("Relu", "x", "w"), node("Relu", "w")], weights=[tensor("w", [1.0])])


@case
def input_listed_twice(_: Path) -> ModelProto:
    return model(inputs=[value("x"), value("x")])


@case
def input_without_name(_: Path) -> ModelProto:
    return model(inputs=[value("x"), value("")])


@case
def output_without_name(_: Path) -> ModelProto:
    return model(outputs=[value("y"), value("")])


@case
def node_without_inputs(_: Path) -> ModelProto:
    return model([node("Relu", "")])


@case
def node_with_too_many_inputs(_: Path) -> ModelProto:
    return model([node("Relu", "x x x")])


@case
def node_with_too_many_outputs(_: Path) -> ModelProto:
    return model([node("Relu", "x", "y z")])


@case
def required_input_left_out(_: Path) -> ModelProto:
    return model([node("Add", "x -")])


@case
def shapes_do_not_broadcast(_: Path) -> ModelProto:
    return model([node("Add", "x w")], weights=[tensor("w", np.ones((3,)))])


@case
def matmul_of_unequal_depth(_: Path) -> ModelProto:
    return model([node("MatMul", "x w")], weights=[tensor("w", np.ones((5, 2)))])


@case
def gemm_of_unequal_depth(_: Path) -> ModelProto:
    return model([node("Gemm", "x w")], weights=[tensor("w", np.ones((5, 2)))])


@case
def conv_of_other_channels(_: Path) -> ModelProto:
    weights = [tensor("w", np.ones((2, 5, 3, 3)))]
    return model([node("Conv", "x w")], [value("x", (1, 1, 8, 8))], weights=weights)


@case
def conv_of_rank_one(_: Path) -> ModelProto:
    return model([node("Conv", "x w")], [value("x", (4,))], weights=[tensor("w", [1.0])])


@case
def kernel_larger_than_image(_: Path) -> ModelProto:
    weights = [tensor("w", np.ones((1, 1, 9, 9)))]
    return model([node("Conv", "x w")], [value("x", (1, 1, 4, 4))], weights=weights)


@case
def reshape_to_another_size(_: Path) -> ModelProto:
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [3, 3])
    return model([node("Reshape", "x s")], outputs=[value("y", (3, 3))], weights=[shape])


@case
def reshape_at_run_time(_: Path) -> ModelProto:
    inputs = [value("x"), value("s", (2,), TensorProto.INT64)]
    return model([node("Reshape", "x s")], inputs, [value("y", ("N", "M"))])


@case
def inputs_of_two_types(_: Path) -> ModelProto:
    return model([node("Add", "x z")], [value("x"), value("z", (1, 4), TensorProto.INT8)])


@case
def output_declared_with_another_type(_: Path) -> ModelProto:
    return model(outputs=[value("y", (1, 4), TensorProto.INT8)])


@case
def initialiser_without_name(_: Path) -> ModelProto:
    return model(weights=[tensor("", 1.0)])


@case
def initialiser_without_name_in_a_branch(_: Path) -> ModelProto:
    branches = {
        key: helper.make_graph(
            [node("Relu", "x", "z")], key, [], [value("z")], [tensor("", 1.0)] * then
        )
        for then, key in enumerate(("else_branch", "then_branch"))
    }
    true = node("Constant", "", "c", value=helper.make_tensor("c", TensorProto.BOOL, [], [True]))
    return model([true, node("If", "c", **branches)])


@case
def ngrams_without_an_index(_: Path) -> ModelProto:
    return _ngrams(ngram_indexes=[0])


@case
def ngrams_of_half_a_pair(_: Path) -> ModelProto:
    return _ngrams(ngram_counts=[0, 2], ngram_indexes=[0, 1])


@case
def ngrams_beyond_their_pool(_: Path) -> ModelProto:
    return _ngrams(ngram_counts=[0, 9])


@case
def ngrams_of_no_length(_: Path) -> ModelProto:
    return _ngrams(max_gram_length=0)


@case
def ngrams_of_other_numbers(_: Path) -> ModelProto:
    made = _ngrams(pool_int64s=[1 << 31, 2, 3])
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
    return made


@case
def ngrams_without_a_weight(_: Path) -> ModelProto:
    return _ngrams(weights=[1.0, 2.0])


def _ngrams(**attrs: object) -> ModelProto:
    usual = {"ngram_counts": [0], "ngram_indexes": [0, 1, 2], "pool_int64s": [1, 2, 3]}
    size = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"}
    ngrams = node("TfIdfVectorizer", "x", **{**usual, **size, **attrs})
    return model([ngrams], [value("x", (4,), TensorProto.INT64)], [value("y", (3,))])


@case
def transform_along_no_axis(_: Path) -> ModelProto:
    signal, result = value("x", (1, 8, 4, 1)), value("y", (1, 8, 4, 2))
    return model([node("DFT", "x", axis=1 << 62)], [signal], [result], opsets=[("", 19)])


@case
def rows_from_no_axis(_: Path) -> ModelProto:
    return model([node("LayerNormalization", "x s", axis=2)], weights=[tensor("s", [1.0])])


@case
def rows_from_an_axis_that_is_cut(_: Path) -> ModelProto:
    steps = [node("LayerNormalization", "x s", "y mean", axis=1 << 31)]
    return model(steps, weights=[tensor("s", [1.0])])


@case
def element_type_that_is_cut(_: Path) -> ModelProto:
    return model([node("EyeLike", "x", dtype=(1 << 32) + 1)])


@case
def response_of_no_channels(_: Path) -> ModelProto:
    image = (1, 2, 3, 3)
    return model([node("LRN", "x", size=0)], [value("x", image)], [value("y", image)])
