"""Rewrites of the graph, in files that `PIPELINE` finds; MLF_DEBUG=1 prints them in order."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from mlftool.passes.order import PASSES, by_tvm, ordered

for _module in sorted(m.name for m in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")  # which registers its passes

PIPELINE = ordered(PASSES.values())
TVM_PASSES = by_tvm(PIPELINE)
