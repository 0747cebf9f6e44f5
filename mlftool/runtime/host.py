"""Running a module on this computer: as a library called from Python, or as a test program."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.mlf import Bundle
from mlftool.runtime import toolchain
from mlftool.runtime.cache import build_once, default_cache, key_of
from mlftool.runtime.interface import Interface, Tensor, read_interface
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
        self._run = getattr(ctypes.CDLL(str(library)), f"tvmgen_{interface.module}_run")
        self._run.restype = ctypes.c_int32
        self._lock = threading.Lock()

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference. Raises MlfError for wrong names, shapes or types, or if the C fails."""
        (sample,) = samples_of(inputs, self.interface.inputs, self.interface.module)
        given = [_aligned(t, sample[t.name]) for t in self.interface.inputs]
        results = [_aligned(t, None) for t in self.interface.outputs]
        with self._lock:
            status = self._run(_pointers(given), _pointers(results))
        if status != 0:
            text = f"tvmgen_{self.interface.module}_run returned {status}"
            raise MlfError(Problem("MLF0605", text), CHECK_FAILED)
        return {t.name: r for t, r in zip(self.interface.outputs, results, strict=True)}


def _aligned(tensor: Tensor, value: Array | None) -> Array:
    """A fresh array for `tensor` at an aligned address, holding `value`."""
    raw = np.zeros(tensor.size_bytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    array: Array = raw[start : start + tensor.size_bytes].view(tensor.dtype).reshape(tensor.shape)
    if value is not None:
        array[...] = value
    return array


def _pointers(arrays: list[Array]) -> Any:
    """struct tvmgen_<module>_inputs or _outputs: one pointer per tensor, in call order."""
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


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
