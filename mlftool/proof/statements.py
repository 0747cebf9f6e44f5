"""What statements of C change and read, by their text alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.proof.ctree import Expr, Stmt


def assigned(body: Sequence[Stmt], *conditions: Expr | None) -> list[str]:
    """Names of variables that statements or conditions may change."""
    found: dict[str, None] = {}

    def look(e: Expr) -> None:
        changed = e.kind in ("assign", "postfix")
        changed |= e.kind == "unary" and e.text in ("++", "--", "&")
        for one in e.parts[:1] if changed else e.parts if e.kind == "changed" else ():
            while one.kind == "member" or (one.kind == "index" and one.parts[0].kind == "member"):
                one = one.parts[0]
            if one.kind == "name":
                found[one.text] = None
        for part in e.parts:
            look(part)

    for e in (*conditions, *_expressions(body)):
        if e is not None:
            look(e)
    return list(found)


def leading(body: Sequence[Stmt]) -> Iterator[str]:
    """Names of addresses from which is read how far others move."""

    def look(e: Expr, moves: bool) -> Iterator[str]:
        if moves and e.kind == "index" and e.parts[0].kind == "name":
            yield e.parts[0].text
        moves |= e.kind == "assign" and e.text == "+="
        for part in e.parts:
            yield from look(part, moves)

    for e in _expressions(body):
        if e is not None:
            yield from look(e, False)


def _expressions(body: Sequence[Stmt]) -> Iterator[Expr | None]:
    for one in body:
        yield from one.exprs
        yield from (v.value for v in one.variables)
        yield from _expressions(one.body)
        yield from _expressions(one.other)
