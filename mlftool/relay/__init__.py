"""TVM's `tvm.relay`: importing and building models."""

from mlftool.api import IRModule, build, create_executor, load_param_dict, save_param_dict
from mlftool.moved import missing
from mlftool.relay import backend, build_module, frontend, op

__all__ = [
    "IRModule",
    "backend",
    "build",
    "build_module",
    "create_executor",
    "frontend",
    "load_param_dict",
    "op",
    "save_param_dict",
]
__getattr__ = missing(__name__, __all__)
