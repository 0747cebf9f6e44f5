"""Bad models whose inputs, weights or external data are wrong."""

from __future__ import annotations

import os
from pathlib import Path

from bad_corpus import FLOAT, add_weight, case, model, node, raw, tensor, value
from onnx import ModelProto, SparseTensorProto, TensorProto, TypeProto, ValueInfoProto, helper


@case("?")
def input_dimension_negative(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1, -4))])


@case("?")
def input_dimension_symbolic(_: Path) -> ModelProto:
    return model(inputs=[value("x", ("N", 4))])


@case("?")
def input_dimension_unknown(_: Path) -> ModelProto:
    made = model()
    made.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    return made


@case("?")
def input_dimension_named_hostile(_: Path) -> ModelProto:
    return model(inputs=[value("x", ("N\nFILE: error", 4))])


@case("?")
def input_dimension_of_2_to_the_62(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1 << 62,))])


@case("?")
def input_product_overflows_64_bits(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1 << 32, 1 << 32))])


@case("?")
def input_of_two_gigabytes(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1 << 29,))])


@case("?")
def input_of_many_dimensions(_: Path) -> ModelProto:
    return model(inputs=[value("x", [1] * 70)])


@case("?")
def input_without_elements(_: Path) -> ModelProto:
    return model(inputs=[value("x", (0, 4))], outputs=[value("y", (0, 4))])


@case("?")
def conv_input_without_elements(_: Path) -> ModelProto:
    weights = [tensor("w", [[[[1.0]]]])]
    return model([node("Conv", "x w")], [value("x", (1, 1, 0, 4))], weights=weights)


@case("?")
def input_without_shape(_: Path) -> ModelProto:
    return model(inputs=[value("x", None)])


@case("?")
def input_without_type(_: Path) -> ModelProto:
    return model(inputs=[ValueInfoProto(name="x")])


@case("?")
def input_of_strings(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1, 4), TensorProto.STRING)])


@case("?")
def input_of_bfloat16(_: Path) -> ModelProto:
    return model(inputs=[value("x", (1, 4), TensorProto.BFLOAT16)])


@case("?")
def input_of_type_99(_: Path) -> ModelProto:
    made = model()
    made.graph.input[0].type.tensor_type.elem_type = 99
    return made


@case("?")
def input_sequence(_: Path) -> ModelProto:
    element = helper.make_tensor_type_proto(FLOAT, [1])
    made = helper.make_value_info("x", helper.make_sequence_type_proto(element))
    return model(inputs=[made])


@case("?")
def input_optional(_: Path) -> ModelProto:
    element = helper.make_tensor_type_proto(FLOAT, [1])
    made = helper.make_value_info("x", helper.make_optional_type_proto(element))
    return model(inputs=[made])


@case("?")
def input_map(_: Path) -> ModelProto:
    kind = TypeProto()
    kind.map_type.key_type = TensorProto.INT64
    return model(inputs=[helper.make_value_info("x", kind)])


@case("?")
def input_sparse(_: Path) -> ModelProto:
    return model(inputs=[helper.make_sparse_tensor_value_info("x", FLOAT, [4])])


@case("?")
def weight_negative(_: Path) -> ModelProto:
    return add_weight(raw("w", [-4], bytes(16)))


@case("?")
def weight_of_2_to_the_62(_: Path) -> ModelProto:
    return add_weight(raw("w", [1 << 62], bytes(16)))


@case("?")
def weight_product_overflows(_: Path) -> ModelProto:
    return add_weight(raw("w", [1 << 32, 1 << 32], bytes(16)))


@case("?")
def weight_claims_a_gigabyte(_: Path) -> ModelProto:
    return add_weight(raw("w", [1 << 28], bytes(16)))


@case("?")
def weight_short(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(15)))


@case("?")
def weight_overlong(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(20)))


@case("?")
def weight_without_data(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], b""))


@case("?")
def weight_in_the_wrong_field(_: Path) -> ModelProto:
    made = raw("w", [4], b"")
    made.int32_data.extend([1, 2, 3, 4])
    return add_weight(made)


@case("?")
def weight_in_two_fields(_: Path) -> ModelProto:
    made = raw("w", [4], bytes(16))
    made.float_data.extend([1, 2, 3, 4])
    return add_weight(made)


@case("?")
def weight_given_twice(_: Path) -> ModelProto:
    weights = [tensor("w", [1.0] * 4), tensor("w", [2.0] * 4)]
    return model([node("Add", "x w")], weights=weights)


@case("?")
def weight_without_name(_: Path) -> ModelProto:
    return add_weight(raw("", [4], bytes(16)))


@case("?")
def weight_of_strings(_: Path) -> ModelProto:
    made = TensorProto(name="w", dims=[1], data_type=TensorProto.STRING, string_data=[b"a"])
    return add_weight(made)


@case("?")
def weight_complex(_: Path) -> ModelProto:
    return add_weight(raw("w", [1], bytes(8), TensorProto.COMPLEX64))


@case("?")
def weight_float8(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(4), TensorProto.FLOAT8E4M3FN))


@case("?")
def weight_bfloat16(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(8), TensorProto.BFLOAT16))


@case("?")
def weight_int4(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(2), TensorProto.INT4))


@case("?")
def weight_undefined(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(16), TensorProto.UNDEFINED))


@case("?")
def weight_of_type_1000(_: Path) -> ModelProto:
    return add_weight(raw("w", [4], bytes(16), 1000))


@case("?")
def weight_in_segments(_: Path) -> ModelProto:
    made = raw("w", [4], bytes(16))
    made.segment.begin, made.segment.end = 0, 4
    return add_weight(made)


@case("?")
def weight_sparse(_: Path) -> ModelProto:
    made = add_weight(tensor("v", [1.0]))
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    made.graph.sparse_initializer.append(
        SparseTensorProto(values=tensor("w", [1.0]), indices=indices, dims=[4])
    )
    return made


@case("?")
def constant_sparse(_: Path) -> ModelProto:
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    sparse = SparseTensorProto(values=tensor("w", [1.0]), indices=indices, dims=[4])
    return model([node("Constant", "", "c", sparse_value=sparse), node("Add", "x c")])


@case("?")
def constant_with_short_data(_: Path) -> ModelProto:
    return model([node("Constant", "", "c", value=raw("w", [4], bytes(3))), node("Add", "x c")])


@case("?")
def constant_of_strings(_: Path) -> ModelProto:
    return model([node("Constant", "", "c", value_string="a"), node("Add", "x c")])


def external(name: str = "w", **keys: str) -> TensorProto:
    """A weight of four floats whose data lie in another file."""
    made = TensorProto(name=name, dims=[4], data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    for key, text in keys.items():
        made.external_data.add(key=key, value=text)
    return made


def _data(folder: Path, name: str = "data.bin", size: int = 16) -> Path:
    (folder / name).write_bytes(bytes(size))
    return folder / name


@case("?")
def external_missing(_: Path) -> ModelProto:
    return add_weight(external(location="data.bin"))


@case("?")
def external_without_location(_: Path) -> ModelProto:
    return add_weight(external(offset="0"))


@case("?")
def external_absolute(_: Path) -> ModelProto:
    return add_weight(external(location="/etc/hostname"))


@case("?")
def external_outside(_: Path) -> ModelProto:
    return add_weight(external(location="../data.bin"))


@case("?")
def external_outside_by_a_detour(_: Path) -> ModelProto:
    return add_weight(external(location="a/../../data.bin"))


@case("?")
def external_with_backslashes(_: Path) -> ModelProto:
    return add_weight(external(location="..\\data.bin"))


@case("?")
def external_with_a_nul(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin\0.png"))


@case("?")
def external_with_a_newline(_: Path) -> ModelProto:
    return add_weight(external(location="data\nFILE: error[MLF9999]: forged"))


@case("?")
def external_is_the_folder(_: Path) -> ModelProto:
    return add_weight(external(location="."))


@case("?")
def external_name_too_long(_: Path) -> ModelProto:
    return add_weight(external(location="d" * 5000))


@case("?")
def external_through_a_link(folder: Path) -> ModelProto:
    (folder / "link.bin").symlink_to(_data(folder))
    return add_weight(external(location="link.bin"))


@case("?")
def external_through_a_hard_link(folder: Path) -> ModelProto:
    os.link(_data(folder), folder / "link.bin")
    return add_weight(external(location="link.bin"))


@case("?")
def external_through_a_linked_folder(folder: Path) -> ModelProto:
    (folder / "real").mkdir()
    _data(folder / "real")
    (folder / "sub").symlink_to(folder / "real")
    return add_weight(external(location="sub/data.bin"))


@case("?")
def external_is_a_pipe(folder: Path) -> ModelProto:
    os.mkfifo(folder / "data.bin")
    return add_weight(external(location="data.bin"))


@case("?")
def external_too_short(folder: Path) -> ModelProto:
    _data(folder, size=8)
    return add_weight(external(location="data.bin"))


@case("?")
def external_too_long(folder: Path) -> ModelProto:
    _data(folder, size=64)
    return add_weight(external(location="data.bin"))


@case("?")
def external_offset_beyond_the_end(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="1000", length="16"))


@case("?")
def external_offset_negative(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="-16", length="16"))


@case("?")
def external_offset_no_number(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="many"))


@case("?")
def external_offset_with_4500_digits(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="9" * 4500))


@case("?")
def external_length_beyond_the_end(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="8", length="16"))


@case("?")
def external_length_enormous(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", length=str(1 << 60)))


@case("?")
def external_length_unlike_the_shape(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", length="8"))


@case("?")
def external_injected_keys(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", __class__="x", basepath="/etc"))


@case("?")
def external_location_twice(folder: Path) -> ModelProto:
    _data(folder)
    made = external(location="data.bin")
    made.external_data.add(key="location", value="/etc/hostname")
    return add_weight(made)


@case("?")
def external_with_wrong_checksum(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", checksum="0" * 40))


@case("?")
def external_in_a_constant(_: Path) -> ModelProto:
    return model([node("Constant", "", "c", value=external(location="/a")), node("Add", "x c")])


@case("?", "?")
def external_two_missing(_: Path) -> ModelProto:
    weights = [external(n, location=f"{n}.bin") for n in "vw"]
    return model([node("Add", "v w")], weights=weights)


@case("?")
def external_in_a_sparse_weight(_: Path) -> ModelProto:
    made = add_weight(tensor("v", [1.0]))
    indices = helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 2, 3])
    made.graph.sparse_initializer.append(
        SparseTensorProto(values=external(location="/etc/hostname"), indices=indices, dims=[4])
    )
    return made
