"""Modules of the vm executor, interpreted in Python: the same bytecode, the same compiled kernels.

It looks at every address when it is used, so it also runs bytecode that `mlf_vm_check` would
refuse, up to the first instruction that reaches outside. docs/vm.md describes the instructions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.mlf.bytecode import (
    CONSTANT,
    INPUT,
    MAGIC,
    OUTPUT,
    WORKSPACE,
    Instruction,
    decode,
    split,
)
from mlftool.mlf.interface import Interface, Tensor
from mlftool.moved import missing
from mlftool.runtime.vectors import Array, one_sample

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
_WORDS = ctypes.POINTER(ctypes.c_uint32)


class _Function(ctypes.Structure):
    """struct mlf_vm_function"""

    _fields_ = (
        ("kernel", _KERNEL),
        ("count", ctypes.c_uint32),
        ("bytes", _WORDS),
        ("writes", ctypes.POINTER(ctypes.c_uint8)),
    )


class _Module(ctypes.Structure):
    """struct mlf_vm_module"""

    _fields_ = (
        ("code", _WORDS),
        ("words", ctypes.c_uint32),
        ("functions", ctypes.POINTER(_Function)),
        ("num_functions", ctypes.c_uint32),
        ("constants", ctypes.POINTER(ctypes.c_void_p)),
        ("constant_bytes", _WORDS),
        ("num_constants", ctypes.c_uint32),
        ("input_bytes", _WORDS),
        ("num_inputs", ctypes.c_uint32),
        ("output_bytes", _WORDS),
        ("num_outputs", ctypes.c_uint32),
        ("workspace_bytes", ctypes.c_uint32),
    )


class VmModule:
    """A module of the vm executor with `inputs`, `outputs` and `run`, as every module has."""

    def __init__(self, interface: Interface, code: bytes, library: ctypes.CDLL) -> None:
        """`code` is executor-config/vm/<module>.vm; `library` holds the module's kernels."""
        self.interface = interface
        self.code = np.frombuffer(code[: len(code) // 4 * 4], "<u4").tolist()
        self._library = library  # whose kernels must stay loaded
        self._module = _Module.in_dll(library, f"tvmgen_{interface.module}_vm")
        if len(code) % 4 or len(self.code) < 2 or self.code[0] != MAGIC:
            raise self._error("the bytecode has no header of version 1")
        count = range(self._module.num_functions)
        self._parameters = [self._module.functions[k].count for k in count]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.interface.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.interface.results

    def run(
        self,
        inputs: Mapping[str, Array],
        watch: Callable[[Instruction], None] = lambda instruction: None,
    ) -> dict[str, Array]:
        """One inference; `watch` is told each instruction before it is done. Raises MlfError."""
        sample = one_sample(inputs, self.inputs, self.interface.module)
        given = [np.frombuffer(t.stored(sample[t.name]), np.uint8) for t in self.inputs]
        made = [np.zeros(t.size_bytes, np.uint8) for t in self.interface.outputs]
        memory = _Memory(self._module, given, made, self._error)
        at = 1
        while True:
            try:
                instruction = decode(self.code, at, self._parameters)
            except ValueError as error:
                raise self._error(str(error)) from None
            watch(instruction)
            if instruction.name == "halt":
                break
            at = memory.do(instruction)
        tensors = zip(self.interface.outputs, made, strict=True)
        arrays = {t.name: t.restored(raw.tobytes()) for t, raw in tensors}
        return self.interface.cut(arrays)

    def _error(self, text: str) -> MlfError:
        return MlfError(Problem("MLF0605", text, path=self.interface.module), CHECK_FAILED)


class _Memory:
    """What one inference reads and writes, and what each instruction does to it."""

    def __init__(
        self,
        module: _Module,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        error: Callable[[str], MlfError],
    ) -> None:
        self.module, self.error = module, error
        # numpy's memory is aligned to 16 on every 64-bit system.
        self.workspace = np.zeros(module.workspace_bytes, np.uint8)
        self.spaces: dict[int, Sequence[Array]] = {INPUT: inputs, OUTPUT: outputs}
        self.spaces[CONSTANT] = [
            np.ctypeslib.as_array(
                ctypes.cast(module.constants[k], ctypes.POINTER(ctypes.c_uint8)),
                (module.constant_bytes[k],),
            )
            for k in range(module.num_constants)
        ]

    def do(self, instruction: Instruction) -> int:
        """Does it; returns the word of the next one."""
        ops = instruction.operands
        if instruction.name == "call":
            self._call(ops[0], ops[1:])
        elif instruction.name == "jump":
            return ops[0]
        elif instruction.name == "jump_unless":
            return instruction.end if self.bytes(ops[0], 1)[0] else ops[1]
        else:
            getattr(self, f"_{instruction.name}")(*ops)
        return instruction.end

    def bytes(self, address: int, size: int, writes: bool = False) -> Array:
        """`size` bytes at an address. Raises MlfError if they are not all in one block."""
        space, number = split(address)
        block: Array | None = None
        if space == WORKSPACE:
            block = self.workspace[number:] if number <= self.workspace.size else None
        elif number < len(self.spaces.get(space, ())) and not (writes and space != OUTPUT):
            block = self.spaces[space][number]
        if block is None or size > block.size:
            verb = "written" if writes else "read"
            raise self.error(f"{size} bytes at address 0x{address:08x} cannot be {verb}")
        return block[:size]

    def _call(self, number: int, addresses: Sequence[int]) -> None:
        function = self.module.functions[number]
        blocks = [
            self.bytes(address, function.bytes[k], bool(function.writes[k]))
            for k, address in enumerate(addresses)
        ]
        pointers = [b.ctypes.data for b in blocks]
        arguments = (ctypes.c_void_p * max(1, len(blocks)))(*pointers)
        status = function.kernel(arguments)
        if status != 0:
            raise self.error(f"function {number} returned {status}")

    def _int64(self, address: int) -> int:
        return int(self.bytes(address, 8).view(np.int64)[0])

    def _store(self, address: int, value: int, dtype: Any) -> None:
        kind = np.dtype(dtype)
        self.bytes(address, kind.itemsize, True)[:] = np.frombuffer(
            np.array(value).astype(kind).tobytes(), np.uint8
        )

    def _copy(self, to: int, source: int, size: int) -> None:
        self.bytes(to, size, True)[:] = self.bytes(source, size).copy()

    def _zero(self, to: int, size: int) -> None:
        self.bytes(to, size, True)[:] = 0

    def _set(self, to: int, low: int, high: int) -> None:
        self._store(to, int(np.uint64(high << 32 | low).astype(np.int64)), np.int64)

    def _add(self, to: int, step: int) -> None:
        self._store(to, self._int64(to) + int(np.uint32(step).astype(np.int32)), np.int64)

    def _less(self, to: int, left: int, right: int) -> None:
        self._store(to, self._int64(left) < self._int64(right), np.bool_)

    def _narrow(self, to: int, source: int) -> None:
        self._store(to, self._int64(source), np.int32)

    def _element(self, whole: Array, size: int, index: int, count: int, backwards: int) -> Array:
        k = self._int64(index)
        if not 0 <= k < count:
            raise self.error(f"element {k} of {count}")
        at = size * (count - 1 - k if backwards else k)
        return whole[at : at + size]

    def _gather(self, to: int, source: int, size: int, k: int, count: int, back: int) -> None:
        whole = self.bytes(source, size * count)
        self.bytes(to, size, True)[:] = self._element(whole, size, k, count, back).copy()

    def _scatter(self, to: int, source: int, size: int, k: int, count: int, back: int) -> None:
        whole = self.bytes(to, size * count, True)
        self._element(whole, size, k, count, back)[:] = self.bytes(source, size).copy()


__all__ = ["Instruction", "VmModule"]
__getattr__ = missing(__name__, __all__)  # of TVM's tvm.runtime.vm
