"""Models as TVM's scripts hold them: a frozen module of one function, and its parameters."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, numpy_helper

from mlftool.codegen.relay import relay_text
from mlftool.errors import ArgumentError, MlfError, Problem, did_you_mean
from mlftool.frontends.load import load_model, read_bytes
from mlftool.frontends.models import TFLite, imported, model_name, opened
from mlftool.frontends.tflite.model import DOWNLOAD, is_tflite
from mlftool.frozen import field, frozen, replace
from mlftool.ir import dtype as dtypes
from mlftool.ir.graph import Graph
from mlftool.moved import OfTvm
from mlftool.passes.outputs import rename_outputs
from mlftool.runtime import notebook
from mlftool.runtime.nd import NDArray, array

Shapes = Mapping[str, Sequence[int]]


@frozen
class TensorType:
    """Extents and element type, under TVM's names."""

    shape: tuple[int, ...]
    dtype: str


@frozen
class Var:
    """An input of a function."""

    name_hint: str
    checked_type: TensorType

    @property
    def type_annotation(self) -> TensorType:
        return self.checked_type

    @property
    def name(self) -> str:
        return self.name_hint

    @property
    def dtype(self) -> str:
        return self.checked_type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.checked_type.shape


@frozen
class Function(OfTvm):
    """The model's one function; `str()` is its Relay text."""

    params: tuple[Var, ...]
    outputs: tuple[Var, ...]
    text: str = field(repr=False)

    @property
    def ret_type(self) -> TensorType | tuple[TensorType, ...]:
        types = tuple(o.checked_type for o in self.outputs)
        return types[0] if len(types) == 1 else types

    @property
    def attrs(self) -> dict[str, Any]:
        return {"output_tensor_names": [o.name_hint for o in self.outputs]}

    def __str__(self) -> str:
        return self.text


@frozen
class IRModule(OfTvm):
    """A model. Methods return new modules; nothing changes in place."""

    model: ModelProto | TFLite = field(repr=False)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()  # that get their part of it when it is compiled

    @cached_property
    def graph(self) -> Graph:
        """The imported model. Raises MlfError with every problem of the model."""
        graph, _ = imported(self.model, "main", self.shapes)
        return rename_outputs(graph, self.output_names, str(model_name(self.model)))

    def __str__(self) -> str:
        return relay_text(self.graph)

    def __repr__(self) -> str:
        """Never raises: of a model that cannot be imported `graph` says why."""
        try:
            main = self["main"]
        except MlfError as error:
            return f"IRModule(not imported: {str(error).splitlines()[0]})"
        return f"IRModule({_listed(main.params)} -> {_listed(main.outputs)})"

    def _repr_html_(self) -> str | None:
        """For notebooks."""
        try:
            return notebook.html("IRModule", self["main"].params, self["main"].outputs)
        except MlfError:
            return None  # a notebook then shows the text

    def astext(self, show_meta_data: bool = True) -> str:
        return str(self)

    def __getitem__(self, name: str) -> Function:
        if name != "main":
            raise KeyError(name)
        graph = self.graph
        inputs = tuple(_var(graph, n) for n in graph.inputs)
        return Function(inputs, tuple(_var(graph, n) for n in graph.outputs), str(self))

    def __iter__(self) -> Iterator[str]:
        return iter(("main",))

    @property
    def functions(self) -> dict[str, Function]:
        return {"main": self["main"]}

    def with_attr(self, key: str, value: Any) -> IRModule:
        """`output_tensor_names` is the one attribute of a model."""
        if key != "output_tensor_names":
            help = did_you_mean(key, ["output_tensor_names"])
            raise MlfError(Problem("MLF0400", f"no attribute '{key}'", help=help))
        if not isinstance(value, (list, tuple)) or not all(isinstance(n, str) for n in value):
            text = f"{key} is {value!r:.100}; expected a list of names, one for each output"
            raise ArgumentError(Problem("MLF0400", text))
        return replace(self, output_names=tuple(value))

    def bound(self, params: Mapping[str, Any] | None) -> IRModule:
        """The module with these values for weights, or for inputs, which become constants."""
        if params is not None and not isinstance(params, Mapping):
            raise wrong("params", params, "a mapping from names to arrays")
        if not params:
            return self
        if isinstance(self.model, TFLite):
            text = "params are for ONNX models; weights of a TensorFlow Lite model are its own"
            raise MlfError(Problem("MLF0400", text))
        return replace(self, model=_bind(self.model, params))


def as_module(caller: str, given: Any) -> IRModule:
    """A model in any form that can be compiled. Raises MlfError that lists them."""
    if isinstance(given, IRModule):
        return given
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], IRModule):
        return given[0]  # what from_onnx returns, as one
    if isinstance(given, TFLite) or _is_tflite(given):
        return from_tflite(given)[0]
    if isinstance(given, (ModelProto, str, bytes, os.PathLike)):
        return from_onnx(given)[0]
    taken = "the result of from_onnx, the path of an ONNX model, its bytes or an onnx.ModelProto"
    raise refuse(caller, given, taken)


def _is_tflite(given: Any) -> bool:
    """Whether these bytes, or those of the file with this path, are a TensorFlow Lite model."""
    if isinstance(given, bytes):
        return is_tflite(given)
    return isinstance(given, (str, os.PathLike)) and isinstance(opened(Path(given)), TFLite)


def from_tflite(
    model: TFLite | str | os.PathLike[str] | bytes,
    shape_dict: Shapes | None = None,
    dtype_dict: Mapping[str, str] | None = None,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A TensorFlow Lite model and an empty mapping: the weights stay in the module.

    Raises MlfError with every problem of the model.

    Shapes and types are the model's; `shape_dict` and `dtype_dict` must agree with them.
    """
    if isinstance(model, bytes):
        model = TFLite(model)
    if isinstance(model, (str, os.PathLike)):
        found = opened(Path(model))
        model = found if isinstance(found, TFLite) else TFLite(read_bytes(Path(model)), str(model))
    if not isinstance(model, TFLite):
        raise refuse("from_tflite", model, "the path of a TensorFlow Lite model, or its bytes")
    shapes = {name: tuple(int(d) for d in given) for name, given in (shape_dict or {}).items()}
    mod = IRModule(model, shapes)
    _check_types(mod, dtype_dict or {})
    return mod, {}


def refuse(caller: str, given: object, taken: str) -> MlfError:
    """The error for an argument of the wrong kind, which lists the accepted kinds."""
    text = f"{caller}() cannot take {type(given).__name__}; expected {taken}"
    return ArgumentError(Problem("MLF0400", text))


def wrong(argument: str, given: object, expected: str) -> MlfError:
    """The error for an argument of the wrong type."""
    text = f"{argument} is {type(given).__name__}; expected {expected}"
    return ArgumentError(Problem("MLF0400", text))


def _var(graph: Graph, name: str) -> Var:
    t = graph.types[name]
    return Var(name, TensorType(t.shape, str(t.dtype)))


def _listed(variables: Sequence[Var]) -> str:
    return ", ".join(f"{v.name}: {v.dtype} {notebook.shape_of(v)}" for v in variables)


def _bind(model: ModelProto, params: Mapping[str, Any]) -> ModelProto:
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    stored = {t.name: k for k, t in enumerate(graph.initializer)}
    inputs = {i.name: i.type.tensor_type for i in graph.input}
    problems = []
    for name, value in params.items():
        tensor = numpy_helper.from_array(np.array(value, order="C"), name)
        if name in stored:
            old = graph.initializer[stored[name]]
            kind, dims = old.data_type, list(old.dims)
        elif name in inputs:
            kind = inputs[name].elem_type
            declared = inputs[name].shape.dim
            known = len(declared) == len(tensor.dims)
            dims = (
                [
                    d.dim_value if d.HasField("dim_value") else t
                    for d, t in zip(declared, tensor.dims, strict=False)
                ]
                if known
                else [-1]
            )
        else:
            help = did_you_mean(name, [*stored, *inputs]) if stored or inputs else ""
            text = f"the model has no weights and no input with this name; got '{name}'"
            problems.append(Problem("MLF0400", text, help=help))
            continue
        if tensor.data_type != kind or list(tensor.dims) != dims:
            row = dtypes.BY_ONNX.get(kind)
            text = f"params['{name}'] is {np.asarray(value).dtype}{list(tensor.dims)}"
            problems.append(Problem("MLF0602", f"{text}, expected {row}{dims}"))
            continue
        if name in stored:
            graph.initializer[stored[name]].CopyFrom(tensor)
        else:
            graph.initializer.append(tensor)
    if problems:
        raise MlfError(problems)
    return result


def from_onnx(
    model: ModelProto | str | os.PathLike[str] | bytes,
    shape: Shapes | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """A model and its weights by name. Raises MlfError with every problem of the model.

    `shape` binds inputs whose extents are known at run time only. Types of inputs are the model's;
    a mapping `dtype` must agree with them. The weights always stay in the module; with
    `freeze_params` they are not returned.
    """
    if isinstance(model, bytes):
        try:
            model = onnx.load_model_from_string(model)
        except (DecodeError, ValueError):
            text = "is not an ONNX model: its bytes do not parse"
            raise MlfError(Problem("MLF0202", text, help=DOWNLOAD)) from None
    if shape is not None and not isinstance(shape, Mapping):
        raise wrong("shape", shape, "a mapping from names of inputs to extents")
    if not isinstance(model, (ModelProto, str, os.PathLike)):
        taken = "the path of an ONNX model, its bytes or an onnx.ModelProto"
        raise refuse("from_onnx", model, taken)
    loaded = load_model(model if isinstance(model, ModelProto) else Path(model))
    if opset is not None:
        for entry in loaded.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = opset
    shapes = {name: tuple(int(d) for d in given) for name, given in (shape or {}).items()}
    mod = IRModule(loaded, shapes)
    with _said_of(model):
        _check_types(mod, dtype)
    return mod, {} if freeze_params else weights_of(mod)


@contextlib.contextmanager
def _said_of(model: ModelProto | str | os.PathLike[str]) -> Iterator[None]:
    """Problems of a model that was read from a file name the file, not the graph in it."""
    try:
        yield
    except MlfError as error:
        if isinstance(model, ModelProto):
            raise
        problems = [replace(p, file=os.fspath(model)) for p in error.problems]
        raise MlfError(problems, error.exit_code) from None


def weights_of(mod: IRModule) -> dict[str, NDArray]:
    """The weights of an ONNX model by name; a TensorFlow Lite model keeps its own."""
    if isinstance(mod.model, TFLite):
        return {}
    graph = mod.model.graph
    used = {i for n in graph.node for i in n.input}
    stored = [t for t in graph.initializer if t.name in used]
    return {t.name: array(numpy_helper.to_array(t)) for t in stored}


def _check_types(mod: IRModule, dtype: str | Mapping[str, str]) -> None:
    given = {} if isinstance(dtype, str) else dtype
    for name in mod.graph.inputs:
        made = str(mod.graph.types[name].dtype)
        if given.get(name, made) != made:
            text = f"dtype of input '{name}' is {given[name]}; the model says {made}"
            raise MlfError(Problem("MLF0208", text))
