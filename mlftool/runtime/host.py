"""Running a module on this computer: as a library called from Python, or as a test program."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.mlf import Bundle
from mlftool.mlf.interface import Interface, Tensor
from mlftool.runtime import toolchain
from mlftool.runtime.cache import build_once, default_cache, key_of
from mlftool.runtime.interface import read_interface
from mlftool.runtime.sources import INCLUDES, module_files, runner_files
from mlftool.runtime.vectors import Array, samples_of
from mlftool.targets import CFLAGS, TARGETS

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_ALIGNMENT = 64  # of tensors: a cache line, and enough for every vector type


class HostModule:
    """A compiled module: call it with {input name: array} to get {output name: array}.

    Calls are serialised: a module has one static workspace.
    """

    def __init__(self, interface: Interface, library: Path) -> None:
        self.interface = interface
        self.library = library
        self._functions = ctypes.CDLL(str(library))
        self._lock = threading.Lock()

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference. Raises MlfError for wrong names, shapes or types, or if the C fails."""
        m = self.interface
        (sample,) = samples_of(inputs, m.inputs, m.module)
        given = [_aligned(t, sample[t.name]) for t in m.inputs]
        results = [_aligned(t, None) for t in m.outputs]
        with self._lock:
            run = self._run_in_workspace if m.workspace_io else self._run
            status = run(given, results)
        if status != 0:
            text = f"tvmgen_{m.module}_run returned {status}"
            raise MlfError(Problem("MLF0605", text), CHECK_FAILED)
        return {t.name: r for t, r in zip(m.outputs, results, strict=True)}

    def _function(self, name: str, result: Any = ctypes.c_int32) -> Any:
        function = getattr(self._functions, f"tvmgen_{self.interface.module}_{name}")
        function.restype = result
        return function

    def _run(self, given: Sequence[Array], results: Sequence[Array]) -> int:
        arguments = (_pointers(len(a))(*(x.ctypes.data for x in a)) for a in (given, results))
        return int(self._function("run")(*map(ctypes.byref, arguments)))

    def _run_in_workspace(self, given: Sequence[Array], results: Sequence[Array]) -> int:
        at = self._function("map_inputs", _pointers(len(given)))()
        for i, array in enumerate(given):
            ctypes.memmove(getattr(at, f"p{i}"), array.ctypes.data, array.nbytes)
        status = int(self._function("run")())
        at = self._function("map_outputs", _pointers(len(results)))()
        for i, array in enumerate(results):
            ctypes.memmove(array.ctypes.data, getattr(at, f"p{i}"), array.nbytes)
        return status


def _aligned(tensor: Tensor, value: Array | None) -> Array:
    """A fresh array for `tensor` at an aligned address, holding `value`."""
    raw = np.zeros(tensor.size_bytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    array: Array = raw[start : start + tensor.size_bytes].view(tensor.dtype).reshape(tensor.shape)
    if value is not None:
        array[...] = value
    return array


@functools.cache
def _pointers(count: int) -> type[ctypes.Structure]:
    """struct tvmgen_<module>_inputs or _outputs: a pointer per tensor, at least one."""
    fields = [(f"p{i}", ctypes.c_void_p) for i in range(max(1, count))]
    return type(f"Pointers{count}", (ctypes.Structure,), {"_fields_": fields})


def load_host(
    bundle: Bundle,
    module: str | None = None,
    cache_dir: Path | None = None,
    optimise: str = "-O2",
) -> HostModule:
    """`module` (or the only one) of the archive, compiled for this computer and loaded.

    Libraries are kept in `cache_dir`, by content, so loading the same archive again compiles
    nothing. Raises MlfError.
    """
    interface = read_interface(bundle, module)
    files, sources = module_files(bundle, interface.module)
    command = toolchain.find(toolchain.CC)
    flags = (*machine_flags(interface.target), *CFLAGS, optimise, "-fPIC", "-shared", *INCLUDES)
    key = key_of((toolchain.identity(command), *flags, *sources), files)
    # The file is named after its key: the dynamic loader takes equal paths for one library.
    name = f"lib{key}.so"

    def build(work: Path) -> None:
        arguments = (*flags, *sources, "-o", name, "-lm")
        toolchain.compile_c(command, arguments, work, f"module '{interface.module}'")

    folder = build_once(cache_dir or default_cache(), key, files, build)
    return HostModule(interface, folder / name)


def machine_flags(target: str) -> tuple[str, ...]:
    """The compiler flags for running `target`'s code here: an x86-64 level keeps its own."""
    return TARGETS[target].cflags if target in TARGETS and TARGETS[target].is_host else ()


def build_runner(
    bundle: Bundle,
    interface: Interface,
    cache_dir: Path | None = None,
    optimise: str = "-O2",
    sanitize: bool = False,
) -> Path:
    """The test runner of a module as a program for this computer."""
    files, sources = module_files(bundle, interface.module)
    files |= runner_files(interface, ("platform/host/platform.c",))
    command = toolchain.find(toolchain.CC)
    flags = (*machine_flags(interface.target), *CFLAGS, optimise, *INCLUDES)
    flags += (*(SANITIZERS if sanitize else ()), "-Icrt/runner", "-Icrt/platform")
    sources += ("runner_module.c", "crt/runner/runner.c", "crt/platform/host/platform.c")
    key = key_of((toolchain.identity(command), *flags, *sources), files)

    def build(work: Path) -> None:
        arguments = (*flags, *sources, "-o", "runner", "-lm")
        toolchain.compile_c(command, arguments, work, f"module '{interface.module}'")

    return build_once(cache_dir or default_cache(), key, files, build) / "runner"
