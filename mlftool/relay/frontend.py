"""TVM's `tvm.relay.frontend`: ONNX is the one format that is read."""

from mlftool.api import from_onnx
from mlftool.moved import missing

__all__ = ["from_onnx"]
__getattr__ = missing(__name__, __all__)
