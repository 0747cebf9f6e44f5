"""C as a tree of lexemes: what loops and expressions of a template are settled on.

Brackets nest, names and numbers are whole, and a comment or a string is one lexeme: so what is
decided here is decided by C's grammar and never by a pattern over its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import NamedTuple, TypeGuard

COMMENT, STRING, NUMBER, NAME, OTHER = "comment", "string", "number", "name", "op"

_LEXEME = re.compile(
    rf"""(\s*)(?:(?P<{COMMENT}>//[^\n]*|/\*.*?\*/)
    |(?P<{STRING}>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<{NUMBER}>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<{NAME}>[A-Za-z_]\w*)
    |(?P<{OTHER}><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\S))""",
    re.VERBOSE | re.DOTALL,
)


class Lexeme(NamedTuple):
    kind: str
    space: str  # what is before it
    text: str


_LEXEME_OF = partial(tuple.__new__, Lexeme)  # without a frame of Python's for each


@dataclass
class Group:
    """What is between two brackets."""

    open: Lexeme
    items: list[Item]
    close: Lexeme
    changed: bool = False  # since it was read
    plain: bool = False  # an expression, or its part, without 0 and 1: nothing in it settles


@dataclass
class Loop:
    """A declared loop over `name`; `space` is before its hint and head."""

    name: str
    space: str
    bound: list[Item] = field(default_factory=list)
    step: list[Item] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    close: str = ""  # the space before its end
    alone: bool = False  # its body is written without it


Item = Lexeme | Group | Loop


def lexemes(text: str) -> tuple[list[Lexeme], str]:
    """The lexemes of C, and the space after them."""
    made = [
        _LEXEME_OF((NAME, space, name))
        if name
        else _LEXEME_OF((OTHER, space, other))
        if other
        else _LEXEME_OF((NUMBER, space, number))
        if number
        else _LEXEME_OF((STRING, space, string))
        if string
        else _LEXEME_OF((COMMENT, space, comment))
        for space, comment, string, number, name, other in _LEXEME.findall(text)
    ]
    return made, text[len(text.rstrip()) :]


@lru_cache(1024)  # layers of one shape have one text
def names_in(text: str) -> frozenset[str]:
    """The names in C, which words of a comment or a string are not."""
    return frozenset(lexeme.text for lexeme in lexemes(text)[0] if lexeme.kind == NAME)


def written(items: Sequence[Item]) -> str:
    """The text of the items."""
    pieces: list[str] = []
    _write(items, pieces)
    return "".join(pieces)


def _write(items: Sequence[Item], pieces: list[str]) -> None:
    for item in items:
        if isinstance(item, Lexeme):
            pieces += (item.space, item.text)
        elif isinstance(item, Group):
            pieces += (item.open.space, item.open.text)
            _write(item.items, pieces)
            pieces += (item.close.space, item.close.text)
        else:
            head = head_of(item.name, written(item.bound), written(item.step))
            pieces += (item.space, "{" if item.alone else head)
            _write(item.items, pieces)
            pieces += (item.close, "}")


def head_of(name: str, bound: str, step: str) -> str:
    more = "++" if step == "1" else f" += {step}"
    return f"for (int32_t {name} = 0; {name} < {bound}; {name}{more}) {{"


def every(items: Sequence[Item]) -> list[Lexeme]:
    """All lexemes, those in groups and loops too; a loop declares its variable."""
    found: list[Lexeme] = []
    _collect(items, found)
    return found


def _collect(items: Sequence[Item], found: list[Lexeme]) -> None:
    for item in items:
        if isinstance(item, Lexeme):
            found.append(item)
        elif isinstance(item, Group):
            found.append(item.open)
            _collect(item.items, found)
            found.append(item.close)
        else:
            found += (Lexeme(NAME, "", "int32_t"), Lexeme(NAME, "", item.name))
            for part in (item.bound, item.step, item.items):
                found.append(Lexeme(OTHER, "", ";"))
                _collect(part, found)


def moved(item: Item, space: str) -> Item:
    """The item after another space."""
    if isinstance(item, Lexeme):
        return Lexeme(item.kind, space, item.text)
    if isinstance(item, Group):
        return replace(item, open=Lexeme(OTHER, space, item.open.text))
    item.space = space
    return item


def space_of(item: Item) -> str:
    return item.open.space if isinstance(item, Group) else item.space


def is_block(item: Item) -> TypeGuard[Group]:
    """Whether braces are around statements, and not around values."""
    if not isinstance(item, Group) or item.open.text != "{":
        return False
    for inner in item.items:
        if isinstance(inner, Lexeme):
            if inner.text in (";", "for", "while"):
                return True
        elif isinstance(inner, Loop):
            return True
    return False


_WORDS = {"float", "double", "bool", "char", "int", "unsigned", "long", "short", "signed", "void"}
_SMALL = {"bool", "char", "int", "unsigned", "long", "short", "signed"}


def is_type(item: Item) -> bool:
    """Whether it is the name of one of C's types, or of ours, which are `mlf_...` and no call."""
    return isinstance(item, Lexeme) and item.kind == NAME and names_type(item.text)


def names_type(name: str) -> bool:
    return name.endswith("_t") or name in _WORDS


def is_integer(name: str) -> bool:
    """Whether a type's name is one of an integer."""
    return name.endswith("_t") or name in _SMALL
