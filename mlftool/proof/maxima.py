"""Loops that look for the greatest element: no element that they saw is above what they found."""

from __future__ import annotations

from mlftool.frozen import frozen
from mlftool.proof.affine import Sum
from mlftool.proof.ctree import Expr, Stmt, Type, number


@frozen
class Bound:
    """None of `count` elements, `step` bytes apart from `first` on, is above `most`, until
    something is written to their memory."""

    memory: str
    type: Type
    first: Sum
    step: int
    count: int
    most: Sum


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
