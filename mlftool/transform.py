"""TVM's `tvm.transform`."""

from mlftool.api import PassContext
from mlftool.moved import missing

__all__ = ["PassContext"]
__getattr__ = missing(__name__, __all__)
