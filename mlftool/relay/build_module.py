"""TVM's `tvm.relay.build_module`."""

from mlftool.api import build, create_executor
from mlftool.moved import missing

__all__ = ["build", "create_executor"]
__getattr__ = missing(__name__, __all__)
