"""Reading an ONNX file that we do not trust: its size, its bytes, its external data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto
from onnx.external_data_helper import load_external_data_for_model

from mlftool.errors import MlfError, Problem

MAX_BYTES = 2**31 - 1  # protobuf's own limit on one message


def load_model(path: Path, data_files: Sequence[Path] = ()) -> ModelProto:
    """The parsed model with its external data inside.

    `data_files` are external data files the caller vouches for, such as the declared inputs of a
    build action: in Bazel's sandbox they are symbolic links, which onnx rightly refuses when nobody
    vouches for them, so they are copied beside a copy of the model first.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise _error(
                path,
                "MLF0202",
                f"the file has {size} bytes, expected at most {MAX_BYTES}",
                "keep the weights in external data files",
            )
        data = path.read_bytes()
    except OSError as error:
        raise _error(path, "MLF0201", f"cannot be read: {error.strerror or error}") from None
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError):
        raise _error(
            path,
            "MLF0202",
            "is not an ONNX model: its bytes do not parse",
            "is the download complete, and not a Git LFS pointer or an archive?",
        ) from None
    if not model.HasField("graph") or not model.graph.output:
        raise _error(path, "MLF0202", "is not an ONNX model: it holds no graph with outputs")
    external = [t for t in tensors(model.graph) if t.data_location == TensorProto.EXTERNAL]
    if external:
        _load_external(model, path, external, data_files)
    return model


def tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Every tensor stored in a graph and its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == AttributeProto.TENSORS:
                yield from attribute.tensors
            elif attribute.type == AttributeProto.GRAPH:
                yield from tensors(attribute.g)


def _load_external(
    model: ModelProto, path: Path, external: Sequence[TensorProto], data_files: Sequence[Path]
) -> None:
    """Fill in external tensors from declared copies, else from beside the model."""
    declared = {f.name: f for f in data_files}
    folder = path.resolve().parent
    problems = []
    for tensor in external:
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        problem = _external_problem(location, folder, declared)
        if problem:
            problems.append(
                Problem(
                    "MLF0203",
                    f"external data '{location}' {problem[0]}",
                    str(path),
                    path=f"tensor '{tensor.name}'",
                    help=problem[1],
                )
            )
    if problems:
        raise MlfError(problems)
    with tempfile.TemporaryDirectory() as scratch:
        base = folder
        if declared:
            base = Path(scratch)
            for name, file in declared.items():
                shutil.copyfile(file, base / name)
        try:
            load_external_data_for_model(model, str(base))
        except Exception as error:  # onnx raises several kinds for one cause: the data do not fit
            text = str(error).strip().splitlines()
            raise _error(
                path,
                "MLF0203",
                f"external data cannot be loaded: {text[0] if text else error}",
            ) from None


def _external_problem(
    location: str,
    folder: Path,
    declared: dict[str, Path],
) -> tuple[str, str] | None:
    """What is wrong with where a tensor's data lie, and the remedy."""
    inside = "keep the data file in the model's own folder"
    parts = PurePosixPath(location).parts
    if not location or "\0" in location or "\\" in location:
        return "is not a file name", inside
    if location.startswith("/") or ".." in parts or len(parts) != 1:
        return "lies outside the model's folder", inside
    if location in declared:
        return None
    file = folder / location
    if file.is_symlink():
        return "is a symbolic link", "replace the link by the file, or declare it (--data FILE)"
    if not file.is_file():
        return "does not exist", inside
    if file.stat().st_nlink > 1:
        return "has several hard links", "copy the file, or declare it (--data FILE)"
    return None


def _error(path: Path, code: str, message: str, help: str = "") -> MlfError:
    return MlfError(Problem(code, message, str(path), help=help))
