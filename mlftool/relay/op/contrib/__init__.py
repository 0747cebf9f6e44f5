"""TVM's `tvm.relay.op.contrib`: other libraries' part of a model."""

from mlftool.moved import missing
from mlftool.relay.op.contrib import cmsisnn

__all__ = ["cmsisnn"]
__getattr__ = missing(__name__, __all__)
