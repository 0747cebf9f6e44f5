"""TVM's `tvm.contrib.graph_executor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlftool.api.factory import Library
from mlftool.moved import missing
from mlftool.runtime.executor import GraphModule
from mlftool.runtime.load import LoadedArchive, LoadedModule
from mlftool.runtime.shared_load import LoadedLibrary

Loaded = LoadedArchive | LoadedModule | LoadedLibrary


def create(
    graph_json: str | Mapping[str, Any], lib: Library | Loaded, device: Any = None
) -> GraphModule:
    """The module that `lib` is the code of, built or loaded; its graph and its parameters belong to
    it."""
    factory = lib.factory if isinstance(lib, Library) else lib
    made: GraphModule = GraphModule(factory["default"](device))
    return made


__all__ = ["GraphModule", "create"]
__getattr__ = missing(__name__, __all__)
