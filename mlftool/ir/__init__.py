"""Graphs of models. `tvm.ir` is another thing, of which nothing is here."""

from mlftool.moved import missing

__getattr__ = missing(__name__, ())
