"""TVM's `tvm.relay.frontend`: ONNX and TensorFlow Lite are read."""

from mlftool.api import from_onnx, from_tflite
from mlftool.moved import missing

__all__ = ["from_onnx", "from_tflite"]
__getattr__ = missing(__name__, __all__)
