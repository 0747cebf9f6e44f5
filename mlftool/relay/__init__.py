"""TVM's `tvm.relay`: importing and building models."""

from mlftool.api import IRModule, build, create_executor
from mlftool.moved import missing
from mlftool.relay import backend, frontend, op

__all__ = ["IRModule", "backend", "build", "create_executor", "frontend", "op"]
__getattr__ = missing(__name__, __all__)
