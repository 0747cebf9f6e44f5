"""Expressions of C with numbers of layers: what is multiplied by zero leaves, and what is neutral.

An expression is read by C's precedence, from the operators of sums, products and shifts; what the
grammar here does not have stays as it is. Each rule says what it must know: that an operand is an
integer (0 times a float may be -0 or NaN), or that it has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlftool.frozen import frozen
from mlftool.ir.lexemes import (
    COMMENT,
    NAME,
    NUMBER,
    OTHER,
    Group,
    Item,
    Lexeme,
    Loop,
    every,
    is_integer,
    is_type,
    moved,
    names_type,
    space_of,
)

_LEVELS = {"*": 3, "/": 3, "%": 3, "+": 2, "-": 2, "<<": 1, ">>": 1}
_PREFIX = {"-", "+", "*", "&", "!", "~", "++", "--"}
_EFFECTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}
_BARRIERS = {*_EFFECTS - {"++", "--"}, ",", ";", "?", ":", "<", ">", "<=", ">=", "==", "!="}
_BARRIERS |= {"&&", "||", "|", "^"}
_HEADS = {"if", "for", "while", "switch"}
_WORDS = _HEADS | {"return", "do", "else", "case", "goto", "break", "continue", "const", "static"}
_CALLS = {"mlf_index", "mlf_min_i32", "mlf_max_i32", "mlf_clamp_i32"}  # that give an integer


@frozen
class Names:
    """What declarations say of names: variables, and what pointers and arrays consist of."""

    integers: frozenset[str]
    floats: frozenset[str]
    integer_elements: frozenset[str]


def names_of(items: Sequence[Item], types: Mapping[str, str]) -> Names:
    """Of the declarations in a text, and of the operands of `types`, which are pointers. A name is
    an integer if each of its declarations says so."""
    found: dict[str, set[str]] = {name: {f"{of} *"} for name, of in types.items()}
    before = ""  # a type, on the way to its name
    name = ""
    for kind, _, text in every(items):
        is_type = kind == NAME and names_type(text)
        if not before:  # nothing is declared here
            before = text if is_type else ""
            continue
        if name and text == "[":
            found[name] = {f"{of} *" if of == before else of for of in found[name]}
        name = ""
        if is_type:
            before = text
        elif text == "*":
            before += " *"
        elif text != "const":
            if kind == NAME:
                name = text
                found.setdefault(name, set()).add(before)
            before = before if name else ""
    return Names(
        frozenset(n for n, of in found.items() if all(map(is_integer, of))),
        frozenset(n for n, of in found.items() if of & {"float", "double"}),
        frozenset(n for n, of in found.items() if all(_is_pointer_to_integer(o) for o in of)),
    )


def _is_pointer_to_integer(of: str) -> bool:
    return of.endswith(" *") and is_integer(of.removesuffix(" *"))


@frozen
class Atom:
    """A name, a number, a call, an element, or brackets."""

    items: tuple[Item, ...]


@frozen
class Unary:
    """An operator, or a type in brackets, before its operand."""

    operator: Lexeme | Group
    operand: Term


@frozen
class Binary:
    operator: Lexeme
    left: Term
    right: Term


Term = Atom | Unary | Binary


def settled(items: Sequence[Item], names: Names) -> list[Item]:
    """The items with their expressions settled, from the innermost brackets on."""
    made: list[Item] = []
    segment: list[Item] = []
    is_live = False  # whether the segment has what may leave
    is_head = False  # of a statement, whose brackets are its own
    may_choose = False

    def close(is_end: bool = False) -> None:
        nonlocal is_live
        if is_end and made and _text(made[-1]) in ("=", "return"):
            opened = _opened(segment)
            made.extend(_segment(opened, names) if any(map(_is_live, opened)) else opened)
        else:
            made.extend(_segment(segment, names) if is_live else segment)
        segment.clear()
        is_live = False

    for item in items:
        if isinstance(item, Lexeme):
            is_name = item.kind == NAME
            if is_name and item.text not in _WORDS:
                segment.append(item)
            elif _is_barrier(item, segment):
                close(item.text == ";")
                made.append(item)
                may_choose = may_choose or item.text == "?"
            elif item.kind == COMMENT and not segment:
                made.append(item)
            else:
                segment.append(item)
                is_live = is_live or _is_live(item)
            is_head = is_name and item.text in _HEADS
            continue
        if isinstance(item, Loop):
            close()
            item.items = settled(item.items, names)
            made.append(item)
        else:
            inner = item if item.plain else _inside(item, names)
            if is_head or item.open.text == "{":
                close()
                made.append(inner)
            else:
                segment.append(inner)
                is_live = is_live or _is_live(inner)
        is_head = False
    close()
    return _chosen(made) if may_choose else made


def _inside(group: Group, names: Names) -> Group:
    items = settled(group.items, names)
    return Group(group.open, items, group.close, len(items) < len(group.items))


def _opened(segment: list[Item]) -> list[Item]:
    """What is stored or returned without brackets around the whole: `y = (a + b)`."""
    whole = segment[0] if len(segment) == 1 else None
    if not isinstance(whole, Group) or whole.open.text != "(" or not whole.items:
        return segment
    if any(_text(item) == "," for item in whole.items):
        return segment
    return _opened([moved(whole.items[0], whole.open.space), *whole.items[1:]])


def _is_barrier(item: Lexeme, segment: Sequence[Item]) -> bool:
    """Whether an expression of sums, products and shifts ends here."""
    if item.kind == NAME:
        return item.text in _WORDS
    if item.text == "&" and item.kind == OTHER:
        last = segment[-1] if segment else None
        if isinstance(last, Lexeme):
            return last.kind in (NAME, NUMBER) or last.text in ("++", "--")
        return last is not None
    return item.kind == OTHER and item.text in _BARRIERS


def _segment(items: list[Item], names: Names) -> list[Item]:
    term = _Reader(items).term()
    if term is None:
        return list(items)
    simple = _simple(term, names)
    if simple == term:
        return list(items)
    made = _items(_unbracketed(simple))
    return [moved(made[0], space_of(items[0])), *made[1:]]


def _unbracketed(term: Term) -> Term:
    """A whole expression without brackets around it."""
    first = term.items[0] if isinstance(term, Atom) and len(term.items) == 1 else None
    inner = _Reader(first.items).term() if isinstance(first, Group) else None
    return term if inner is None else _unbracketed(inner)


def _is_neutral(item: Item) -> bool:
    """Whether it is 0 or 1, perhaps in brackets."""
    if isinstance(item, Group):
        return item.open.text == "(" and len(item.items) == 1 and _is_neutral(item.items[0])
    return isinstance(item, Lexeme) and item.text in ("0", "1")  # which only numbers are


def _is_live(item: Item) -> bool:
    """Whether an expression is read for it."""
    if isinstance(item, Lexeme):
        return item.text in ("0", "1")  # which only numbers are
    return isinstance(item, Group) and item.open.text == "(" and (item.changed or _is_neutral(item))


class _Reader:
    """Reads one term from all of the items, or None."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items, self.at = items, 0

    def term(self) -> Term | None:
        found = self._binary(1)
        return found if self.at == len(self.items) else None

    def _text(self) -> str:
        item = self.items[self.at] if self.at < len(self.items) else None
        return item.text if isinstance(item, Lexeme) and item.kind == OTHER else ""

    def _next(self) -> Item:
        self.at += 1
        return self.items[self.at - 1]

    def _binary(self, level: int) -> Term | None:
        if level > 3:
            return self._unary()
        left = self._binary(level + 1)
        while left and _LEVELS.get(self._text()) == level:
            operator = self._next()
            right = self._binary(level + 1)
            if right is None or not isinstance(operator, Lexeme):
                return None
            left = Binary(operator, left, right)
        return left

    def _unary(self) -> Term | None:
        if self.at == len(self.items):
            return None
        item = self.items[self.at]
        if self._text() in _PREFIX or _is_cast(item) or _is_sizeof(item):
            operator = self._next()
            operand = self._unary()
            assert not isinstance(operator, Loop)
            return Unary(operator, operand) if operand else None
        return self._postfix()

    def _postfix(self) -> Term | None:
        first = self._next()
        is_value = isinstance(first, Lexeme) and first.kind in (NAME, NUMBER)
        if not is_value and not (isinstance(first, Group) and first.open.text == "("):
            return None
        found = [first]
        while self.at < len(self.items):
            item = self.items[self.at]
            if (isinstance(item, Group) and item.open.text in "[(") or self._text() in ("++", "--"):
                found.append(self._next())
            elif self._text() in (".", "->") and self.at + 1 < len(self.items):
                found += [self._next(), self._next()]
            else:
                break
        return Atom(tuple(found))


def _is_cast(item: Item) -> bool:
    if not isinstance(item, Group) or item.open.text != "(" or not item.items:
        return False
    words = [i for i in item.items if isinstance(i, Lexeme) and i.text not in ("*", "const")]
    return len(words) == 1 and is_type(words[0]) and len(words) >= len(item.items) - 2


def _is_sizeof(item: Item) -> bool:
    return isinstance(item, Lexeme) and item.kind == NAME and item.text == "sizeof"


def _simple(term: Term, names: Names) -> Term:
    """The term less what has no effect on its value."""
    if isinstance(term, Atom):
        return _bare(term)
    if isinstance(term, Unary):
        operand = _simple(term.operand, names)
        is_sign = isinstance(term.operator, Lexeme) and term.operator.text == "-"
        if is_sign and _is(operand, 0):
            return _placed(operand, _space(term))
        return Unary(term.operator, operand)
    left, right = _simple(term.left, names), _simple(term.right, names)
    made = _RULES[term.operator.text](left, right, names)
    return Binary(term.operator, left, right) if made is None else _placed(made, _space(left))


def _space(term: Term) -> str:
    """What is before it."""
    if isinstance(term, Atom):
        return space_of(term.items[0])
    return _space(term.left) if isinstance(term, Binary) else space_of(term.operator)


def _placed(term: Term, space: str) -> Term:
    """The term after another space."""
    if isinstance(term, Atom):
        return Atom((moved(term.items[0], space), *term.items[1:]))
    if isinstance(term, Binary):
        return Binary(term.operator, _placed(term.left, space), term.right)
    operator = moved(term.operator, space)
    assert not isinstance(operator, Loop)
    return Unary(operator, term.operand)


def _product(left: Term, right: Term, names: Names) -> Term | None:
    if _is(right, 1) or (_is(left, 0) and _nothing(right, names)):
        return left
    if _is(left, 1) or (_is(right, 0) and _nothing(left, names)):
        return right
    return None


def _quotient(left: Term, right: Term, names: Names) -> Term | None:
    return left if _is(right, 1) or (_is(left, 0) and _nothing(right, names)) else None


def _remainder(left: Term, right: Term, names: Names) -> Term | None:
    """C has remainders of integers alone."""
    if _is(right, 1) and _is_pure(left):
        return _ZERO
    return left if _is(left, 0) and _nothing(right, names) else None


def _sum(left: Term, right: Term, names: Names) -> Term | None:
    """-0.0f + 0 is 0.0f."""
    if _is(right, 0) and not _is_float(left, names):
        return left
    return right if _is(left, 0) and not _is_float(right, names) else None


def _difference(left: Term, right: Term, names: Names) -> Term | None:
    if _is(right, 0):
        return left
    if _is(left, 0) and _is_integer(right, names) and not isinstance(right, Unary):
        return _negative(right)
    return None


def _negative(term: Term) -> Term:
    """A sign binds tighter than the product after it: C's division rounds towards zero."""
    if isinstance(term, Binary):
        return Binary(term.operator, _negative(term.left), term.right)
    return Unary(Lexeme(OTHER, "", "-"), _placed(term, ""))


def _shift(left: Term, right: Term, names: Names) -> Term | None:
    return left if _is(right, 0) or (_is(left, 0) and _nothing(right, names)) else None


_ZERO = Atom((Lexeme(NUMBER, " ", "0"),))
_RULES = {"*": _product, "/": _quotient, "%": _remainder, "+": _sum, "-": _difference}
_RULES |= {"<<": _shift, ">>": _shift}


def _bare(atom: Atom) -> Atom:
    """Without brackets around one value."""
    first = atom.items[0]
    if isinstance(first, Group) and len(atom.items) == 1:
        inner = _Reader(first.items).term()
        if isinstance(inner, Atom):
            return Atom((moved(inner.items[0], first.open.space), *inner.items[1:]))
    return atom


def _is(term: Term, number: int) -> bool:
    if not isinstance(term, Atom) or len(term.items) != 1:
        return False
    item = term.items[0]
    return isinstance(item, Lexeme) and item.kind == NUMBER and item.text == str(number)


def _nothing(term: Term, names: Names) -> bool:
    """Whether nothing is left of it when it is multiplied by zero."""
    return _is_integer(term, names) and _is_pure(term)


def _is_pure(term: Term) -> bool:
    """No call, and nothing is written."""
    if isinstance(term, Binary):
        return _is_pure(term.left) and _is_pure(term.right)
    if isinstance(term, Unary):
        effect = isinstance(term.operator, Lexeme) and term.operator.text in _EFFECTS
        return not effect and _is_pure(term.operand)
    return _all_pure(term.items)


def _all_pure(items: Sequence[Item]) -> bool:
    for k, item in enumerate(items):
        if isinstance(item, Group):
            before = items[k - 1] if k else None
            is_call = item.open.text == "(" and (
                isinstance(before, Group) or (isinstance(before, Lexeme) and before.kind == NAME)
            )
            if is_call or not _all_pure(item.items):
                return False
        elif not isinstance(item, Lexeme) or item.text in _EFFECTS:
            return False
    return True


def _is_integer(term: Term, names: Names) -> bool:
    if isinstance(term, Binary):
        return _is_integer(term.left, names) and _is_integer(term.right, names)
    if isinstance(term, Unary):
        if isinstance(term.operator, Group):
            return any(
                isinstance(i, Lexeme) and is_integer(i.text) for i in term.operator.items
            ) and not any(isinstance(i, Lexeme) and i.text == "*" for i in term.operator.items)
        if _is_sizeof(term.operator):
            return True
        of = term.operand
        if term.operator.text == "*":
            return isinstance(of, Atom) and _text(of.items[0]) in names.integer_elements
        return term.operator.text in ("-", "+", "~") and _is_integer(of, names)
    first = term.items[0]
    if isinstance(first, Group):
        inner = _Reader(first.items).term()
        return len(term.items) == 1 and inner is not None and _is_integer(inner, names)
    if not isinstance(first, Lexeme) or len(term.items) > 2:
        return False
    if len(term.items) == 2:
        is_element = isinstance(last := term.items[1], Group) and last.open.text == "["
        return first.text in (names.integer_elements if is_element else _CALLS)
    if first.kind == NAME:
        return first.text in names.integers
    return first.kind == NUMBER and first.text.isdigit()


def _is_float(term: Term, names: Names) -> bool:
    """Whether it may be: operands that the text does not declare are pointers."""
    if _is_integer(term, names):
        return False
    if isinstance(term, Binary):
        return _is_float(term.left, names) or _is_float(term.right, names)
    if isinstance(term, Unary):
        return True
    first = term.items[0]
    if isinstance(first, Group):
        inner = _Reader(first.items).term()
        return len(term.items) > 1 or inner is None or _is_float(inner, names)
    is_name = isinstance(first, Lexeme) and first.kind == NAME and len(term.items) == 1
    return not is_name or first.text in names.floats  # type: ignore[union-attr]


def _items(term: Term) -> list[Item]:
    if isinstance(term, Atom):
        return list(term.items)
    if isinstance(term, Unary):
        return [term.operator, *_items(term.operand)]
    return [*_items(term.left), term.operator, *_items(term.right)]


def _chosen(items: list[Item]) -> list[Item]:
    """`0 ? a : b` is `b` where it is a whole value."""
    made = list(items)
    for k in range(len(made) - 2, -1, -1):
        if not (_text(made[k]) == "0" and _is_neutral(made[k]) and _text(made[k + 1]) == "?"):
            continue
        if k > 0 and _text(made[k - 1]) not in ("=", ",", "return"):
            continue
        texts = [_text(item) for item in made[k + 2 :]]
        if ":" in texts and "?" not in texts[: texts.index(":")]:
            at = k + 3 + texts.index(":")
            made[k : at + 1] = [moved(made[at], space_of(made[k]))]
    return made


def _text(item: Item) -> str:
    return item.text if isinstance(item, Lexeme) else ""
