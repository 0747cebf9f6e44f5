"""Every operator, grouped by kernel family: each module beside this one is a family, and importing
this package fills the registry with all of them."""

from importlib import import_module
from pkgutil import iter_modules

from mlftool.ops.base import OPS, Kernel, Op, Operand, Trait, UnsupportedError, has, is_a, record

for _module in sorted(m.name for m in iter_modules(__path__)):
    import_module(f"{__name__}.{_module}")

__all__ = ["OPS", "Kernel", "Op", "Operand", "Trait", "UnsupportedError", "has", "is_a", "record"]
