"""What an operator is to the rest of the compiler: its portable kernel and its traits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from mlftool.ir.graph import Array, TensorType, View


class Trait(Enum):
    """What passes may ask about an operator, so that they need not know its name."""

    ELEMENTWISE = auto()  # each output element depends on the input elements at its own index
    VIEW = auto()  # same bytes, other shape: costs nothing
    MOVES_DATA = auto()  # copies elements without looking at them
    ORDER_PRESERVING = auto()  # picks elements by comparing them: commutes with quantisation
    SPATIAL = auto()  # input 0 and the output are [N, C, D1, ...]
    EPILOGUE = auto()  # its kernels can apply elementwise operators to what they store
    PROLOGUE = auto()  # its kernels can apply unary elementwise operators to what they load
    NARROW = auto()  # its kernels read and write 16-bit floats themselves
    STEPWISE = auto()  # of k operands: k - 1 steps of two, each reading the step before repeatedly
    QUANTISE = auto()  # QuantizeLinear and its like: kept out of constant folding at import


@dataclass(frozen=True)
class Operand:
    """One parameter of a kernel's C function."""

    name: str  # the C parameter
    ctype: str  # of one element
    role: str  # "in", "out", "const" or "scratch"
    value: str = ""  # in, out: the tensor
    array: Array | None = None  # const: what the weights section holds
    bytes: int = 0  # scratch: how much of the arena it needs
    planned: bool = False  # scratch: in the arena however small it is
    note: str = ""  # const: how weights are packed, for a comment


@dataclass(frozen=True)
class Kernel:
    """One way to compute one node: a template, and everything the template may read."""

    name: str  # how reports and bids call it, e.g. "portable.conv"
    template: str  # file beside the operator or beside the target's kernels
    params: Mapping[str, Any]
    operands: tuple[Operand, ...]
    cost: float  # estimated instructions
    compact: bool = False  # written for few code bytes: first where those count
    macs: int = 0
    includes: tuple[str, ...] = ("mlf/kernel.h",)
    inplace: tuple[str, ...] = ()  # tensors whose memory the output may take over
    # Inputs the output may overlap: least and most bytes from the output's start to the input's.
    overlap: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    parametric: bool = False  # any integer of its text may be an int32_t variable instead


Bid = Callable[[View], "Kernel | None"]
Result = Callable[[Sequence[TensorType | None], Mapping[str, Any]], TensorType]


@dataclass(frozen=True)
class OpDef:
    """Everything any stage may ask about an operator."""

    name: str
    kernel: Bid  # the portable implementation; None when this very form is not supported
    traits: frozenset[Trait] = field(default_factory=frozenset)
    # Input types and attributes -> type of the output, for operators that onnx does not know.
    result: Result | None = None


OPS: dict[str, OpDef] = {}


def op(name: str, *traits: Trait, result: Result | None = None) -> Callable[[Bid], Bid]:
    """Register the function below as operator `name`'s portable kernel."""

    def register(kernel: Bid) -> Bid:
        assert name not in OPS, name
        OPS[name] = OpDef(name, kernel, frozenset(traits), result)
        return kernel

    return register


def has(name: str, trait: Trait) -> bool:
    """Whether operator `name` is known and has `trait`."""
    return name in OPS and trait in OPS[name].traits


def like_first(types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> TensorType:
    """The result of operators whose output is like their first input."""
    if not types or types[0] is None:
        raise UnsupportedError("has no first input")
    return types[0]


class UnsupportedError(Exception):
    """Raised by a kernel that cannot compute this node; the text says what and what would work."""
