"""An executor's output: files by their names in the archive, and facts about them."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.frozen import field, frozen
from mlftool.ir.graph import Array

SRC, INCLUDE, LIB = "codegen/host/src", "codegen/host/include", "codegen/host/lib"


@frozen
class OperatorFunction:
    """A C function that computes a step, and what it allocates for itself while it runs."""

    symbol: str
    workspace_bytes: int = 0


@frozen
class Storage:
    """One entry of the graph executor's storage table; `binding` is the input that lives there."""

    id: int
    size_bytes: int
    binding: str = ""


@frozen
class Sources:
    """An executor's output for one module, and the archive's description of it."""

    files: Mapping[str, str]  # by their names in the archive
    functions: tuple[OperatorFunction, ...]
    symbols: tuple[str, ...]  # the function of each call
    members: Mapping[str, str]  # input or output -> C member name
    constants_bytes: int
    workspace_bytes: int
    params: Mapping[str, Array] = field(default_factory=dict)
    packed: tuple[str, ...] = ()  # functions that a registry may list, in its order
    storages: tuple[Storage, ...] = ()
    data: Mapping[str, bytes] = field(default_factory=dict)  # binary files
    headers: Mapping[str, str] = field(default_factory=dict)  # that are no module's own
    state_bytes: int = 0  # what the module keeps from one run to the next

    def written(self) -> dict[str, bytes]:
        """All files as they are stored. What compiles the C needs all: it may include `data`."""
        texts = {**self.headers, **self.files}
        return {name: text.encode() for name, text in texts.items()} | dict(self.data)

    def _file(self, end: str) -> str:
        return next(text for name, text in self.files.items() if name.endswith(end))

    @property
    def header(self) -> str:
        return self._file(".h")

    @property
    def lib0(self) -> str:
        return self._file("_lib0.c")

    @property
    def lib1(self) -> str:
        return self._file("_lib1.c")
