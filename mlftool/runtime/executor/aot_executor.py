"""TVM's place for AotModule."""

from mlftool.runtime.executor import AotModule

__all__ = ["AotModule"]
