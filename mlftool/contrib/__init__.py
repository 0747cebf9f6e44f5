"""TVM's `tvm.contrib`."""

from mlftool.contrib import graph_executor

__all__ = ["graph_executor"]
