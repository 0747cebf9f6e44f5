"""Operators in Relay, the language of TVM's models: what a rule may ask and write, and rules that
many operators share.

A rule writes the calls for one node and returns the expression of its result, one for each output,
or None where Relay has nothing like it. codegen/relay implements the site.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, Protocol

from mlftool.ir.graph import Array, Node, TensorType

LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}
STORED = ("int8", "uint8", "int16", "uint16", "int32")  # what qnn quantises to


class Site(Protocol):
    """One node, and what a rule may ask and write there."""

    @property
    def node(self) -> Node: ...

    @property
    def count(self) -> int:
        """Of inputs."""

    @property
    def rank(self) -> int:
        """Of the first input."""

    @property
    def out(self) -> TensorType: ...

    @property
    def made(self) -> list[TensorType]:
        """The types of all outputs."""

    def has(self, index: int) -> bool: ...

    def type(self, index: int = 0) -> TensorType: ...

    def const(self, index: int) -> Array | None: ...

    def scalar(self, index: int, default: float | None = None) -> float | None:
        """The value of a constant with one element; `default` if it is left out."""

    def ints(self, index: int) -> list[int] | None:
        """The elements of a constant."""

    def attr(self, name: str, default: Any) -> Any: ...

    def axis(self, default: int, rank: int | None = None) -> int:
        """Attribute `axis`, counted from the front."""

    def arg(self, index: int = 0) -> str:
        """The expression of an input."""

    def args(self) -> list[str]: ...

    def single(self, index: int) -> str:
        """The input as a scalar."""

    def literal(self, value: float, dtype: str | None = None) -> str:
        """A scalar of `dtype`, else of the first input's."""

    def call(self, op: str, *arguments: str, **attrs: Any) -> str:
        """A call; attributes that are None are left out."""

    def cast(self, text: str, dtype: str) -> str: ...
    def tuple(self, parts: Iterable[str]) -> str: ...

    def bind(self, expression: str) -> str:
        """A name for any expression."""

    def branch(self, key: str) -> str:
        """A subgraph as a block that reads this node's inputs after the first."""


Rule = Callable[[Site], "str | tuple[str, ...] | None"]


def unary(op: str) -> Rule:
    return lambda s: s.call(op, s.arg())


def binary(op: str) -> Rule:
    def rule(s: Site) -> str | None:
        if s.type(0).dtype != s.type(1).dtype:
            return None  # Pow may mix types; Relay's operators do not
        return s.call(op, s.arg(0), s.arg(1))

    return rule


def variadic(op: str, mean: bool = False) -> Rule:
    def rule(s: Site) -> str:
        total = reduce(lambda a, b: s.call(op, a, b), s.args())
        return s.call("divide", total, s.literal(s.count)) if mean else total

    return rule


def window(s: Site) -> dict[str, list[int]]:
    n = s.rank - 2
    return {
        "strides": list(s.attr("strides", [1] * n)),
        "padding": list(s.attr("pads", [0] * 2 * n)),
        "dilation": list(s.attr("dilations", [1] * n)),
    }


def dense(s: Site, x: str, w: str, units: int, transposed: bool) -> str:
    """x times w, which nn.dense wants with a row for each unit."""
    if not transposed:
        w = s.call("transpose", w, axes=[1, 0])
    return s.call("nn.dense", x, w, units=units)


def zero_point(s: Site, index: int) -> str:
    if not s.has(index):
        return "0"
    axes = s.type(index).shape
    zero = s.arg(index) if len(axes) == 1 and axes[0] > 1 else s.single(index)
    return s.cast(zero, "int32")


def scale_of(s: Site, index: int) -> str:
    axes = s.type(index).shape
    return s.arg(index) if len(axes) == 1 and axes[0] > 1 else s.single(index)


def requantise(s: Site, sums: str, scales: tuple[int, int], to: tuple[int, int]) -> str:
    """int32 sums in units of two scales' product, stored as the output is."""
    scale = s.call("multiply", scale_of(s, scales[0]), scale_of(s, scales[1]))
    per_channel = s.type(scales[1]).elements > 1
    target, zero = s.single(to[0]), zero_point(s, to[1])
    out = str(s.out.dtype)
    axis = 1 if per_channel else -1
    return s.call("qnn.requantize", sums, scale, "0", target, zero, axis=axis, out_dtype=out)
