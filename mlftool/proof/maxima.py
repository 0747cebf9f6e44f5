"""Loops that look for the greatest element: no element that they saw is above what they found."""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.frozen import frozen, replace
from mlftool.proof.affine import Known, Sum
from mlftool.proof.ctree import Expr, Stmt, Type, number


@frozen
class Bound:
    """None of the elements, `step` bytes apart, from `first` to `last` is above `most`, until
    something is written to their memory."""

    memory: str
    type: Type
    first: Sum
    step: int
    last: Sum
    most: Sum

    def from_turn(self, turn: Sum) -> Bound:
        """What still holds in a turn of a loop that overwrites one element after the other."""
        return replace(self, first=self.first + turn.times(self.step))


@frozen
class Written:
    """So many bytes at an address. The memory is None where it is not known."""

    memory: str | None
    at: Sum
    size: Sum

    def spares(self, bound: Bound, known: Known) -> bool:
        """Whether this leaves all elements alone but the first and what precedes it."""
        if self.memory is None or self.memory != bound.memory:
            return self.memory is not None
        return known.is_positive(bound.first + Sum.of(bound.step) - self.at - self.size)


def spared(bounds: Sequence[Bound], writes: Sequence[Written], known: Known) -> bool:
    return all(one.spares(bound, known) for one in writes for bound in bounds)


@frozen
class Search:
    """`for (; index < end; index++) { found = element > found ? element : found; }`"""

    index: str
    end: int
    element: Expr
    found: str


def search(one: Stmt) -> Search | None:
    """What a loop is, if it is one."""
    body = one.body
    while len(body) == 1 and body[0].kind == "block":
        body = body[0].body
    head, steps = one.exprs[0], one.other
    if one.kind != "for" or head is None or len(body) != 1 or len(steps) != 1:
        return None
    do, step = body[0], steps[0].exprs[0]
    assign = do.exprs[0] if do.kind == "do" else None
    if assign is None or (assign.kind, assign.text) != ("assign", "="):
        return None
    found, choice = assign.parts
    if found.kind != "name" or choice.kind != "choice":
        return None
    element, index = choice.parts[1], head.parts[0]
    if (
        choice.parts != (Expr("binary", ">", (element, found)), element, found)
        or element.kind != "index"
        or not _is_plain(element)
        or found == index
        or (head.kind, head.text, index.kind) != ("binary", "<", "name")
        or head.parts[1].kind != "number"
        or step not in (Expr("postfix", "++", (index,)), Expr("unary", "++", (index,)))
    ):
        return None
    return Search(index.text, number(head.parts[1].text), element, found.text)


def _is_plain(e: Expr) -> bool:
    """Whether it changes nothing and calls nothing."""
    return e.kind in ("name", "number", "index", "binary", "cast") and all(map(_is_plain, e.parts))
