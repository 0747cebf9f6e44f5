"""TVM's `tvm.nd`: arrays on this computer."""

from mlftool.runtime.nd import NDArray, array, cpu, empty

__all__ = ["NDArray", "array", "cpu", "empty"]
