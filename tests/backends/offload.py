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
        structs = [
            (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
            for arrays in (given, made)
        ]
        if devices is not None:
            structs.append((ctypes.c_void_p * len(devices))(*devices))
        run = getattr(self.library, f"tvmgen_{name}_run")
        run.restype = ctypes.c_int32
        return int(run(*structs)), dict(zip(graph.outputs, made, strict=True))


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
