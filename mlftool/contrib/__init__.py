"""TVM's `tvm.contrib`."""

from mlftool.contrib import graph_executor
from mlftool.moved import missing

__all__ = ["graph_executor"]
__getattr__ = missing(__name__, __all__)
