"""Text with declared holes: places whose text is decided after the C around them was written.

A *number* that differs between layers, or changes when a model is trained again, is a hole. It is
filled with its literal or, where layers share a function, with an element of a table. An *operand*
of an expression is a hole until it is known how often the expression has it. Holes are in the text,
between two zero bytes, which no C text has: so they pass through format strings and templates, and
a text is taken apart exactly where it was put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from mlftool.frozen import frozen
from mlftool.ir.columns import aligned, column_of
from mlftool.ir.lexemes import written
from mlftool.ir.loops import MARKS, Token, entered, merged, nested, plain
from mlftool.ir.terms import names_of, settled

_MARK = "\0"


@frozen
class Hole:
    """A place for a number, of which `text` is the C literal; for operand number `text` of an
    expression; or for the name of function `text`, which a call has."""

    kind: str  # "i": int32; "f": finite float32; "x": an operand; "s": a function
    text: str

    def __str__(self) -> str:
        return f"{_MARK}{self.kind}{self.text}{_MARK}"

    @property
    def value(self) -> int | float:
        bare = self.text.strip("(f)")
        return float(bare) if self.kind == "f" else int(bare)


def whole(literal: int | str) -> str:
    """A hole for an int32, with its sign and perhaps in parentheses."""
    return str(Hole("i", f"{literal:d}" if isinstance(literal, int) else literal))


def real(literal: str) -> str:
    """A hole for a finite float32."""
    return str(Hole("f", literal))


def operand(index: int) -> str:
    """A hole for an operand of an expression."""
    return str(Hole("x", f"{index:d}"))


def called(symbol: str) -> str:
    """A hole for the name of a function, which may get another one."""
    return str(Hole("s", symbol))


def pieces(text: str) -> list[str | Hole]:
    """C at even places, holes at odd ones."""
    parts = text.split(_MARK)
    return [Hole(p[0], p[1:]) if k % 2 else p for k, p in enumerate(parts)]


def filled(
    text: str,
    fill: Callable[[Hole], str] = lambda hole: hole.text,
    types: Mapping[str, str] = MappingProxyType({}),
    column: int | None = None,
) -> str:
    """The text with what `fill` gives in its holes, the literals of numbers without it.

    A factor of 1 and an addend of 0 leave together with their operator, `ky * 1 - 0` becomes `ky`
    (ir/terms.py), and loops that run once leave but for their bodies (ir/loops.py). Lines of
    statements begin in `column`, or where the first one does (ir/columns.py)."""
    if _MARK not in text:
        return text
    tokens = tuple(_token(piece, fill) for piece in pieces(text))
    return _settled(tokens, tuple(types.items()), column)


@lru_cache(1024)  # layers of one shape are the same text, in a model and for several targets
def _settled(
    tokens: tuple[Token, ...], types: tuple[tuple[str, str], ...], column: int | None
) -> str:
    """The text of the tokens, less what has no effect."""
    items, space = nested(tokens)
    names = names_of(items, dict(types))
    items = settled(entered(items, lambda part: settled(part, names)), names)
    items = merged(items, frozenset(name for name, _ in types))
    at = column_of(items[0]) if column is None and items else column
    return written(aligned(items, at) if at else items) + space


def _token(piece: str | Hole, fill: Callable[[Hole], str]) -> Token:
    if isinstance(piece, str):
        return "", piece
    return piece.kind, piece.text if piece.kind in MARKS else fill(piece)


def form(text: str) -> str:
    """The text without its numbers: equal for two that differ in nothing else."""
    tokens = [_token(piece, lambda hole: str(Hole(hole.kind, ""))) for piece in pieces(text)]
    return plain(tokens)


def with_operands(text: str, operands: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """An expression with its operands, and how often it has each; numbers stay holes."""
    counts = [0] * len(operands)

    def fill(hole: Hole) -> str:
        if hole.kind != "x":
            return str(hole)
        counts[int(hole.text)] += 1
        return operands[int(hole.text)]

    return filled(text, fill), tuple(counts)


class Number(int):
    """An integer of a layer: what is computed from one is one, and in text it is a hole.

    Only "%d" writes its literal, for names in C.
    """

    def __str__(self) -> str:
        return whole(int(self))

    def __format__(self, spec: str) -> str:
        return str(self)

    def __neg__(self) -> Number:
        return Number(-int(self))

    def __add__(self, other: int) -> Number:
        return _number(int(self).__add__(other))

    def __sub__(self, other: int) -> Number:
        return _number(int(self).__sub__(other))

    def __rsub__(self, other: int) -> Number:
        return _number(int(self).__rsub__(other))

    def __mul__(self, other: int) -> Number:
        return _number(int(self).__mul__(other))

    def __floordiv__(self, other: int) -> Number:
        return _number(int(self).__floordiv__(other))

    def __mod__(self, other: int) -> Number:
        return _number(int(self).__mod__(other))

    __radd__, __rmul__ = __add__, __mul__


def _number(value: int) -> Number:
    """What an operator gives; it is NotImplemented for arrays and floats, which then answer."""
    return Number(value) if isinstance(value, int) else value


def numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with each integer as a number; other values stay."""
    return {k: Number(n) if type(n) is int else n for k, n in values.items()}
