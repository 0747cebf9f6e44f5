"""Modules with backends as libraries of this computer: their own C and a vendor's, by gcc."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.describe import bundle
from mlftool.module import Module

HERE = Path(__file__).parent
DOUBLE = HERE / "cmsis_nn"
Array = np.ndarray[Any, Any]
FLAGS = (
    *("-std=c99", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-Wl,--no-undefined"),
    *("-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover=all"),
)


def compiled(
    module: Module, folder: Path, sources: Sequence[Path], includes: Sequence[Path], *flags: str
) -> subprocess.CompletedProcess[str]:
    """The archive's C and these files, as module.so in `folder`."""
    for name, data in bundle([module]).files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    own = sorted((folder / "codegen/host/src").glob("*.c"))
    command = ["gcc", *FLAGS, *flags, "-I", str(folder / "codegen/host/include")]
    for include in includes:
        command += ["-I", str(include)]
    command += [*map(str, own), *map(str, sources), "-o", str(folder / "module.so"), "-lm"]
    return subprocess.run(command, capture_output=True, text=True)


class DLTensor(ctypes.Structure):
    """As dlpack.h has it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class Loaded:
    """The module's `run`, with whatever else the library exports."""

    def __init__(
        self, module: Module, folder: Path, sources: Sequence[Path], includes: Sequence[Path]
    ) -> None:
        done = compiled(module, folder, sources, includes)
        assert done.returncode == 0, done.stderr
        self.module = module
        self.library = ctypes.CDLL(str(folder / "module.so"))

    def number(self, name: str) -> ctypes.c_int32:
        return ctypes.c_int32.in_dll(self.library, name)

    def run(
        self, inputs: Mapping[str, Array], devices: Sequence[int | None] | None = None
    ) -> tuple[int, dict[str, Array]]:
        """The status and the outputs; `devices` are contexts, None where there is no device."""
        graph, name = self.module.imported, self.module.spec.module_name
        given = [np.ascontiguousarray(inputs[n]) for n in graph.inputs]
        types = [graph.types[n] for n in graph.outputs]
        made = [np.zeros(t.shape, t.dtype.numpy) for t in types]
        results = dict(zip(graph.outputs, made, strict=True))
        if self.module.options.interface_api == "packed":
            return self.packed(f"tvmgen_{name}_run", [*given, *made], devices), results
        structs = [
            (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
            for arrays in (given, made)
        ]
        if devices is not None:
            structs.append((ctypes.c_void_p * len(devices))(*devices))
        run = getattr(self.library, f"tvmgen_{name}_run")
        run.restype = ctypes.c_int32
        return int(run(*structs)), results

    def packed(
        self, symbol: str, arrays: Sequence[Array], devices: Sequence[int | None] | None = None
    ) -> int:
        """The status of a packed function that is given these arrays of floats, and the contexts
        of `devices` as its resource handle; a null one without."""
        shapes = [(ctypes.c_int64 * a.ndim)(*a.shape) for a in arrays]
        tensors = [
            DLTensor(a.ctypes.data, 1, 0, a.ndim, 2, 32, 1, ctypes.addressof(s), None, 0)
            for a, s in zip(arrays, shapes, strict=True)
        ]
        values = (ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, tensors))
        codes = (ctypes.c_int * len(arrays))(*[7] * len(arrays))
        call = getattr(self.library, symbol)
        call.restype = ctypes.c_int
        handle = (ctypes.c_void_p * len(devices))(*devices) if devices is not None else None
        return int(call(values, codes, len(arrays), None, None, handle))


def samples(module: Module, count: int, seed: int = 3) -> list[dict[str, Array]]:
    """Random inputs of all values that the types have."""
    rng, graph = np.random.default_rng(seed), module.imported
    return [
        {
            n: rng.integers(-128, 128, graph.types[n].shape).astype(np.int8)
            if graph.types[n].dtype.name == "int8"
            else rng.normal(0, 1, graph.types[n].shape).astype(graph.types[n].dtype.numpy)
            for n in graph.inputs
        }
        for _ in range(count)
    ]
