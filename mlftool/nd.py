"""TVM's `tvm.nd`: arrays on this computer."""

from mlftool.moved import missing
from mlftool.runtime.nd import NDArray, array, cpu, empty

__all__ = ["NDArray", "array", "cpu", "empty"]
__getattr__ = missing(__name__, __all__)
