"""TVM's `tvm.target`."""

from mlftool.api import Target
from mlftool.moved import missing

__all__ = ["Target"]
__getattr__ = missing(__name__, __all__)
