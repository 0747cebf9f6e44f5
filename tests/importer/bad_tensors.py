"""Bad models whose inputs, weights or external data are wrong."""

from __future__ import annotations

from pathlib import Path

from bad_corpus import FLOAT, add_weight, case, model, node, raw, tensor, value
from onnx import ModelProto, SparseTensorProto, TensorProto, TypeProto, ValueInfoProto, helper


@case
def input_dimension_negative(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1, -4))])


@case
def input_dimension_symbolic(_: Path) -> ModelProto:
    return model(inputs=[value("x", ("N", 4))])


@case
def input_dimension_unknown(_: Path) -> ModelProto:
    made = model()
    made.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    return made


@case
def input_dimension_named_hostile(_: Path) -> ModelProto:
    return model(inputs=[value("x", ("N\nFILE: error", 4))])


@case
def input_dimension_of_2_to_the_62(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1 << 62,))])


@case
def input_product_overflows_64_bits(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1 << 32, 1 << 32))])


@case
def input_of_two_gigabytes(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1 << 29,))])


@case
def input_without_shape(_: Path) -> ModelProto:
    return model(inputs=[value("x", None)])


@case
def input_without_type(_: Path) -> ModelProto:
    return model(inputs=[ValueInfoProto(name="x")])


@case
def input_of_strings(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1, 4), TensorProto.STRING)])


@case
def input_of_type_99(_: Path) -> ModelProto:
    made = model()
    made.graph.input[0].type.tensor_type.elem_type = 99
    return made


@case
def input_sequence(_: Path) -> ModelProto:
    element = helper.make_tensor_type_proto(FLOAT, [1])
    made = helper.make_value_info("x", helper.make_sequence_type_proto(element))
    return model(inputs=[made])


@case
def input_optional(_: Path) -> ModelProto:
    element = helper.make_tensor_type_proto(FLOAT, [1])
    made = helper.make_value_info("x", helper.make_optional_type_proto(element))
    return model(inputs=[made])


@case
def input_map(_: Path) -> ModelProto:
    kind = TypeProto()
    kind.map_type.key_type = TensorProto.INT64
    return model(inputs=[helper.make_value_info("x", kind)])


@case
def input_sparse(_: Path) -> ModelProto:
    return model(inputs=[helper.make_sparse_tensor_value_info("x", FLOAT, [4])])


@case
def weight_negative(_: Path) -> ModelProto:
    return add_weight(raw("w", [-4], bytes(16)))


@case
def weight_of_2_to_the_62(_: Path) -> ModelProto:
    return add_weight(raw("w", [1 << 62], bytes(16)))


@case
def weight_product_overflows(_: Path) -> ModelProto:
    return add_weight(raw("w", [1 << 32, 1 << 32], bytes(16)))


@case
def weight_claims_a_gigabyte(_: Path) -> ModelProto:
    return add_weight(raw("w", [1 << 28], bytes(16)))


@case
def weight_short(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(15)))


@case
def weight_overlong(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(20)))


@case
def weight_without_data(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], b""))


@case
def weight_in_the_wrong_field(_: Path) -> ModelProto:
    made = raw("w", [4], b"")
    made.int32_data.extend([1, 2, 3, 4])
    return add_weight(made)


@case
def weight_in_two_fields(_: Path) -> ModelProto:
    made = raw("w", [4], bytes(16))
    made.float_data.extend([1, 2, 3, 4])
    return add_weight(made)


@case
def weight_given_twice(_: Path) -> ModelProto:
    weights = [tensor("w", [1.0] * 4), tensor("w", [2.0] * 4)]
    return model([node("Add", "x w")], weights=weights)


@case
def weight_without_name(_: Path) -> ModelProto:
    return add_weight(raw("", [4], bytes(16)))


@case
def weight_of_strings(_: Path) -> ModelProto:
    made = TensorProto(name="w", dims=[1], data_type=TensorProto.STRING, string_data=[b"a"])
    return add_weight(made)


@case
def weight_complex(_: Path) -> ModelProto:
    return add_weight(raw("w", [1], bytes(8), TensorProto.COMPLEX64))


@case
def weight_float8_too_short(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(3), TensorProto.FLOAT8E4M3FN))


@case
def weight_bfloat16_too_short(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(7), TensorProto.BFLOAT16))


@case
def weight_int4_too_short(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(1), TensorProto.INT4))


@case
def weight_int4_too_long(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(3), TensorProto.INT4))


@case
def weight_uint2_too_long(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(2), TensorProto.UINT2))


@case
def weight_undefined(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(16), TensorProto.UNDEFINED))


@case
def weight_of_type_1000(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(16), 1000))


@case
def weight_in_segments(_: Path) -> ModelProto:
    made = raw("w", [4], bytes(16))
    made.segment.begin, made.segment.end = 0, 4
    return add_weight(made)


@case
def weight_sparse(_: Path) -> ModelProto:
    made = add_weight(tensor("v", [1.0]))
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    made.graph.sparse_initializer.append(
        SparseTensorProto(values=tensor("w", [1.0]), indices=indices, dims=[4])
    )
    return made


@case
def constant_sparse(_: Path) -> ModelProto:
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    sparse = SparseTensorProto(values=tensor("w", [1.0]), indices=indices, dims=[4])
    return model([node("Constant", "", "c", sparse_value=sparse), node("Add", "x c")])


@case
def constant_with_short_data(_: Path) -> ModelProto:
    return model([node("Constant", "", "c", value=raw("w", [4], bytes(3))), node("Add", "x c")])


@case
def constant_of_strings(_: Path) -> ModelProto:
    return model([node("Constant", "", "c", value_string="a"), node("Add", "x c")])
