"""Running a module on this computer: as a library called from Python, or as a test program."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.mlf import Bundle
from mlftool.mlf.archive import read
from mlftool.mlf.interface import Interface
from mlftool.mlf.records import Archive
from mlftool.runtime.build import build_code
from mlftool.runtime.descriptor import calls_crt
from mlftool.runtime.interface import interface_of
from mlftool.runtime.sources import host_files, module_code, runner_files
from mlftool.runtime.vectors import Array, one_sample
from mlftool.targets import TARGETS

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_GUARD = 64  # kGuardBytes of crt/runner/runner.h


class _Tensor(ctypes.Structure):
    """struct runner_tensor"""

    _fields_ = (("name", ctypes.c_char_p), ("buffer", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


class _Module(ctypes.Structure):
    """struct runner_module"""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("inputs", ctypes.POINTER(_Tensor)),
        ("num_inputs", ctypes.c_size_t),
        ("outputs", ctypes.POINTER(_Tensor)),
        ("num_outputs", ctypes.c_size_t),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int32)),
        ("state", ctypes.CFUNCTYPE(None, ctypes.c_int32)),
    )


_RESET = 2  # kReset of crt/runner/runner.h
_STATES = threading.Lock()  # modules of one library share the memory in which one is running


class Compiled(Protocol):
    """{input name: array} to {output name: array}."""

    def __call__(self, inputs: Mapping[str, Array], /) -> dict[str, Array]: ...
    def reset(self) -> None: ...
    def seconds(self, inputs: Mapping[str, Array], number: int, /) -> float:
        """What `number` runs take, inputs and outputs not counted."""


class HostModule:
    """A compiled module: call it with {input name: array} to get {output name: array}.

    Calls are serialised: a module has one static workspace, and its descriptor (runtime/descriptor)
    has one buffer for each tensor.
    """

    def __init__(self, interface: Interface, library: Path) -> None:
        self.interface = interface
        self.library = library
        try:
            self._module = _Module.in_dll(ctypes.CDLL(str(library)), "runner_module")
        except (OSError, ValueError) as error:
            text = f"module '{interface.module}' cannot be loaded: {error}"
            raise MlfError(Problem("MLF0605", text), CHECK_FAILED) from None
        self._lock = threading.Lock()
        self._kept = ctypes.create_string_buffer(interface.state_bytes)
        self.reset()

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference. Raises MlfError for wrong names, shapes or types, or if the C fails."""
        m = self.interface
        sample = one_sample(inputs, m.inputs, m.module)
        with self._lock:
            self._place(sample)
            self._check(self._run())
            return m.cut({t.name: self._output(i) for i, t in enumerate(m.outputs)})

    def seconds(self, inputs: Mapping[str, Array], number: int) -> float:
        """What `number` runs take, inputs and outputs not counted. Raises MlfError."""
        sample = one_sample(inputs, self.interface.inputs, self.interface.module)
        with self._lock:
            self._place(sample)
            begin = time.perf_counter()
            statuses = {self._run() for _ in range(number)}
            taken = time.perf_counter() - begin
        self._check(max(statuses, key=abs, default=0))
        return taken

    def _place(self, sample: Mapping[str, Array]) -> None:
        """The inputs of one inference in their buffers; outputs are cleared."""
        for i, t in enumerate(self.interface.inputs):
            data = t.stored(sample[t.name])
            ctypes.memmove(_address(self._module.inputs[i]), data, t.size_bytes)
        for i, t in enumerate(self.interface.outputs):  # never a result of the call before
            ctypes.memset(_address(self._module.outputs[i]), 0, t.size_bytes)

    def _check(self, status: int) -> None:
        m = self.interface
        if status != 0:
            what = "the graph executor" if m.executor == "graph" else m.run_symbol
            raise MlfError(Problem("MLF0605", f"{what} returned {status}"), CHECK_FAILED)

    def reset(self) -> None:
        """What it keeps from one call to the next is as before the first; nothing, if it keeps
        none."""
        if self.interface.state_bytes:
            with self._lock, _STATES:
                self._module.state(_RESET)
                ctypes.memmove(self._kept, self._state(), self.interface.state_bytes)

    def _state(self) -> Any:
        """The memory in which the library has the state of the module that is running."""
        kind = ctypes.c_uint8 * self.interface.state_bytes
        return kind.in_dll(ctypes.CDLL(str(self.library)), "runner_state")

    def _run(self) -> int:
        """Other modules of this library have states of their own."""
        size = self.interface.state_bytes
        if not size:
            return int(self._module.run())
        with _STATES:
            ctypes.memmove(self._state(), self._kept, size)
            status = int(self._module.run())
            ctypes.memmove(self._kept, self._state(), size)
        return status

    def _output(self, index: int) -> Array:
        t = self.interface.outputs[index]
        raw = ctypes.string_at(_address(self._module.outputs[index]), t.size_bytes)
        return t.restored(raw)


def _address(tensor: _Tensor) -> int:
    return int(tensor.buffer) + _GUARD


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
    archive = read(bundle)
    return host_module(archive, interface_of(archive, module), cache_dir, optimise)


def host_module(
    archive: Archive, interface: Interface, cache_dir: Path | None = None, optimise: str = "-O2"
) -> HostModule:
    """The same of an archive that has been read."""
    flags = ("-fPIC", "-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined")
    # The file is named after its key: the dynamic loader takes equal paths for one library.
    library = _build(archive, interface, flags, "lib{key}.so", cache_dir, optimise)
    return HostModule(interface, library)


def _build(
    archive: Archive,
    interface: Interface,
    flags: tuple[str, ...],
    name: str,
    cache_dir: Path | None,
    optimise: str,
) -> Path:
    record = archive.module(interface.module)
    code = module_code(archive, record)
    program = "-shared" not in flags
    files = runner_files(interface, record, on_board=False) | host_files()
    if not program:  # the descriptor alone: Python takes the runner's part
        files = {n: d for n, d in files.items() if not n.endswith(".c") or n == "runner_module.c"}
    crt = record if calls_crt(interface, record) else None
    every = (*machine_flags(interface.target), optimise, *flags)
    if program and code.objects:
        every += ("-no-pie",)  # objects compiled for a fixed address can be linked then
    what = f"module '{interface.module}'"
    return build_code(code, files, every, name, what, cache_dir, crt)


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
    flags = SANITIZERS if sanitize else ()
    return _build(read(bundle), interface, flags, "runner", cache_dir, optimise)
