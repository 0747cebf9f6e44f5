"""mlftool compiles ONNX models to C for microcontrollers and packs them as MLF archives."""

__version__ = "0.1.0"
