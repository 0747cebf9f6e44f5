"""TVM's `tvm.contrib.graph_executor`."""

from __future__ import annotations

from typing import Any

from mlftool.api.factory import Library
from mlftool.moved import missing
from mlftool.runtime.executor import GraphModule


def create(graph_json: str, lib: Library, device: Any = None) -> GraphModule:
    """The module that `lib` is the code of; its graph and its parameters belong to it."""
    return GraphModule(lib.factory["default"](device))


__all__ = ["GraphModule", "create"]
__getattr__ = missing(__name__, __all__)
