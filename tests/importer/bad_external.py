"""Bad models whose external data are missing, elsewhere, linked or of the wrong size."""

from __future__ import annotations

import os
from pathlib import Path

from bad_corpus import FLOAT, add_weight, case, model, node, tensor
from onnx import ModelProto, SparseTensorProto, TensorProto, helper


def external(name: str = "w", **keys: str) -> TensorProto:
    """A weight of four floats whose data lie in another file."""
    made = TensorProto(name=name, dims=[4], data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    for key, text in keys.items():
        made.external_data.add(key=key, value=text)
    return made


def _data(folder: Path, name: str = "data.bin", size: int = 16) -> Path:
    (folder / name).write_bytes(bytes(size))
    return folder / name


@case
def external_missing(_: Path) -> ModelProto:
    return add_weight(external(location="data.bin"))


@case
def external_without_location(_: Path) -> ModelProto:
    return add_weight(external(offset="0"))


@case
def external_absolute(_: Path) -> ModelProto:
    return add_weight(external(location="/etc/hostname"))


@case
def external_outside(_: Path) -> ModelProto:
    return add_weight(external(location="../data.bin"))


@case
def external_outside_by_a_detour(_: Path) -> ModelProto:
    return add_weight(external(location="a/../../data.bin"))


@case
def external_with_backslashes(_: Path) -> ModelProto:
    return add_weight(external(location="..\\data.bin"))


@case
def external_with_a_nul(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin\0.png"))


@case
def external_with_a_newline(_: Path) -> ModelProto:
    return add_weight(external(location="data\nFILE: error[MLF9999]: forged"))


@case
def external_is_the_folder(_: Path) -> ModelProto:
    return add_weight(external(location="."))


@case
def external_name_too_long(_: Path) -> ModelProto:
    return add_weight(external(location="d" * 5000))


@case
def external_through_a_link(folder: Path) -> ModelProto:
    (folder / "link.bin").symlink_to(_data(folder))
    return add_weight(external(location="link.bin"))


@case
def external_through_a_hard_link(folder: Path) -> ModelProto:
    os.link(_data(folder), folder / "link.bin")
    return add_weight(external(location="link.bin"))


@case
def external_through_a_linked_folder(folder: Path) -> ModelProto:
    (folder / "real").mkdir()
    _data(folder / "real")
    (folder / "sub").symlink_to(folder / "real")
    return add_weight(external(location="sub/data.bin"))


@case
def external_is_a_pipe(folder: Path) -> ModelProto:
    os.mkfifo(folder / "data.bin")
    return add_weight(external(location="data.bin"))


@case
def external_too_short(folder: Path) -> ModelProto:
    _data(folder, size=8)
    return add_weight(external(location="data.bin"))


@case
def external_too_long(folder: Path) -> ModelProto:
    _data(folder, size=64)
    return add_weight(external(location="data.bin"))


@case
def external_offset_beyond_the_end(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="1000", length="16"))


@case
def external_offset_negative(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="-16", length="16"))


@case
def external_offset_no_number(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="many"))


@case
def external_offset_with_4500_digits(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="9" * 4500))


@case
def external_length_beyond_the_end(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", offset="8", length="16"))


@case
def external_length_enormous(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", length=str(1 << 60)))


@case
def external_length_unlike_the_shape(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", length="8"))


@case
def external_injected_keys(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", __class__="x", basepath="/etc"))


@case
def external_location_twice(folder: Path) -> ModelProto:
    _data(folder)
    made = external(location="data.bin")
    made.external_data.add(key="location", value="/etc/hostname")
    return add_weight(made)


@case
def external_with_wrong_checksum(folder: Path) -> ModelProto:
    _data(folder)
    return add_weight(external(location="data.bin", checksum="0" * 40))


@case
def external_in_a_constant(_: Path) -> ModelProto:
    return model([node("Constant", "", "c", value=external(location="/a")), node("Add", "x c")])


@case
def external_two_missing(_: Path) -> ModelProto:
    weights = [external(n, location=f"{n}.bin") for n in "vw"]
    return model([node("Add", "v w")], weights=weights)


@case
def external_in_a_sparse_weight(_: Path) -> ModelProto:
    made = add_weight(tensor("v", [1.0]))
    indices = helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 2, 3])
    made.graph.sparse_initializer.append(
        SparseTensorProto(values=external(location="/etc/hostname"), indices=indices, dims=[4])
    )
    return made
