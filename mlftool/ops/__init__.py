"""Every operator, grouped by kernel family. Importing this package fills the registry."""

from mlftool.ops import contract, elementwise, movement, normalise, table, window
from mlftool.ops.base import OPS, Kernel, OpDef, Operand, Trait, UnsupportedError, has

__all__ = [
    "OPS",
    "Kernel",
    "OpDef",
    "Operand",
    "Trait",
    "UnsupportedError",
    "contract",
    "elementwise",
    "has",
    "movement",
    "normalise",
    "table",
    "window",
]
