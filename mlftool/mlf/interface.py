"""`executor-config/<executor>/<module>.json`, our own file: a module's inputs and outputs.

TVM's archives have none, and old readers ignore it. `schema_version` is 1; keys are only added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from mlftool.frozen import frozen
from mlftool.mlf.records import ModuleRecord
from mlftool.mlf.strict import MAX_SIZE, Checked, decoded
from mlftool.nibbles import packed, unpacked

T = TypeVar("T")
SCHEMA_VERSION = 1
_PLAIN_TYPE = re.compile("bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
_SMALL_TYPE = re.compile(
    "u?int[24]|bfloat16|float8_(e4m3fn(uz)?|e5m2(fnuz)?|e8m0fnu)|float4_e2m1fn"
)
_SLOTS = re.compile("bytes([1-9][0-9]{0,5})")
MAX_TENSOR = 2**31 - 1  # bytes; microcontrollers have far less


@frozen
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

    def stored(self, array: np.ndarray[Any, Any]) -> bytes:
        """An array of its type and shape as C has it in memory."""
        bits = element_bits(self.dtype)
        return (packed(array, bits) if bits < 8 else array).tobytes()

    def restored(self, data: bytes) -> np.ndarray[Any, Any]:
        """The array, which may be written to, whose `stored` form is `data`."""
        bits = element_bits(self.dtype)
        if bits < 8:
            return unpacked(data, bits, self.dtype, self.shape)
        return np.frombuffer(bytearray(data), self.dtype).reshape(self.shape)

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


@frozen
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
    def ram_bytes(self) -> int:
        """Of working memory, inputs, outputs and states, which a budget limits."""
        tensors = () if self.workspace_io else (*self.inputs, *self.outputs)
        ends = sum(t.size_bytes for t in tensors)
        return self.workspace_bytes + ends + self.state_bytes

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
    return read_description(data, lambda top: _interface(module, top), file, member)[0]


def stated(record: ModuleRecord, file: str) -> Interface | None:
    """What archive `file` states of a module; None if another compiler made it. Raises MlfError."""
    if record.interface is None:
        return None
    return decode(record.name, record.interface, file, member_of(record))


def read_description(
    data: bytes, read: Callable[[Checked], T], file: str, member: str
) -> tuple[T, Any]:
    """What `read` makes of a module's description, and its JSON. Raises MlfError."""
    help = "compile the model again: mlftool wrote this file, and something changed it"
    return decoded(data, read, "MLF0607", file, member, help)


def member_of(record: ModuleRecord) -> str:
    """Where an archive of the newest version has a module's description."""
    return f"executor-config/{record.executor}/{record.name}.json"


def _interface(module: str, top: Checked) -> Interface:
    top.at("schema_version").number(SCHEMA_VERSION, SCHEMA_VERSION)
    described = top.at("module")
    if described.text(MAX_SIZE) != module:
        described.note(f"got '{described.text(MAX_SIZE)}', expected '{module}'")

    def text(key: str, usual: str) -> str:
        found = top.maybe(key)
        return found.text() if found else usual

    def flag(key: str) -> bool:
        found = top.maybe(key)
        return found.flag() if found else False

    def texts(key: str) -> tuple[str, ...]:
        found = top.maybe(key)
        return found.list(Checked.text) if found else ()

    state = top.maybe("state_bytes")
    return Interface(
        module=module,
        target=top.at("target").text(),
        inputs=top.at("inputs").list(_tensor),
        outputs=top.at("outputs").list(_tensor),
        workspace_bytes=top.at("workspace_bytes").number(),
        constants_bytes=top.at("constants_bytes").number(),
        workspace_io=flag("workspace_io"),
        executor=text("executor", "aot"),
        interface_api=text("interface_api", "c"),
        system_lib=flag("system_lib"),
        pools=texts("pools"),
        devices=texts("devices"),
        optimize=text("optimize", "speed"),
        state_bytes=state.number() if state else 0,
    )


def _tensor(entry: Checked) -> Tensor:
    known = len(entry.notes)
    shape = entry.at("shape").list(Checked.number)
    size, c_name = entry.at("size_bytes").number(), entry.at("c_name").text()
    dtype, name = np.dtype(np.int8), entry.at("dtype").text()
    if len(entry.notes) == known:  # else what follows from them is no news
        if not (c_name.isascii() and c_name.isidentifier()):
            entry.at("c_name").note(f"got '{c_name}', expected a C identifier")
        # The sizes become C arrays and ctypes buffers: a wrong one would be a wrong memory access.
        try:
            dtype = numpy_dtype(name)
            if size != checked_size(dtype, shape):
                entry.at("size_bytes").note(f"got {size} bytes for {dtype} {list(shape)}")
        except ValueError as error:
            entry.note(str(error))
    scale, extents = entry.maybe("scale"), entry.maybe("extents")
    return Tensor(
        entry.at("name").text(MAX_SIZE),
        c_name,
        dtype,
        shape,
        size,
        scale.real() if scale else None,
        entry.at("zero_point").number(-(2**31), 2**32) if scale else None,
        extents.text(MAX_SIZE) if extents else "",
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


def element_bits(dtype: np.dtype[Any]) -> int:
    """Fewer than eight if several elements share a byte."""
    small = re.fullmatch(r"(?:u?int|float)([24])(?:_e\w+)?", dtype.name)
    return int(small[1]) if small else 8 * dtype.itemsize


def byte_size(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    bits = element_bits(dtype)
    for extent in shape:  # Python's integers do not overflow
        bits *= extent
    return (bits + 7) // 8
