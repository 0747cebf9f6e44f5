"""Reading an ONNX file that we do not trust: its size, its bytes, its external data."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from mlftool.errors import MlfError, Problem
from mlftool.files import INSIDE, MANIFEST_SUFFIXES, MAX_BYTES, FileError, read_file
from mlftool.frontends.tflite import model as tflite
from mlftool.importer.protos import bad_text

# Why nothing beside the model is read, and what to do then.
NO_FILE = (
    "is in a file, but the model was not read from a file",
    "give the path of the model, or declare the data file (--data FILE)",
)
EMPTY = "it is empty"
UNDECLARED = ("is not declared", "list the file in `data` (--data FILE)")


def load_model(
    model: Path | ModelProto, data_files: Sequence[Path] = (), only_declared: bool = False
) -> ModelProto:
    """As `load_hashed`, without the hash."""
    return load_hashed(model, data_files, only_declared)[0]


def load_hashed(
    model: Path | ModelProto, data_files: Sequence[Path] = (), only_declared: bool = False
) -> tuple[ModelProto, str]:
    """The parsed model with its external data inside; of one that is parsed already, a copy. And
    the SHA-256 of that as one file: where weights are kept changes nothing that is made of a model,
    and `sha256sum` gives the same for a model without external data.

    `data_files` are external data files the caller vouches for, such as the declared inputs of a
    build action: in Bazel's sandbox they are symbolic links, which are otherwise refused.
    With `only_declared` nothing beside the model is read either. Nothing else is ever
    opened.
    """
    path, on_disk = model_name(model), isinstance(model, Path)
    if isinstance(model, Path):
        data = read_bytes(model)
        model = _parsed(data, model)
    else:
        data = model.SerializeToString(deterministic=True)
        given, model = model, ModelProto()
        model.CopyFrom(given)
    if not model.HasField("graph") or not model.graph.output:
        raise _no_model(path, "it holds no graph with outputs" if data else EMPTY)
    text = bad_text(model)
    if text:
        raise _no_model(path, f"{text} is not UTF-8")
    beside = NO_FILE if not on_disk else UNDECLARED if only_declared else None
    external = _External(path, data_files, beside)
    external.load(model)
    return model, _sha256(model, data, [file for _, file in sorted(external.files.items())])


def _sha256(model: ModelProto, data: bytes, external: Sequence[bytes]) -> str:
    """Of `model`, which was read from `data` and holds what the `external` files did."""
    whole = data
    if external:
        with contextlib.suppress(EncodeError, ValueError):  # over 2 GiB no message can say it
            whole, external = model.SerializeToString(deterministic=True), ()
    digest = hashlib.sha256(whole)
    for file in external:
        digest.update(file)
    return digest.hexdigest()


def model_name(model: Path | ModelProto) -> Path:
    """How messages call the model: by its file, or by the name of its graph."""
    if isinstance(model, Path):
        return model
    name = model.graph.name
    if not isinstance(name, str):  # protobuf gives what is not UTF-8 as bytes
        name = bytes(name).decode("utf-8", "replace")
    return Path(name.replace("/", "_").replace("\0", "_") or "model")


def parse(path: Path) -> ModelProto:
    return _parsed(read_bytes(path), path)


def read_bytes(path: Path) -> bytes:
    """A model's file. Raises MlfError."""
    try:
        return read_file(path)
    except FileError as error:
        raise MlfError(Problem(error.code, str(error), str(path), help=error.help)) from None


def _parsed(data: bytes, path: Path) -> ModelProto:
    try:
        return onnx.load_model_from_string(data)
    except (DecodeError, ValueError):
        raise _no_model(path, "its bytes do not parse") from None


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor stored anywhere in a model, whatever its attributes claim to be."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for attribute in (a for node in nodes for a in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for inner in ([attribute.g] if attribute.HasField("g") else []) + [*attribute.graphs]:
            yield from _of_graph(inner)


COPY = "is the copy complete? if so, export the model and its data again"
EXPORT = "export the model again, as onnx.save(..., save_as_external_data=True) does"


class _External:
    """Brings external data into a model: from declared files, else from the model's folder."""

    def __init__(
        self, path: Path, data_files: Sequence[Path], beside: tuple[str, str] | None
    ) -> None:
        self.path, self.declared = path, {f.name: f for f in data_files}
        self.beside = beside  # why nothing beside the model is read
        self.files: dict[str, bytes] = {}
        self.used = 0
        if len(self.declared) != len(data_files):
            help = "a model has its data in files of different names; give each of them once"
            text = "two --data files have the same name"
            raise MlfError(Problem("MLF0203", text, str(path), help=help))

    def load(self, model: ModelProto) -> None:
        """Fill in every external tensor. Raises MlfError with all that cannot be."""
        wrong: dict[tuple[str, str], list[str]] = {}  # what is, and its remedy: tensors
        for tensor in tensors(model):
            if tensor.data_location != TensorProto.EXTERNAL:
                continue
            keys = {e.key: e.value for e in tensor.external_data}
            try:
                if len(keys) != len(tensor.external_data):
                    raise FileError("has a key twice", help=EXPORT)
                tensor.raw_data = self._bytes(keys)
            except FileError as error:
                text = f"external data '{keys.get('location', '')[:200]}' {error}"
                wrong.setdefault((text, error.help), []).append(tensor.name)
            tensor.ClearField("data_location")
            del tensor.external_data[:]
        if wrong:
            raise MlfError(self._problem(*what, names) for what, names in wrong.items())
        for file in self.declared.values():
            if not os.path.isfile(file):  # and no tensor is in it
                text, help = (
                    "there is no such file of external data",
                    "no tensor is in it: leave it out",
                )
                raise MlfError(Problem("MLF0203", text, str(file), help=help))

    def _problem(self, text: str, help: str, names: Sequence[str]) -> Problem:
        """One for all tensors that a file lacks: a fault is told once."""
        more = len(names) - 1
        also = f"; {more} more tensor{'s are' if more > 1 else ' is'} in it" if more else ""
        where = f"tensor '{names[0]}'"
        return Problem("MLF0203", f"{text}{also}", str(self.path), path=where, help=help)

    def _bytes(self, keys: Mapping[str, str]) -> bytes:
        location = keys.get("location", "")
        unknown = sorted(keys.keys() - {"location", "offset", "length", "checksum"})
        if unknown:
            raise FileError(f"has the unknown key '{unknown[0][:200]}'", help=EXPORT)
        if location not in self.files:
            self.files[location] = self._read(location)
        data = self.files[location]
        if keys.get("checksum", "") not in ("", hashlib.sha1(data).hexdigest()):
            raise FileError("does not have the SHA-1 checksum that the model states", help=COPY)
        offset = _number(keys, "offset", 0)
        length = _number(keys, "length", len(data) - offset)
        if offset + max(length, 0) > len(data):
            raise FileError(
                f"has {len(data)} bytes; expected {length} at offset {offset}"
                if "length" in keys
                else f"has {len(data)} bytes; expected more than the offset {offset}",
                help=COPY,
            )
        self.used += length
        if self.used > MAX_BYTES:
            raise FileError(f"would take more than {MAX_BYTES} bytes in all", help=EXPORT)
        return data[offset : offset + length]

    def _read(self, location: str) -> bytes:
        if not location or "\0" in location or "\\" in location or location in (".", ".."):
            raise FileError("is not a file name", help=INSIDE)
        parts = PurePosixPath(location).parts
        if location.startswith("/") or ".." in parts:
            raise FileError("is outside the model's folder", help=INSIDE)
        if len(parts) != 1:
            raise FileError("is in a subfolder", help=INSIDE)
        declared = self.declared.get(location)
        if declared is not None:
            return read_file(declared)
        if self.beside:
            raise FileError(self.beside[0], help=self.beside[1])
        # Beside the model as it was named, not beside what a link to it points to: a build
        # action must not reach past its sandbox.
        return read_file(self.path.parent / location, follow=False)


def _number(keys: Mapping[str, str], key: str, default: int) -> int:
    text = keys.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        raise FileError(f"has {key} '{text[:40]}'; expected a number of bytes", help=EXPORT)
    return int(text)


def _no_model(path: Path, why: str) -> MlfError:
    """The error of bytes that are no ONNX model, in the words of the format that the name says."""
    text, help = f"is not an ONNX model: {why}", tflite.DOWNLOAD
    if path.suffix.lower() in MANIFEST_SUFFIXES:
        text, help = "is a manifest, not a model", "name one of the models that it lists"
    elif path.suffix.lower() == ".tar":
        text, help = "is an archive, not a model", "name the model that it was made from"
    elif path.suffix.lower() == tflite.SUFFIX:  # with its mark, they would not have come here
        text = tflite.NO_MODEL + (why if why == EMPTY else tflite.NO_MARK)
    return MlfError(Problem("MLF0202", text, str(path), help=help))
