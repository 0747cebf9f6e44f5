"""TVM's `tvm.relay`: importing and building models."""

from mlftool.api import IRModule, build, create_executor
from mlftool.moved import missing
from mlftool.relay import backend, frontend

__all__ = ["IRModule", "backend", "build", "create_executor", "frontend"]
__getattr__ = missing(__name__, __all__)
