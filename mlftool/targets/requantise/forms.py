"""How a layer's sums are stored by processors that compute one of them at a time: the one place
that knows which C function has the bits of the node's rounding in the fewest instructions."""

from __future__ import annotations

from collections.abc import Callable

from mlftool.frozen import frozen, replace
from mlftool.ir.holes import Number
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, largest, requantize, scale_operand
from mlftool.targets.requantise.fixed import Fixed, fixed
from mlftool.targets.requantise.once import once
from mlftool.targets.requantise.twice import away, one_sided


@frozen
class At:
    """Where a channel's numbers are: elements of arrays, or variables whose names end in `held`."""

    channel: str
    held: str = ""

    def __call__(self, name: str) -> str:
        return f"{name}{self.held}" if self.held else f"{name}[{self.channel}]"


Pattern = Callable[[str, At], str]


@frozen
class Form:
    """`pattern` is the C of a sum times 2^left, and of where numbers are, as a stored value.

    `hoists` are the operands that a loop over one channel's sums may read before it. If some
    channels take longer than others, whose first hoist is not negative, `sure` is the same of the
    latter, and `group` of all where C variable `sure` says that none of some channels takes longer.
    `upper` is the form of a sum times 256.
    """

    pattern: Pattern
    operands: tuple[Operand, ...]
    left: int = 0
    hoists: tuple[Operand, ...] = ()
    includes: tuple[str, ...] = ()
    sure: Pattern | None = None
    group: Pattern | None = None
    upper: Form | None = None

    def text(self, acc: str, channel: str, held: str = "") -> str:
        """C text of what is stored for a sum; variables `<name><held>` hold the hoists."""
        return self.by(self.pattern, acc, channel, held)

    def by(self, pattern: Pattern | None, acc: str, channel: str, held: str) -> str:
        """The same by another of its patterns, if it has that."""
        at = At(channel, held if self.hoists else "")
        return (pattern or self.pattern)(self._scaled(acc), at)

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
    raised = fix.raised_by(8 - fix.left, largest(c, q))
    return _single(
        fix, fix.left, multiple, None if raised is None else _single(raised, 0, multiple)
    )


def _single(fix: Fixed, left: int, multiple: int, upper: Form | None = None) -> Form:
    """`left`: by how much the kernel's sums have to be multiplied."""
    coded = fix.coded(multiple)
    made = Form(lambda acc, at: fix.text(acc, at("m")), (coded,), left, (coded,), upper=upper)
    if not fix.exact.any() or not fix.narrow:
        return made
    return replace(
        made,
        sure=lambda acc, at: fix.sure_text(acc, at("m")),
        group=lambda acc, at: fix.group_text(acc, at("m")),
    )
