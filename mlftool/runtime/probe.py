"""The C metadata of TVM's packed modules, which are compiled and called.

tvm/runtime/metadata_types.h has the structures; on this computer ctypes lays them out alike.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.mlf.interface import Interface, Tensor, checked_size, numpy_dtype
from mlftool.mlf.params import numpy_name
from mlftool.mlf.records import Archive, ModuleRecord
from mlftool.runtime.build import build_code
from mlftool.runtime.derive import target_of
from mlftool.runtime.sources import module_code

_MOST = 10_000  # tensors of a module: more is garbage


class _TensorInfo(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("num_shape", ctypes.c_int64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Metadata(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int64),
        ("inputs", ctypes.POINTER(_TensorInfo)),
        ("num_inputs", ctypes.c_int64),
        ("outputs", ctypes.POINTER(_TensorInfo)),
        ("num_outputs", ctypes.c_int64),
        ("workspace_pools", ctypes.c_void_p),
        ("num_workspace_pools", ctypes.c_int64),
        ("constant_pools", ctypes.c_void_p),
        ("num_constant_pools", ctypes.c_int64),
        ("mod_name", ctypes.c_char_p),
    )


def _symbol(record: ModuleRecord) -> str:
    return f"tvmgen_{record.name}_get_c_metadata"


def has_metadata(record: ModuleRecord) -> bool:
    """Whether some file of the code defines or mentions the function that gives them."""
    return any(_symbol(record).encode() in data for data in record.sources.values())


def c_metadata(archive: Archive, record: ModuleRecord) -> Interface:
    """The interface of a packed module. Raises MlfError if it does not build or makes no sense."""
    flags = ("-O0", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined")
    code = module_code(archive, record)
    what = f"module '{record.name}'"
    path = build_code(code, {}, flags, "lib{key}.so", what, None, crt=record)
    try:
        metadata = _ask(ctypes.CDLL(str(path)), _symbol(record))
        inputs = _tensors(metadata.inputs, metadata.num_inputs, "in")
        outputs = _tensors(metadata.outputs, metadata.num_outputs, "out")
        if not outputs:
            raise ValueError("they name no outputs")
    except (OSError, AttributeError, ValueError) as error:
        text = f"its C metadata do not describe the module: {error}"
        raise MlfError(Problem("MLF0607", text, path=record.name)) from None
    main = record.memory.main
    return Interface(
        record.name,
        target_of(record),
        inputs,
        outputs,
        sum(m.workspace_bytes for m in main),
        sum(m.constants_bytes for m in main),
        interface_api="packed",
    )


def _ask(library: ctypes.CDLL, symbol: str) -> _Metadata:
    value, code = (ctypes.c_int64 * 1)(), ctypes.c_int32(0)
    status = library[symbol](None, None, 0, value, ctypes.byref(code), None)
    if status != 0 or not value[0]:
        raise ValueError(f"{symbol} returned {status}")
    metadata: _Metadata = ctypes.cast(value[0], ctypes.POINTER(_Metadata)).contents
    if metadata.version != 1:
        raise ValueError(f"they have version {metadata.version}, expected 1")
    return metadata


def _tensors(infos: Any, count: int, kind: str) -> tuple[Tensor, ...]:
    if not 0 <= count <= _MOST:
        raise ValueError(f"they name {count} tensors")
    tensors = []
    for i in range(count):
        info = infos[i]
        if not 0 <= info.num_shape <= 32 or info.lanes != 1:
            raise ValueError(f"tensor {i} has rank {info.num_shape} and {info.lanes} lanes")
        shape: Sequence[int] = [int(info.shape[k]) for k in range(info.num_shape)]
        if min(shape, default=0) < 0:
            raise ValueError(f"tensor {i} has shape {shape}")
        dtype = numpy_dtype(numpy_name(info.code, info.bits))
        name = (info.name or b"").decode("utf-8", "replace")
        size = checked_size(dtype, tuple(shape))
        tensors.append(Tensor(name, f"{kind}{i}", dtype, tuple(shape), size))
    names = [t.name for t in tensors]
    if len(set(names)) != len(names):
        raise ValueError(f"two tensors have the same name: {', '.join(names)}")
    return tuple(tensors)
