"""TVM's `tvm.relay.frontend`: ONNX is the one format that is read."""

from mlftool.api import from_onnx

__all__ = ["from_onnx"]
