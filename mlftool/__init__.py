"""mlftool compiles ONNX and TFLite models to C for microcontrollers, packed as MLF archives.

import mlftool
factory = mlftool.build("model.onnx", "cortex-m4", executor="aot")
mlftool.export_model_library_format(factory, "model.tar")
outputs = mlftool.load("model.tar").module().run({"x": array})
outputs = mlftool.load("model.onnx").module().run("x.npy")  # of a model with one input
"""

from __future__ import annotations

import importlib

from mlftool.moved import missing

TYPE_CHECKING = False  # typing takes longer to import than all that is imported here
if TYPE_CHECKING:
    from typing import Any

    from mlftool import api, backends, contrib, micro, nd, relay, target, transform
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
        from_tflite,
        load,
        partition_for,
        partition_for_cmsisnn,
        register_backend,
    )
    from mlftool.runtime.nd import cpu, device
    from mlftool.version import VERSION as __version__  # noqa: N811

__all__ = [
    "Executor",
    "IRModule",
    "PassContext",
    "Runtime",
    "__version__",
    "api",
    "backends",
    "build",
    "build_operator",
    "contrib",
    "cpu",
    "create_executor",
    "device",
    "export_model_library_format",
    "from_onnx",
    "from_tflite",
    "load",
    "micro",
    "nd",
    "partition_for",
    "partition_for_cmsisnn",
    "register_backend",
    "relay",
    "target",
    "transform",
]
# TVM's, which its scripts take from here.
_POOLS = (
    *("ConstantMemoryPools", "ConstantPoolInfo", "PoolInfoProperties"),
    *("WorkspaceMemoryPools", "WorkspacePoolInfo"),
)
_HOMES = {
    **dict.fromkeys(("Executor", "IRModule", "PassContext", "Runtime"), "mlftool.api"),
    **dict.fromkeys(("build", "build_operator", "create_executor", "from_onnx"), "mlftool.api"),
    "from_tflite": "mlftool.api",
    **dict.fromkeys(("partition_for", "partition_for_cmsisnn"), "mlftool.api"),
    "register_backend": "mlftool.api",
    "TVMError": "mlftool.errors",
    **dict.fromkeys(("export_model_library_format", "load"), "mlftool.api"),
    **dict.fromkeys(_POOLS, "mlftool.api.pools"),
    **dict.fromkeys(("cpu", "device"), "mlftool.runtime.nd"),
}
_missing = missing(__name__, __all__)
_MODULES = ("api", "backends", "contrib", "micro", "nd", "relay", "runtime", "target", "transform")


def __getattr__(name: str) -> Any:
    """What is heavy to import, when it is asked for: a manifest is checked without numpy."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"mlftool.{name}")
    if name == "__version__":
        return importlib.import_module("mlftool.version").VERSION
    if name in importlib.import_module("mlftool.targets.foreign").DEVICES:
        return importlib.import_module("mlftool.runtime.nd").refused(name)
    return _missing(name)


def __dir__() -> list[str]:
    """What a notebook offers to complete: the public names, though few are imported yet."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
