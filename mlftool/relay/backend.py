"""TVM's `tvm.relay.backend`."""

from mlftool.api import Executor, Runtime

__all__ = ["Executor", "Runtime"]
