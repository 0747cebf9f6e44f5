"""TVM's `tvm.relay.backend`."""

from mlftool.api import Executor, Runtime
from mlftool.moved import missing

__all__ = ["Executor", "Runtime"]
__getattr__ = missing(__name__, __all__)
