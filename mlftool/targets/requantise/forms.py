"""How a layer's sums are stored by processors that compute one of them at a time: the one place
that knows which C function has the bits of the node's rounding in the fewest instructions."""

from __future__ import annotations

from collections.abc import Callable

from mlftool.frozen import frozen
from mlftool.ir.holes import Number
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, largest, requantize, scale_operand
from mlftool.targets.requantise.fixed import fixed
from mlftool.targets.requantise.once import once
from mlftool.targets.requantise.twice import away, one_sided


@frozen
class At:
    """Where a channel's numbers are: elements of arrays, or variables whose names end in `held`."""

    channel: str
    held: str = ""

    def __call__(self, name: str) -> str:
        return f"{name}{self.held}" if self.held else f"{name}[{self.channel}]"


@frozen
class Form:
    """`pattern` is the C of a sum times 2^left, and of where numbers are, as a stored value.

    `sure` is the same of a channel whose first hoist is not negative, if others take longer, and
    `upper` of a sum times 256, which only such channels have. `hoists` are the operands that a loop
    over one channel's sums may read before it.
    """

    pattern: Callable[[str, At], str]
    operands: tuple[Operand, ...]
    left: int = 0
    hoists: tuple[Operand, ...] = ()
    includes: tuple[str, ...] = ()
    sure: Callable[[str, At], str] | None = None
    upper: Callable[[str, At], str] | None = None

    def text(self, acc: str, channel: str, held: str = "") -> str:
        """C text of what is stored for a sum; variables `<name><held>` hold the hoists."""
        return self.pattern(self._scaled(acc), At(channel, held if self.hoists else ""))

    def sure_text(self, acc: str, channel: str, held: str, raised: bool) -> str:
        """The same where the channel has what `sure` and `upper` need; `raised`: the sum is times
        256."""
        at = At(channel, held)
        if raised and self.upper:
            return self.upper(acc, at)
        return (self.sure or self.pattern)(self._scaled(acc), at)

    def _scaled(self, acc: str) -> str:
        return f"{acc} * {Number(1 << self.left)}" if self.left else acc

    def hoisted(self, acc: str, channel: str) -> str:
        """The same for a sum that the kernel has multiplied by 2^left."""
        return self.pattern(acc, At(channel, "c"))


def form(c: Contraction, q: Quantisation, multiple: int = 1) -> Form:
    """The form of processors that multiply two words; channels are padded to a `multiple`."""
    return integer(c, q, multiple) or Form(
        lambda acc, at: requantize(c, q, acc, at.channel),
        (scale_operand(q, multiple),),
    )


def integer(c: Contraction, q: Quantisation, multiple: int = 1) -> Form | None:
    """The same if it is an integer multiplication."""
    if q.rounding is Rounding.TWICE:
        made = one_sided(c, q, multiple) or away(c, q, multiple)
        return Form(made.text, made.operands, made.left, made.operands) if made else None
    if q.rounding is Rounding.ONCE:
        single = once(c, q, multiple)
        return Form(single.text, (single.m,), hoists=(single.m,)) if single else None
    fix = fixed(c, q)
    if fix is None:
        return None
    coded, left = fix.coded(multiple), fix.left
    up = fix.raised_by(8 - left, largest(c, q))
    return Form(
        lambda acc, at: fix.text(acc, at("m")),
        (coded,),
        left,
        (coded,),
        sure=(lambda acc, at: fix.sure_text(acc, at("m"))) if fix.exact.any() else None,
        upper=None if up is None else lambda acc, at: up.sure_text(acc, at("m")),
    )
