"""Operators of quantised tensors in TensorFlow Lite's fixed point: a family beside those of
mlftool/ops, which front ends for that arithmetic import; doing so registers all of them.

Sums of products are not here: those round as their nodes say (mlftool/ir/rounding.py).
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in sorted(m.name for m in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")
