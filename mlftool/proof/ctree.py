"""The C of kernels as a tree: types, expressions, statements, functions (cparser.py reads it)."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.frozen import frozen

# Name -> bytes, and whether it is signed; floats have no sign here, since no index is one.
INTEGERS = {
    **{f"int{n}_t": (n // 8, True) for n in (8, 16, 32, 64)},
    **{f"uint{n}_t": (n // 8, False) for n in (8, 16, 32, 64)},
    **{"int": (4, True), "unsigned": (4, False), "char": (1, True), "bool": (1, False)},
    **{"size_t": (4, False), "ptrdiff_t": (4, True), "uintptr_t": (4, False)},
    "mve_pred16_t": (2, False),
}
FLOATS = {"float": 4, "double": 8}


@frozen
class Member:
    """Of a struct; `extent` is an array's."""

    name: str
    type: Type
    extent: int | None


@frozen
class Type:
    """`name` of INTEGERS, FLOATS, "struct" or "void", and how many stars follow. `lanes` are those
    of a vector, `members` those of a struct."""

    name: str
    stars: int = 0
    lanes: int = 0
    members: tuple[Member, ...] = ()

    @property
    def bytes(self) -> int:
        """Of one element that it points to, or of itself. Raises KeyError for void."""
        if self.name == "struct":
            return sum(
                (8 if m.type.stars else m.type.bytes) * (m.extent or 1) for m in self.members
            )
        one = INTEGERS[self.name][0] if self.name in INTEGERS else FLOATS[self.name]
        return one * (self.lanes or 1)

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGERS and not self.lanes and not self.stars

    def member(self, name: str) -> Member:
        """Raises ValueError if there is none."""
        for one in self.members:
            if one.name == name:
                return one
        raise ValueError(f"no member '{name}'")


VOID = Type("void")
Types = Mapping[str, Type]
_VECTORS = {
    **{f"__m{bits}{suffix}": bits // 8 for bits in (128, 256, 512) for suffix in ("i", "")},
}
# Types of the headers of compilers.
BUILT_IN: Types = {
    **{name: Type("int8_t", 0, size) for name, size in _VECTORS.items()},
    **{
        f"{sign}int{bits}x{128 // bits}_t": Type(f"{sign}int{bits}_t", 0, 128 // bits)
        for bits in (8, 16, 32)
        for sign in ("", "u")
    },
}


@frozen
class Expr:
    """`kind`: number (`text`), name (`text`), unary, postfix, binary, assign (`text` is the
    operator), choice, call (`text` is the function), index, member (`text` is its name), cast
    (`type`), sizeof (of a part, or of `type`), changed (by assembly), list."""

    kind: str
    text: str = ""
    parts: tuple[Expr, ...] = ()
    type: Type = VOID


@frozen
class Variable:
    """One name of a declaration; `extent` is an array's, in elements."""

    name: str
    type: Type
    extent: int | None
    value: Expr | None


@frozen
class Stmt:
    """`kind`: declare, do (an expression), if, for, while, again (a loop whose condition is at its
    end), block, return, leave (break or continue)."""

    kind: str
    exprs: tuple[Expr | None, ...] = ()
    body: tuple[Stmt, ...] = ()
    other: tuple[Stmt, ...] = ()
    variables: tuple[Variable, ...] = ()


@frozen
class Definition:
    """A function: its parameters, without a body if it is not understood."""

    name: str
    returns: Type
    parameters: tuple[Variable, ...]
    body: tuple[Stmt, ...]


def number(text: str) -> int:
    """The value of an integer literal. Raises ValueError for a float."""
    return int(text.rstrip("uUlL"), 0)
