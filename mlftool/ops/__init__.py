"""Every operator, grouped by kernel family. Importing this package fills the registry."""

from mlftool.ops import (
    binary,
    contract,
    control,
    elementwise,
    extents,
    generate,
    indexed,
    movement,
    normalise,
    quantise,
    reduce,
    table,
    unary,
    window,
)
from mlftool.ops.base import OPS, Kernel, OpDef, Operand, Trait, UnsupportedError, has

__all__ = [
    "OPS",
    "Kernel",
    "OpDef",
    "Operand",
    "Trait",
    "UnsupportedError",
    "binary",
    "contract",
    "control",
    "elementwise",
    "extents",
    "generate",
    "has",
    "indexed",
    "movement",
    "normalise",
    "quantise",
    "reduce",
    "table",
    "unary",
    "window",
]
