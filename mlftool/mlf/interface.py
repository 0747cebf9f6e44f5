"""`executor-config/<executor>/<module>.json`, our own file: a module's inputs and outputs.

TVM's archives have none, and old readers ignore it. `schema_version` is 1; keys are only added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.mlf.strict import parse_json

SCHEMA_VERSION = 1
_PLAIN_TYPE = re.compile("bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
_SMALL_TYPE = re.compile(
    "u?int[24]|bfloat16|float8_(e4m3fn(uz)?|e5m2(fnuz)?|e8m0fnu)|float4_e2m1fn"
)
_SLOTS = re.compile("bytes([1-9][0-9]{0,5})")
MAX_TENSOR = 2**31 - 1  # bytes; microcontrollers have far less


@dataclass(frozen=True)
class Tensor:
    """An input or output. `name` is the model's own and may hold anything; `c_name` is C's.

    `scale` and `zero_point` tell what the integers of a quantised tensor stand for.
    """

    name: str
    c_name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size_bytes: int
    scale: float | None = None
    zero_point: int | None = None
    extents: str = ""  # the output that holds the true extents, if `shape` is their upper bound

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "name": self.name,
            "c_name": self.c_name,
            "dtype": self.dtype.name,
            "shape": list(self.shape),
            "size_bytes": self.size_bytes,
        }
        if self.scale is not None:
            data |= {"scale": self.scale, "zero_point": self.zero_point}
        if self.extents:
            data["extents"] = self.extents
        return data


@dataclass(frozen=True)
class Interface:
    """One module, its tensors in call order, and the sizes its compiler stated.

    With `workspace_io` the module itself holds its inputs and outputs and says where they are.
    `symbol` is the function of an operator archive, and `order` where each of its arguments is
    among inputs and outputs. `pools` and `devices` are members of the structures that TVM's C
    interface takes besides, for memory and for accelerators.
    """

    module: str
    target: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    workspace_bytes: int
    constants_bytes: int
    workspace_io: bool = False
    executor: str = "aot"
    interface_api: str = "c"
    system_lib: bool = False
    symbol: str = ""
    order: tuple[int, ...] = ()
    pools: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    optimize: str = "speed"
    state_bytes: int = 0  # what the module keeps from one run to the next

    @property
    def flag(self) -> str:
        """How a C compiler should optimise it."""
        return "-Os" if self.optimize == "size" else "-O2"

    @property
    def results(self) -> tuple[Tensor, ...]:
        """The model's own outputs, without those that hold extents of others."""
        shapes = {t.extents for t in self.outputs}
        return tuple(t for t in self.outputs if t.name not in shapes)

    def cut(self, made: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """The results of a run as the model's outputs: boxes are cut to their true extents.

        Raises ValueError if extents do not fit their box."""
        cut = {}
        for t in self.results:
            extents = [int(n) for n in made[t.extents]] if t.extents else list(t.shape)
            if any(not 0 <= n <= most for n, most in zip(extents, t.shape, strict=True)):
                raise ValueError(f"output '{t.name}' has extents {extents}, above {list(t.shape)}")
            cut[t.name] = made[t.name][tuple(slice(n) for n in extents)]
        return cut

    @property
    def run_symbol(self) -> str:
        return self.symbol or f"tvmgen_{self.module}_run"


def decode(module: str, data: bytes, file: str = "", member: str = "") -> Interface:
    """The interface of `module`. Raises MlfError if the file contradicts itself."""
    try:
        return _interface(module, parse_json(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"not a description of a module: {type(error).__name__}: {error}"
        raise MlfError(Problem("MLF0607", text, file, path=member)) from None


def _interface(module: str, data: Mapping[str, Any]) -> Interface:
    if data["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema_version is {data['schema_version']}, expected {SCHEMA_VERSION}")
    if data["module"] != module:
        raise ValueError(f"it describes module '{data['module']}'")
    return Interface(
        module=module,
        target=str(data["target"]),
        inputs=tuple(_tensor(t) for t in data["inputs"]),
        outputs=tuple(_tensor(t) for t in data["outputs"]),
        workspace_bytes=int(data["workspace_bytes"]),
        constants_bytes=int(data["constants_bytes"]),
        workspace_io=data.get("workspace_io", False) is True,
        executor=str(data.get("executor", "aot")),
        interface_api=str(data.get("interface_api", "c")),
        system_lib=data.get("system_lib", False) is True,
        pools=tuple(map(str, data.get("pools", ()))),
        devices=tuple(map(str, data.get("devices", ()))),
        optimize=str(data.get("optimize", "speed")),
        state_bytes=int(data.get("state_bytes", 0)),
    )


def _tensor(data: Mapping[str, Any]) -> Tensor:
    shape = tuple(int(extent) for extent in data["shape"])
    dtype = numpy_dtype(str(data["dtype"]))
    size = int(data["size_bytes"])
    # The sizes become C arrays and ctypes buffers: a wrong one would be a wrong memory access.
    if min(shape, default=0) < 0:
        raise ValueError(f"tensor '{data['name']}' is {dtype} {list(shape)}")
    if size != checked_size(dtype, shape):
        raise ValueError(f"tensor '{data['name']}' says {size} bytes for {dtype} {list(shape)}")
    c_name = str(data["c_name"])
    if not (c_name.isascii() and c_name.isidentifier()):
        raise ValueError(f"'{c_name}' is not a C identifier")
    scale = data.get("scale")
    return Tensor(
        str(data["name"]),
        c_name,
        dtype,
        shape,
        size,
        None if scale is None else float(scale),
        None if scale is None else int(data["zero_point"]),
        str(data.get("extents", "")),
    )


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The type of this name, those of 2 to 16 bits among them that numpy itself lacks; `bytes512`
    is a string of at most 64 bytes. Raises ValueError for anything else.

    Only plain names: numpy would take whole expressions.
    """
    if text := _SLOTS.fullmatch(name):
        return np.dtype(f"S{int(text[1]) // 8}")
    if _SMALL_TYPE.fullmatch(name):
        import ml_dtypes

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    if not _PLAIN_TYPE.fullmatch(name):
        raise ValueError(f"'{name[:40]}' is not a supported tensor type (object, text or unknown)")
    return np.dtype(name)


def checked_size(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """The bytes of a tensor that becomes a C array. Raises ValueError if they are too many."""
    size = byte_size(dtype, shape)
    if size > MAX_TENSOR:
        raise ValueError(f"a tensor of {dtype} {list(shape)} takes {size} bytes, over {MAX_TENSOR}")
    return size


def byte_size(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    small = re.fullmatch(r"(?:u?int|float)([24])(?:_e\w+)?", dtype.name)
    bits = int(small[1]) if small else 8 * dtype.itemsize  # several small ones share a byte
    for extent in shape:  # Python's integers do not overflow
        bits *= extent
    return (bits + 7) // 8
