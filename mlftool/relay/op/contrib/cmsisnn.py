"""TVM's `tvm.relay.op.contrib.cmsisnn`."""

from mlftool.api import partition_for_cmsisnn
from mlftool.moved import missing

__all__ = ["partition_for_cmsisnn"]
__getattr__ = missing(__name__, __all__)
