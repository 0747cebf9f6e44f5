"""What a kernel does, as counts of C's operations: a processor's prices make instructions of them
(plan/prices.py).

Kinds of operations:

    whole, times, divide        of integers: times is *, divide / and %, whole any other
    add, mul, div, less         of float; add is -, too, and less any comparison
    convert                     an integer made a float
    load, store                 of an element
    choose                      `?:`, or a branch
    loop                        once around: counting, comparing, going back
    call                        of a function, beyond what it does; memcpy, for one
    memcpy, byte                a call of it, and a byte that it copies
    short, short_byte           the same of a few bytes, which need no call
    wide, wide times, ...       of integers of 64 bits
    double add, ...             of double

and the names of functions, without mlf_ and the f at their end: exp, quantize.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from mlftool.frozen import frozen
from mlftool.ir.dtype import DType
from mlftool.ir.holes import Hole, pieces
from mlftool.ir.lexemes import NAME, NUMBER, OTHER, Group, Item, Lexeme, is_type, written
from mlftool.ir.loops import nested


@frozen
class Operations:
    """How often each kind of operation is done."""

    counts: Mapping[str, float]
    __array_ufunc__ = None  # numpy's numbers leave products to this class

    def __add__(self, other: Operations) -> Operations:
        made = dict(self.counts)
        for kind, n in other.counts.items():
            made[kind] = made.get(kind, 0.0) + n
        return Operations(made)

    def __mul__(self, n: float) -> Operations:
        return Operations({kind: n * own for kind, own in self.counts.items()})

    __rmul__ = __mul__


NOTHING = Operations({})


def times(**counts: float) -> Operations:
    return Operations(counts)


def total(*parts: Operations) -> Operations:
    return sum(parts, NOTHING)


LOOP = times(loop=1)
PRODUCT = times(mul=1, add=1)  # of floats
STEP = times(loop=1, load=1, store=1)  # of a loop that copies elements
SHORT = 16  # bytes, from which on compilers call memcpy


def copies(bytes_: float, many: float = 1.0) -> Operations:
    """`many` copies of so many bytes each, by memcpy or its like."""
    if bytes_ < SHORT:
        return times(short=many, short_byte=many * bytes_)
    return times(memcpy=many, byte=many * bytes_)


FLOAT, DOUBLE, INTEGER, WIDE = "", "double ", "whole", "wide "
_KINDS = {"*": "mul", "/": "div", "%": "div", "+": "add", "-": "add"}
_INTEGER = {"*": "times", "/": "divide", "%": "divide"}
_COMPARES = {"<", ">", "<=", ">=", "==", "!="}
_JOINS = {"&&", "||", "&", "|", "^", "<<", ">>"}


def domain(dtype: DType) -> str:
    """Which operations values of a type have."""
    if dtype.is_float:
        return DOUBLE if dtype.bits == 64 else FLOAT
    return WIDE if dtype.bits == 64 else INTEGER


def of_text(text: str, dtype: DType) -> Operations:
    """What an expression or a statement of C does whose operands are of the type. What is between
    [ and ] is counted as part of the loop around it, unless it is loaded itself."""
    return _of_text(text, domain(dtype))


@lru_cache(4096)
def _of_text(text: str, of: str) -> Operations:
    parts = [part.text if isinstance(part, Hole) else part for part in pieces(text)]
    items, _ = nested((("", "".join(parts)),))
    found: dict[str, float] = {}
    loads: set[str] = set()
    _count(items, of, found, loads)
    if loads:
        found["load"] = float(len(loads))
    return Operations(found)


def _count(
    items: Sequence[Item], of: str, found: dict[str, float], loads: set[str], share: float = 1.0
) -> None:
    """Adds what `items` do, `share` of the times; an element that is loaded twice is loaded once.
    What is after ? or || is done half as often."""
    for k, item in enumerate(items):
        before = items[k - 1] if k else None
        kind, after = "", share
        if isinstance(item, Lexeme) and item.kind == OTHER:
            number = k + 1 < len(items) and _is_number(items[k + 1])
            kind = _kind(item.text, _is_value(before), of, number)
            after = share / 2 if item.text in ("?", "||") else share
        elif isinstance(item, Group):
            kind = _of_group(items, k, of, loads)
            is_index = item.open.text == "["
            inner = INTEGER if is_index or _is_converted(before) else of
            _count(item.items, inner, {} if is_index else found, loads, share)
        if kind:
            found[kind] = found.get(kind, 0.0) + share
        share = after


def _kind(sign: str, has_left: bool, of: str, of_number: bool) -> str:
    """Of an operator, perhaps before a number; "" if it takes no instruction."""
    assigned = sign in ("+=", "-=", "*=", "/=")
    sign = sign[0] if assigned else sign
    if sign == "?":
        return "choose"
    if not has_left and not assigned:
        return "whole" if sign in ("-", "!", "~") and not of_number else ""
    if sign in _KINDS:
        if of == INTEGER:
            return _INTEGER.get(sign, "whole")
        return of + (_INTEGER.get(sign, "add") if of == WIDE else _KINDS[sign])
    if sign in _COMPARES:
        return "whole" if of == INTEGER else of + ("add" if of == WIDE else "less")
    return "whole" if sign in _JOINS else ""


def _of_group(items: Sequence[Item], k: int, of: str, loads: set[str]) -> str:
    """The operation that brackets are: a call, a conversion, an element; "" for any other."""
    item, before = items[k], items[k - 1] if k else None
    assert isinstance(item, Group)
    is_name = isinstance(before, Lexeme) and before.kind == NAME and not is_type(before)
    if item.open.text == "[" and before is not None:
        loads.add(written(items[k - 1 : k + 1]).strip())
    if item.open.text != "(":
        return ""
    if is_name and isinstance(before, Lexeme) and before.text not in ("if", "while", "sizeof"):
        return function(before.text, of)
    return of + "convert" if _is_converted(item) and of in (FLOAT, DOUBLE) else ""


def function(name: str, of: str = FLOAT) -> str:
    """The kind of a call of a function of C."""
    bare = name.removeprefix("mlf_")
    if of == DOUBLE:
        return of + bare
    return bare.removesuffix("f") if of == FLOAT else bare


def _is_value(item: Item | None) -> bool:
    if isinstance(item, Group):
        return not _is_cast(item)
    return isinstance(item, Lexeme) and item.kind in (NAME, NUMBER) and item.text != "return"


def _is_number(item: Item) -> bool:
    return isinstance(item, Lexeme) and item.kind == NUMBER


def _is_cast(item: Item | None) -> bool:
    if not isinstance(item, Group) or item.open.text != "(" or not item.items:
        return False
    return all(is_type(i) or (isinstance(i, Lexeme) and i.text == "*") for i in item.items)


def _is_converted(item: Item | None) -> bool:
    """Whether it is (float) or (double), after which stands an integer."""
    if not _is_cast(item) or not isinstance(item, Group):
        return False
    first = item.items[0]
    return isinstance(first, Lexeme) and first.text in ("float", "double")
