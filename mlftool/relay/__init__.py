"""TVM's `tvm.relay`: importing and building models."""

from mlftool.api import IRModule, build, create_executor
from mlftool.relay import backend, frontend

__all__ = ["IRModule", "backend", "build", "create_executor", "frontend"]
