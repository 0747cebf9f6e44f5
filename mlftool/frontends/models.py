"""The seam: a model in any form, to a Graph, by the front end that its content asks for.

A further format is a folder beside `tflite`, and a line in `imported`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.frontends.tflite.model import is_tflite
from mlftool.importer import load
from mlftool.importer.given import Numbers
from mlftool.importer.onnx import import_hashed
from mlftool.ir.graph import Graph


@dataclass(frozen=True)
class TFLite:
    """A TensorFlow Lite model in memory: the bytes of its file, and what messages call it."""

    data: bytes
    name: str = "model"


Source = Path | ModelProto | TFLite


def model_name(model: Source) -> Path:
    """How messages call the model: by its file, or by its own name."""
    return Path(model.name) if isinstance(model, TFLite) else load.model_name(model)


def opened(model: Source) -> Source:
    """A file of TensorFlow Lite as a model in memory; any other model as it is."""
    if not isinstance(model, Path):
        return model
    return TFLite(load.read_bytes(model), str(model)) if is_tflite(_head(model)) else model


def _head(path: Path) -> bytes:
    """The first bytes of a file; none of what is no file, and what reads it says so."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            return file.read(8) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, ValueError):
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
        return import_hashed(found, name, input_shapes, data_files, only_declared, input_values)
    from mlftool.frontends.tflite.lower import lowered
    from mlftool.frontends.tflite.reader import read

    file = str(model_name(found))
    graph = lowered(read(found.data, file), name, file)
    graph = _with_values(graph, input_values or {}, file)
    _check_shapes(graph, input_shapes or {}, file)
    return graph, hashlib.sha256(found.data).hexdigest()


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
            text = f"{made.size} numbers for {type_}, or some that it has not"
            problems.append(Problem("MLF0209", text, file, path=f"input '{name}'"))
            continue
        consts[name] = made.reshape(type_.shape)
    if problems:
        raise MlfError(problems)
    inputs = tuple(n for n in graph.inputs if n not in values)
    return graph.replace(inputs=inputs, consts=consts)
