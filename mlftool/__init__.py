"""mlftool compiles ONNX models to C for microcontrollers and packs them as MLF archives.

import mlftool
mod, params = mlftool.from_onnx("model.onnx")
factory = mlftool.build(mod, "cortex-m4", executor="aot", params=params)
mlftool.export_model_library_format(factory, "model.tar")
outputs = mlftool.load("model.tar").module().run({"x": array})
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlftool import api, contrib, micro, nd, relay, target, transform
    from mlftool.api import (
        Executor,
        IRModule,
        PassContext,
        Runtime,
        build,
        build_operator,
        create_executor,
        export_model_library_format,
        from_onnx,
    )
    from mlftool.runtime.load import load
    from mlftool.runtime.nd import cpu

__version__ = "0.1.0"
__all__ = [
    "Executor",
    "IRModule",
    "PassContext",
    "Runtime",
    "__version__",
    "api",
    "build",
    "build_operator",
    "contrib",
    "cpu",
    "create_executor",
    "export_model_library_format",
    "from_onnx",
    "load",
    "micro",
    "nd",
    "relay",
    "target",
    "transform",
]
_HOMES = {
    **dict.fromkeys(("Executor", "IRModule", "PassContext", "Runtime"), "mlftool.api"),
    **dict.fromkeys(("build", "build_operator", "create_executor", "from_onnx"), "mlftool.api"),
    "export_model_library_format": "mlftool.api",
    "cpu": "mlftool.runtime.nd",
    "load": "mlftool.runtime.load",
}
_MODULES = ("api", "contrib", "micro", "nd", "relay", "runtime", "target", "transform")


def __getattr__(name: str) -> Any:
    """What is heavy to import, when it is asked for: a manifest is checked without numpy."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"mlftool.{name}")
    raise AttributeError(f"module 'mlftool' has no attribute '{name}'")
