"""What a module of an archive takes and gives, read from its executor-config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.mlf import Bundle

_PREFIX = "executor-config/aot/"


@dataclass(frozen=True)
class Tensor:
    """An input or output. `name` is the model's own and may hold anything; `c_name` is C's."""

    name: str
    c_name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class Interface:
    """One module, its tensors in call order, and the sizes its compiler stated.

    With `workspace_io` the module itself holds its inputs and outputs and says where they are.
    """

    module: str
    target: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    workspace_bytes: int
    constants_bytes: int
    workspace_io: bool = False


def module_names(bundle: Bundle) -> tuple[str, ...]:
    """The modules of the archive that can be run, sorted."""
    names = (n.removeprefix(_PREFIX) for n in bundle.files if n.startswith(_PREFIX))
    return tuple(sorted(n.removesuffix(".json") for n in names if n.endswith(".json")))


def read_interface(bundle: Bundle, module: str | None = None, file: str = "") -> Interface:
    """The interface of `module`; without a name, of the only module there is.

    `file` is the archive's name, for messages. Raises MlfError.
    """
    names = module_names(bundle)
    if not names:
        text = f"no module that can be run; expected {_PREFIX}MODULE.json"
        raise MlfError(Problem("MLF0606", text, file, help="compile with --executor aot"))
    if module is None and len(names) > 1:
        text = f"the archive holds {len(names)} modules"
        hint = f"choose one with --module: {', '.join(names)}"
        raise MlfError(Problem("MLF0606", text, file, help=hint))
    name = names[0] if module is None else module
    if name not in names:
        text = f"no module of this name; got '{name}', expected one of {', '.join(names)}"
        raise MlfError(Problem("MLF0606", text, file, help=did_you_mean(name, names)))
    member = f"{_PREFIX}{name}.json"
    try:
        return _interface(name, json.loads(bundle.files[member]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        text = f"not a description of a module: {type(error).__name__}: {error}"
        raise MlfError(Problem("MLF0607", text, file, path=member)) from None


def _interface(module: str, data: Mapping[str, Any]) -> Interface:
    if data["schema_version"] != 1:
        raise ValueError(f"schema_version is {data['schema_version']}, expected 1")
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
    )


def _tensor(data: Mapping[str, Any]) -> Tensor:
    shape = tuple(int(extent) for extent in data["shape"])
    dtype = np.dtype(str(data["dtype"]))
    size = int(data["size_bytes"])
    # The sizes become C arrays and ctypes buffers: a wrong one would be a wrong memory access.
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        raise ValueError(f"tensor '{data['name']}' is {dtype} {list(shape)}")
    if size != dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise ValueError(f"tensor '{data['name']}' says {size} bytes for {dtype} {list(shape)}")
    c_name = str(data["c_name"])
    if not (c_name.isascii() and c_name.isidentifier()):
        raise ValueError(f"'{c_name}' is no C identifier")
    return Tensor(str(data["name"]), c_name, dtype, shape, size)
