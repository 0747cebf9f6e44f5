"""How a planned model is run: a file for each executor, all over the same kernels."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from mlftool.codegen.executor import Executor
from mlftool.options import EXECUTORS as NAMES

EXECUTORS: Mapping[str, Executor] = {
    name: import_module(f"{__name__}.{name}").EXECUTOR for name in NAMES
}
