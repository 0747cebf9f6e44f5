"""TVM's `tvm.target`."""

from mlftool.api import Target

__all__ = ["Target"]
