"""What TVM's C++ runtime does with a shared library, as an independent reader of the format.

dlopen, the pointers that the loader fills, the modules of `__tvm_dev_mblob` with their imports, and
the executors of its two factories, by packed calls with DLTensors.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
KINDS = {"i": 0, "u": 1, "f": 2, "b": 1}


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Info(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class Metadata(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int64),
        ("inputs", ctypes.POINTER(Info)),
        ("num_inputs", ctypes.c_int64),
        ("outputs", ctypes.POINTER(Info)),
        ("num_outputs", ctypes.c_int64),
        ("pools", ctypes.c_void_p),
        ("num_pools", ctypes.c_int64),
        ("constants", ctypes.c_void_p),
        ("num_constants", ctypes.c_int64),
        ("mod_name", ctypes.c_char_p),
    )


class Stream:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def raw(self, count: int) -> bytes:
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count : self.at]

    def u64(self) -> int:
        return int(struct.unpack("<Q", self.raw(8))[0])

    def text(self) -> str:
        return self.raw(self.u64()).decode()

    def numbers(self) -> list[int]:
        return [self.u64() for _ in range(self.u64())]

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.u64())]

    def array(self) -> Array:
        magic, reserved = self.u64(), self.u64()
        assert (magic, reserved) == (0xDD5E40F096B4A13F, 0)
        _, _, rank, code, bits, lanes = struct.unpack("<iiiBBH", self.raw(16))
        assert lanes == 1
        shape = struct.unpack(f"<{rank}q", self.raw(8 * rank))
        kind = {0: "i", 1: "u", 2: "f"}[code]
        return np.frombuffer(self.raw(self.u64()), f"{kind}{bits // 8}").reshape(shape)


class TvmError(Exception):
    pass


class TvmLibrary:
    """`tvm.runtime.load_module(path)`."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.error = ""
        self._said = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(self._set_error)
        for name, value in (
            ("__TVMAPISetLastError", ctypes.cast(self._said, ctypes.c_void_p).value),
            ("__tvm_module_ctx", 0x1234),
        ):
            if hasattr(self.library, name):
                ctypes.c_void_p.in_dll(self.library, name).value = value
        self.modules, self.imports = self._modules()

    def _set_error(self, text: bytes) -> None:
        self.error = text.decode()

    def _modules(self) -> tuple[list[tuple[str, dict[str, Any]]], list[list[int]]]:
        at = ctypes.addressof(ctypes.c_char.in_dll(self.library, "__tvm_dev_mblob"))
        size = int(struct.unpack("<Q", ctypes.string_at(at, 8))[0])
        stream = Stream(ctypes.string_at(at + 8, size))
        modules: list[tuple[str, dict[str, Any]]] = []
        imports: list[list[int]] = []
        for _ in range(stream.u64()):
            key, content = stream.text(), dict[str, Any]()
            if key == "_import_tree":
                rows, children = stream.numbers(), stream.numbers()
                imports = [children[a:b] for a, b in itertools.pairwise(rows)]
                continue
            if key == "GraphExecutorFactory":
                content["graph"] = json.loads(stream.text())
            if key.endswith("Factory"):
                count, names = stream.u64(), stream.texts()
                assert count == len(names)
                content["params"] = {name: stream.array() for name in names}
                content["name"] = stream.text()
            modules.append((key, content))
        assert stream.at == size
        assert len(imports) == len(modules)
        return modules, imports

    def __getitem__(self, name: str) -> TvmAot | TvmGraph:
        key, content = self.modules[0]
        assert content["name"] == name
        return TvmGraph(self, content) if key == "GraphExecutorFactory" else TvmAot(self)

    def call(self, name: str, *tensors: tuple[Array, int]) -> tuple[int, int]:
        """A packed function of tensors with their type codes; its result and that one's code."""
        structures = [tensor_of(array) for array, _ in tensors]
        values = (ctypes.c_uint64 * max(1, len(tensors)))(*map(ctypes.addressof, structures))
        codes = (ctypes.c_int * max(1, len(tensors)))(*(code for _, code in tensors))
        result, code = ctypes.c_uint64(0), ctypes.c_int(4)
        function = self.library[name]
        status = function(
            values, codes, len(tensors), ctypes.byref(result), ctypes.byref(code), None
        )
        if status != 0:
            raise TvmError(self.error)
        return result.value, code.value


def tensor_of(array: Array) -> DLTensor:
    shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    bits = 1 if array.dtype.kind == "b" else 8 * array.dtype.itemsize
    strides = None
    if not array.flags.c_contiguous:
        strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
    code = KINDS[array.dtype.kind]
    return DLTensor(array.ctypes.data, 1, 0, array.ndim, code, bits, 1, shape, strides, 0)


class TvmAot:
    """`AotModule(library["default"](cpu))`."""

    def __init__(self, library: TvmLibrary) -> None:
        self.library = library
        kinds = [key for key, _ in library.modules]
        assert (kinds, library.imports) == (
            ["AotExecutorFactory", "metadata_module", "_lib"], [[1], [2], []],
        )  # fmt: skip
        pointer, code = library.call("get_c_metadata")
        assert code == 3
        about = ctypes.cast(pointer, ctypes.POINTER(Metadata)).contents
        assert (about.version, about.num_pools, about.num_constants) == (1, 0, 0)
        self.inputs = [named(about.inputs[i]) for i in range(about.num_inputs)]
        self.outputs = [named(about.outputs[i]) for i in range(about.num_outputs)]
        self.main = about.mod_name.decode() + "___tvm_main__"

    def run(self, inputs: dict[str, Array]) -> list[Array]:
        tensors = [array for _, array in (*self.inputs, *self.outputs)]
        plain = {"".join(c if c.isalnum() else "_" for c in n): a for n, a in inputs.items()}
        assert plain.keys() == dict(self.inputs).keys()
        for name, array in self.inputs:
            array[...] = plain[name]
        self.library.call(self.main, *((array, 7) for array in tensors))
        return [array for _, array in self.outputs]


def named(info: Info) -> tuple[str, Array]:
    shape = [info.shape[k] for k in range(info.rank)]
    kind = "?" if info.bits == 1 else {0: "i", 1: "u", 2: "f"}[info.code] + str(info.bits // 8)
    return info.name.decode(), np.zeros(shape, kind)


class TvmGraph:
    """`GraphModule(library["default"](cpu))`: one packed call for each operator of the graph."""

    def __init__(self, library: TvmLibrary, factory: dict[str, Any]) -> None:
        self.library, self.graph, self.params = library, factory["graph"], factory["params"]
        kinds = [key for key, _ in library.modules]
        assert (kinds, library.imports) == (["GraphExecutorFactory", "_lib"], [[1], []])

    def run(self, inputs: dict[str, Array]) -> list[Array]:
        g = self.graph
        shapes, types = g["attrs"]["shape"][1], g["attrs"]["dltype"][1]
        entries = [np.zeros(s, t) for s, t in zip(shapes, types, strict=True)]
        for i in g["arg_nodes"]:
            name = g["nodes"][i]["name"]
            entries[g["node_row_ptr"][i]][...] = (self.params | inputs)[name]
        for i, node in enumerate(g["nodes"]):
            if node["op"] != "tvm_op":
                continue
            first = g["node_row_ptr"][i]
            given = [g["node_row_ptr"][n] + k for n, k, _ in node["inputs"]]
            made = range(first, first + int(node["attrs"]["num_outputs"]))
            tensors = [(entries[e], 7) for e in (*given, *made)]
            self.library.call(node["attrs"]["func_name"], *tensors)
        return [entries[g["node_row_ptr"][n] + k] for n, k, _ in g["heads"]]
