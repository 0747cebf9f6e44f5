"""Bad models whose bytes or outermost structure are wrong."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from bad_corpus import case, field, model, node, value, varint
from onnx import ModelProto, helper


@case
def missing_file(folder: Path) -> Path:
    return folder / "model.onnx"


@case
def missing_folder(folder: Path) -> Path:
    return folder / "nowhere" / "model.onnx"


@case
def folder_in_place_of_file(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.mkdir()
    return path


@case
def file_in_place_of_folder(folder: Path) -> Path:
    (folder / "file").write_bytes(b"")
    return folder / "file" / "model.onnx"


@case
def dangling_link(folder: Path) -> Path:
    (folder / "model.onnx").symlink_to(folder / "gone")
    return folder / "model.onnx"


@case
def link_to_itself(folder: Path) -> Path:
    (folder / "model.onnx").symlink_to(folder / "model.onnx")
    return folder / "model.onnx"


@case
def named_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "model.onnx")
    return folder / "model.onnx"


@case
def device_without_end(_: Path) -> Path:
    return Path("/dev/zero")


@case
def file_of_three_gigabytes(folder: Path) -> Path:
    path = folder / "model.onnx"
    with path.open("wb") as file:
        file.truncate(3 << 30)  # a hole, which takes no space
    return path


@case
def empty_file(_: Path) -> bytes:
    return b""


@case
def text(_: Path) -> bytes:
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@case
def zeros(_: Path) -> bytes:
    return bytes(4096)


@case
def ones(_: Path) -> bytes:
    return b"\xff" * 4096


@case
def zipped(_: Path) -> bytes:
    return gzip.compress(model().SerializeToString(), mtime=0)


def _cut(share: float) -> bytes:
    data = model().SerializeToString()
    return data[: int(len(data) * share)]


@case
def truncated_in_the_header(_: Path) -> bytes:
    return _cut(0.1)


@case
def truncated_in_the_node(_: Path) -> bytes:
    return _cut(0.4)


@case
def truncated_in_the_output(_: Path) -> bytes:
    return _cut(0.8)


@case
def truncated_by_one_byte(_: Path) -> bytes:
    return model().SerializeToString()[:-1]


@case
def trailing_junk(_: Path) -> bytes:
    return model().SerializeToString() + b"\xff\xff\xff"


@case
def claims_four_gigabytes(_: Path) -> bytes:
    return varint(7 << 3 | 2) + varint(1 << 32) + b"x"


@case
def nested_message_claims_too_much(_: Path) -> bytes:
    return field(7, varint(1 << 3 | 2) + varint(2**31 - 1))


@case
def messages_nested_a_thousand_deep(_: Path) -> bytes:
    graph = b""
    for _level in range(1000):  # graph -> node -> attribute -> graph
        graph = field(1, field(5, field(6, graph)))
    return field(7, graph)


@case
def no_graph(_: Path) -> ModelProto:
    return ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])


@case
def no_outputs(_: Path) -> ModelProto:
    return model(outputs=[])


@case
def no_nodes(_: Path) -> ModelProto:
    made = model()
    del made.graph.node[:]
    return made


@case
def no_opset(_: Path) -> ModelProto:
    return model(opsets=[])


@case
def opset_of_another_domain_only(_: Path) -> ModelProto:
    return model(opsets=[("com.microsoft", 1)])


@case
def opset_too_new(_: Path) -> ModelProto:
    return model(opsets=[("", 1000)])


@case
def opset_negative(_: Path) -> ModelProto:
    return model(opsets=[("", -1)])


@case
def opset_twice(_: Path) -> ModelProto:
    return model(opsets=[("", 17), ("ai.onnx", 13)])


@case
def opset_of_2_to_the_62(_: Path) -> ModelProto:
    return model(opsets=[("", 1 << 62)])


@case
def name_not_utf8(_: Path) -> bytes:
    return (
        model(outputs=[value("QQ")], nodes=[node("Relu", "x", "QQ")])
        .SerializeToString()
        .replace(b"QQ", b"\xff\xfe")
    )


@case
def operator_not_utf8(_: Path) -> bytes:
    return model().SerializeToString().replace(b"Relu", b"\xc3\x28\xa0\xa1")
