"""A standard ONNX backend: models are compiled to C by mlftool and by the system's C compiler, and
every result comes from calling that C.

    import mlftool.backend
    outputs = mlftool.backend.prepare(model).run(inputs)
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from mlftool.compile import compile_module
from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.files import default_cache
from mlftool.ir import dtype
from mlftool.ir.graph import Array, TensorType
from mlftool.ir.values import is_deferred, put_together, taken_apart
from mlftool.mlf.runtime_tree import headers_of
from mlftool.module import Module, ModuleSpec
from mlftool.runtime import toolchain
from mlftool.runtime.cache import build_once, key_of
from mlftool.targets import CFLAGS

NAME = "model"
FLAGS = (*CFLAGS, "-O2", "-fPIC", "-shared", "-Icodegen/host/include")


class MlfBackendRep(BackendRep):
    """A model as a loaded library."""

    def __init__(
        self, model: ModelProto, shapes: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        self.module = compile_module(ModuleSpec(model, NAME, input_shapes=shapes or {}))
        self.outputs = tuple(model.graph.output)
        self._run = getattr(ctypes.CDLL(str(_library(self.module))), f"tvmgen_{NAME}_run")
        self._run.restype = ctypes.c_int32

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """The outputs for `inputs`: arrays in the model's order, or {name: array}."""
        graph = self.module.imported
        named = inputs if isinstance(inputs, Mapping) else _in_order(graph.inputs, inputs)
        named = taken_apart(named)
        given = [_store(name, graph.types[name], named[name]) for name in graph.inputs]
        made = [ctypes.create_string_buffer(graph.types[n].bytes or 1) for n in graph.outputs]
        status = self._run(_pointers(given), _pointers(made))
        if status != 0:
            text = f"tvmgen_{NAME}_run returned {status}"
            raise MlfError(Problem("MLF0605", text), CHECK_FAILED)
        arrays = {
            name: _restore(graph.types[name], buffer.raw)
            for name, buffer in zip(graph.outputs, made, strict=True)
        }
        results = [put_together(info, arrays) for info in self.outputs]
        return namedtupledict("Outputs", [o.name for o in self.outputs])(*results)


class DeferredRep(BackendRep):
    """A model that can be compiled only when its inputs are there: sequences and optionals have no
    other way to say how many tensors they hold."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._made: dict[tuple[tuple[str, tuple[int, ...]], ...], MlfBackendRep] = {}

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        names = [i.name for i in self._model.graph.input]
        named = taken_apart(inputs if isinstance(inputs, Mapping) else _in_order(names, inputs))
        shapes = {name: np.shape(value) for name, value in named.items()}
        key = tuple(sorted(shapes.items()))
        if key not in self._made:
            self._made[key] = MlfBackendRep(self._model, shapes)
        return self._made[key].run(named)


class MlfBackend(Backend):
    """onnx.backend.base.Backend on generated C; the only device is the computer it runs on."""

    @classmethod
    def prepare(
        cls, model: ModelProto, device: str = "CPU", **kwargs: Any
    ) -> MlfBackendRep | DeferredRep:
        """`model`, compiled. Raises MlfError with every reason why it cannot be."""
        _check_device(device)
        return DeferredRep(model) if is_deferred(model) else MlfBackendRep(model)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """One operator of the newest opset, or of `opset_version`."""
        names = [name for name in node.input if name]
        infos = [
            helper.make_tensor_value_info(n, dtype.of(np.asarray(a)).onnx, np.shape(a))
            for n, a in zip(names, inputs, strict=True)
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        if outputs_info is not None:
            results = [
                helper.make_tensor_value_info(r.name, dtype.of(np.empty(0, kind)).onnx, s)
                for r, (kind, s) in zip(results, outputs_info, strict=True)
            ]
        graph = helper.make_graph([node], "node", infos, results)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        imports = [helper.make_opsetid(node.domain, version)]
        return cls.run_model(helper.make_model(graph, opset_imports=imports), inputs, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `model` can be compiled."""
        try:
            compile_module(ModuleSpec(model, NAME))
        except MlfError:
            return False
        return cls.supports_device(device)


prepare = MlfBackend.prepare
run_model = MlfBackend.run_model
run_node = MlfBackend.run_node
supports_device = MlfBackend.supports_device
is_compatible = MlfBackend.is_compatible


def _check_device(device: str) -> None:
    if not MlfBackend.supports_device(device):
        raise MlfError(Problem("MLF0403", f"no such device; got '{device}', expected CPU"))


def _library(module: Module) -> Path:
    """The module's C as a shared library, built once for its content."""
    command = toolchain.find(toolchain.CC)
    written = module.sources.written()
    files = written | headers_of(written.values())
    sources = tuple(sorted(n for n in files if n.endswith(".c")))
    key = key_of((toolchain.identity(command), *FLAGS, *sources), files)
    # The file is named after its key: the dynamic loader takes equal paths for one library.
    name = f"lib{key}.so"

    def build(work: Path) -> None:
        toolchain.compile_c(command, (*FLAGS, *sources, "-o", name, "-lm"), work, "the model")

    return build_once(default_cache(), key, files, build, [name]) / name


def _in_order(names: Sequence[str], inputs: Any) -> dict[str, Any]:
    values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
    if len(values) != len(names):
        text = f"{len(values)} inputs; expected {len(names)}: {', '.join(names)}"
        raise MlfError(Problem("MLF0601", text))
    return dict(zip(names, values, strict=True))


def _store(name: str, type_: TensorType, value: Any) -> ctypes.Array[ctypes.c_char]:
    """The bytes that C reads for `value`."""
    array = np.asarray(value)
    if type_.dtype.kind == "s" and dtype.of(array) == type_.dtype:
        try:
            array = dtype.slots(array)
        except ValueError as error:
            raise MlfError(Problem("MLF0602", str(error), path=name)) from None
    if array.dtype != type_.dtype.numpy or array.shape != type_.shape:
        found = f"{array.dtype}[{'x'.join(map(str, array.shape))}]"
        raise MlfError(Problem("MLF0602", f"got {found}, expected {type_}", path=name))
    data = dtype.stored(np.ascontiguousarray(array).reshape(array.shape)).tobytes()
    return ctypes.create_string_buffer(data, len(data) or 1)


def _restore(type_: TensorType, data: bytes) -> Array:
    return dtype.texts(dtype.restored(data[: type_.bytes], type_.dtype, type_.shape).copy())


def _pointers(buffers: Sequence[Any]) -> Any:
    """struct tvmgen_model_inputs or _outputs: that number of pointers, at least one."""
    addresses = [ctypes.addressof(b) for b in buffers] or [0]
    return (ctypes.c_void_p * len(addresses))(*addresses)
