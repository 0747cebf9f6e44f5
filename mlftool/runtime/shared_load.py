"""Libraries of `mlftool library`: what one says of itself is read, and nothing of it runs until
`run` is called."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from mlftool.errors import CHECK_FAILED, MlfError, Problem, did_you_mean
from mlftool.files import read_plain
from mlftool.mlf.interface import Interface, decode
from mlftool.moved import OfTvm
from mlftool.runtime import elf as elf_file
from mlftool.runtime.callable import CallableModule
from mlftool.runtime.executor import ExecutorModule
from mlftool.runtime.objects import check_machine
from mlftool.runtime.shared import interface_symbol, library_symbol
from mlftool.runtime.vectors import Array, one_sample

SUFFIXES = (".so", ".dll", ".dylib")  # of what TVM's loader takes for a library
_VERSION = 1  # MLF_LIBRARY_VERSION
_NAME = re.compile(interface_symbol("([A-Za-z_][A-Za-z0-9_]*)"))


class _Library(ctypes.Structure):
    """struct mlf_library"""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("module", ctypes.c_char_p),
        ("inputs", ctypes.c_void_p),
        ("num_inputs", ctypes.c_size_t),
        ("outputs", ctypes.c_void_p),
        ("num_outputs", ctypes.c_size_t),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)),
        ("reset", ctypes.CFUNCTYPE(None)),
    )


class LoadedLibrary(OfTvm):
    """A library with one module. Its archive is not needed."""

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self._path = path.absolute()
        self._module = LibraryModule(_read(path), self._path, self.file)

    @property
    def modules(self) -> tuple[str, ...]:
        return (self._module.name,)

    def module(self, name: str | None = None, outputs: Sequence[str] = ()) -> LibraryModule:
        """Its module. Raises MlfError for another name."""
        if name not in (None, *self.modules):
            text = f"no module with this name; got '{name}'"
            help = did_you_mean(str(name), self.modules)
            raise MlfError(Problem("MLF0606", text, self.file, help=help))
        return self._module

    def __getitem__(self, name: str) -> Callable[..., ExecutorModule]:
        """`library["default"](device)`, as TVM's loader has it. Raises KeyError for other names."""
        return self._module[name]

    get_function = __getitem__

    def __repr__(self) -> str:
        return f"LoadedLibrary({self.file!r}, modules={self.modules})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return self._module._repr_html_()


class LibraryModule(CallableModule):
    """The module of a library, which is loaded when `run` is first called."""

    def __init__(self, interface: Interface, library: Path, file: str) -> None:
        super().__init__(interface, file)
        self.library = library
        self._call: _Call | None = None

    def compiled(self) -> _Call:
        if self._call is None:
            self._call = _Call(self.interface, self.library)
        return self._call


class _Call:
    """A loaded library as a function of arrays."""

    def __init__(self, interface: Interface, library: Path) -> None:
        self.interface = interface
        try:
            loaded = ctypes.CDLL(os.fspath(library))
            self._library = _Library.in_dll(loaded, library_symbol(interface.module))
        except (OSError, ValueError) as error:
            raise _refused(library, f"cannot be loaded: {error}") from None
        about = self._library
        counts = (len(interface.inputs), len(interface.outputs))
        if about.version != _VERSION or (about.num_inputs, about.num_outputs) != counts:
            raise _refused(library, "its structure and its description disagree")
        self._lock = threading.Lock()

    def __call__(self, inputs: Mapping[str, Array], /) -> dict[str, Array]:
        """One inference. Raises MlfError for wrong names, shapes or types, or if the C fails."""
        m = self.interface
        made = self._run(inputs, 1)[0]
        arrays = (t.restored(raw.tobytes()) for t, raw in zip(m.outputs, made, strict=True))
        return m.cut({t.name: a for t, a in zip(m.outputs, arrays, strict=True)})

    def seconds(self, inputs: Mapping[str, Array], number: int, /) -> float:
        """What `number` runs take, inputs and outputs not counted. Raises MlfError."""
        return self._run(inputs, number)[1]

    def _run(self, inputs: Mapping[str, Array], number: int) -> tuple[list[Array], float]:
        """The outputs as bytes, and the seconds of `number` runs with the same inputs."""
        m = self.interface
        sample = one_sample(inputs, m.inputs, m.module)
        given = [_aligned(t.size_bytes, t.stored(sample[t.name])) for t in m.inputs]
        made = [_aligned(t.size_bytes) for t in m.outputs]
        arguments = (_addresses(given), _addresses(made))
        with self._lock:
            begin = time.perf_counter()
            statuses = {self._library.run(*arguments) for _ in range(number)}
            taken = time.perf_counter() - begin
        if status := max(statuses, key=abs, default=0):
            text = f"module '{m.module}' returned {status}"
            raise MlfError(Problem("MLF0605", text), CHECK_FAILED)
        return made, taken

    def reset(self) -> None:
        """What the library keeps from one call to the next is as before the first."""
        if self.interface.state_bytes:
            self._library.reset()


def _aligned(size: int, data: bytes = b"") -> Array:
    """Bytes at a multiple of 64."""
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    part = raw[start : start + size]
    part[: len(data)] = np.frombuffer(data, np.uint8)
    return part


def _addresses(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


def _read(path: Path) -> Interface:
    """The description of its module. Raises MlfError for any other file."""
    try:
        data = read_plain(path)
    except OSError as error:
        raise MlfError(Problem("MLF0501", f"cannot be read: {error.strerror}", str(path))) from None
    try:
        with elf_file.opened(data) as elf:
            if elf.header["e_type"] != "ET_DYN":
                raise ValueError("is not a shared library")
            name, text = _description(elf)
    except ValueError as error:
        raise _refused(path, str(error)) from None
    try:
        check_machine(data)
    except ValueError as error:
        raise MlfError(Problem("MLF0612", str(error), str(path))) from None
    return decode(name, text, str(path), interface_symbol(name))


def _description(elf: ELFFile) -> tuple[str, bytes]:
    """The module's name and its description. Raises ValueError."""
    table = elf.get_section_by_name(".dynsym")
    symbols = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    for symbol in symbols:
        found = _NAME.fullmatch(symbol.name)
        if found and symbol["st_shndx"] != "SHN_UNDEF":
            return found[1], _bytes_at(elf, symbol["st_value"], symbol["st_size"])
    raise ValueError("is a shared library that `mlftool library` did not make")


def _bytes_at(elf: ELFFile, address: int, size: int) -> bytes:
    for segment in elf.iter_segments("PT_LOAD"):
        start = address - segment["p_vaddr"]
        if start >= 0 and start + size <= segment["p_filesz"]:
            return bytes(segment.data()[start : start + size]).rstrip(b"\0")
    raise ValueError("is a shared library whose description is outside the file")


def _refused(path: Path, text: str) -> MlfError:
    help = "mlftool library FILE.tar -o MODEL.so makes a library that can be run"
    return MlfError(Problem("MLF0511", text, str(path), help=help))
