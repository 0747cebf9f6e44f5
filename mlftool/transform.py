"""TVM's `tvm.transform`."""

from mlftool.api import PassContext

__all__ = ["PassContext"]
