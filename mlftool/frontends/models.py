"""The seam: a model in any form, to a Graph, by the front end that its content asks for.

A further format is a folder beside `tflite`, and a line in `imported`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto

from mlftool.errors import ArgumentError, MlfError, Problem, did_you_mean
from mlftool.files import read_plain
from mlftool.frontends import load
from mlftool.frontends.given import Numbers, with_values
from mlftool.frontends.tflite.model import is_tflite
from mlftool.frozen import frozen
from mlftool.importer.onnx import import_model
from mlftool.ir.graph import Graph


@frozen
class TFLite:
    """A TensorFlow Lite model in memory: the bytes of its file, what messages call it, and tensors
    that are outputs beside its own."""

    data: bytes
    name: str = "model"
    further: tuple[str, ...] = ()


Source = Path | ModelProto | TFLite


def model_name(model: Source) -> Path:
    """How messages call the model: by its file, or by its own name. Raises ArgumentError."""
    if not isinstance(model, Source):
        kinds = "a path (pathlib.Path), an onnx.ModelProto or a TFLite"
        text, given = f"the model is {type(model).__name__}; expected {kinds}", str(model)[:60]
        hint = f"Path({given!r})" if isinstance(model, str) else ""
        raise ArgumentError(Problem("MLF0400", text, help=hint))
    return Path(model.name) if isinstance(model, TFLite) else load.model_name(model)


def opened(model: Source) -> Source:
    """A file of TensorFlow Lite as a model in memory; any other model as it is. Raises MlfError."""
    model_name(model)
    if not isinstance(model, Path):
        return model
    return TFLite(load.read_bytes(model), str(model)) if is_tflite(_head(model)) else model


def _head(path: Path) -> bytes:
    """The first bytes of a file; none of what is no file, and what reads it says so."""
    try:
        return read_plain(path, 8)
    except OSError:
        return b""


def imported(
    model: Source,
    name: str,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    data_files: Sequence[Path] = (),
    only_declared: bool = False,
    input_values: Mapping[str, Numbers] | None = None,
) -> tuple[Graph, str]:
    """The model with static types; inputs in `input_values` become constants. And the SHA-256 of
    its one-file form. Raises MlfError with every problem found."""
    found = opened(model)
    if not isinstance(found, TFLite):
        loaded, sha256 = load.load_hashed(found, data_files, only_declared)
        file, shapes = str(model_name(found)), input_shapes or {}
        if input_values:
            loaded = with_values(loaded, input_values, shapes, file)
            shapes = {k: v for k, v in shapes.items() if k not in input_values}
            return import_model(loaded, name, file, shapes), sha256
        return _once(loaded, sha256, file, shapes).replace(name=name), sha256
    from mlftool.frontends.tflite.lower import lowered
    from mlftool.frontends.tflite.reader import read

    file = str(model_name(found))
    graph = lowered(read(found.data, file), name, file, found.further)
    graph = _with_values(graph, input_values or {}, file)
    _check_shapes(graph, input_shapes or {}, file)
    return graph, hashlib.sha256(found.data).hexdigest()


@frozen
class _Question:
    """What an import depends on, of a model with external data inside it."""

    sha256: str
    file: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]


# A model's last import: a matrix of targets, executors and options asks for the same one each time.
_last: dict[_Question, Graph] = {}


def _once(model: ModelProto, sha256: str, file: str, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """What `import_model` gives, which is not asked again for the same model."""
    asked = _Question(sha256, file, tuple((k, tuple(v)) for k, v in shapes.items()))
    found = _last.get(asked)
    if found is None:
        _last.clear()
        found = _last[asked] = import_model(model, "", file, shapes)
    return found


def _check_shapes(graph: Graph, shapes: Mapping[str, Sequence[int]], file: str) -> None:
    """Shapes of TensorFlow Lite models are in the file: given ones can only say the same."""
    problems = []
    for name, shape in shapes.items():
        if name not in graph.inputs:
            text = f"shape given for '{name}', which is not an input of the model"
            help = did_you_mean(name, graph.inputs)
            problems.append(Problem("MLF0208", text, file, help=help))
        elif tuple(shape) != graph.types[name].shape:
            text = f"shape {list(shape)} does not fit the model's {list(graph.types[name].shape)}"
            problems.append(Problem("MLF0208", text, file, path=f"input '{name}'"))
    if problems:
        raise MlfError(problems)


def _with_values(graph: Graph, values: Mapping[str, Numbers], file: str) -> Graph:
    """Inputs that are given become constants."""
    consts, problems = dict(graph.consts), []
    for name, numbers in values.items():
        type_ = graph.types.get(name)
        if name not in graph.inputs or type_ is None:
            text = f"value given for '{name}', which is not an input of the model"
            help = did_you_mean(name, graph.inputs)
            problems.append(Problem("MLF0209", text, file, help=help))
            continue
        array = np.array(numbers)
        made = array.astype(type_.dtype.numpy)
        if made.size != type_.elements or not np.array_equal(made, array):
            text = f"{made.size} numbers for {type_}, or numbers outside of that type"
            problems.append(Problem("MLF0209", text, file, path=f"input '{name}'"))
            continue
        consts[name] = made.reshape(type_.shape)
    if problems:
        raise MlfError(problems)
    inputs = tuple(n for n in graph.inputs if n not in values)
    return graph.replace(inputs=inputs, consts=consts)
