"""A parser of the part of C that templates and helpers are written in.

What it does not know is a ValueError, so the reader of a function knows all of it or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mlftool.proof.ctree import (
    BUILT_IN,
    FLOATS,
    INTEGERS,
    Definition,
    Expr,
    Member,
    Stmt,
    Type,
    Types,
    Variable,
    number,
)

_QUALIFIERS = {
    "const",
    "static",
    "volatile",
    "restrict",
    "MLF_RESTRICT",
    "inline",
    "register",
    "__restrict",
}
_LEVELS = (
    *(("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">=")),
    *(("<<", ">>"), ("+", "-"), ("*", "/", "%")),
)
_OF_EXTENTS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
_ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


class AssemblyError(ValueError):
    """A function has instructions that its C does not say."""


def types_of(typedefs: Iterable[Sequence[str]]) -> Types:
    """What type definitions name. One of another form has no name here."""
    found = dict(BUILT_IN)
    for words in typedefs:
        try:
            name, type_ = Parser(words, found).typedef()
        except ValueError:
            continue
        found[name] = type_
    return found


class Parser:
    """Recursive descent over words. Raises ValueError for what it does not know."""

    def __init__(self, words: Sequence[str], types: Types = BUILT_IN) -> None:
        self._tokens = [*words, ""]
        self._types = types
        self._declares = "mlf_touches" in words  # what its assembly reads and writes
        self._at = 0
        self._rows: dict[str, int] = {}  # of arrays of arrays, what a row has

    def _peek(self, ahead: int = 0) -> str:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _take(self, wanted: str = "") -> str:
        token = self._peek()
        if not token or (wanted and token != wanted):
            raise ValueError(f"got '{token}', expected '{wanted or 'a token'}'")
        self._at += 1
        return token

    def _skip(self, token: str) -> bool:
        if self._peek() == token:
            self._at += 1
            return True
        return False

    def _balanced(self) -> list[str]:
        """The words in brackets."""
        self._take("(")
        found: list[str] = []
        depth = 1
        while depth:
            word = self._take()
            depth += (word == "(") - (word == ")")
            found.append(word)
        return found[:-1]

    def _attributes(self) -> int:
        """Skips them; the size of a vector that one gives, or 0."""
        size = 0
        while self._peek() in ("__attribute__", "_Pragma"):
            self._take()
            words = self._balanced()
            if "vector_size" in words:
                size = number(words[words.index("vector_size") + 2])
        return size

    # Declarations.

    def _is_type(self, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        if token in _QUALIFIERS:
            return self._is_type(ahead + 1)
        known = token in INTEGERS or token in FLOATS or token == "void"
        return known or token == "__attribute__" or token in self._types

    def _type(self) -> Type:
        found: Type | None = None
        while True:
            token = self._peek()
            if token == "__attribute__":
                self._attributes()
            elif token in _QUALIFIERS:
                self._take()
            elif found is None and self._is_type():
                name = self._take()
                found = self._types.get(name, Type(name))
                while name == "unsigned" and self._peek() in ("int", "char", "long", "short"):
                    raise ValueError("a type of several words")
            else:
                break
        if found is None:
            raise ValueError("no type")
        return Type(found.name, found.stars + self._stars(), found.lanes, found.members)

    def typedef(self) -> tuple[str, Type]:
        """A name and what it stands for."""
        self._take("typedef")
        if self._skip("struct"):
            self._take("{")
            members: list[Member] = []
            while not self._skip("}"):
                for one in self._declaration().variables:
                    members.append(Member(one.name, one.type, one.extent))
            return self._take(), Type("struct", members=tuple(members))
        type_ = self._type()
        name = self._take()
        size = self._attributes()
        self._take(";")
        return name, Type(type_.name, type_.stars, size // type_.bytes) if size else type_

    def _stars(self) -> int:
        stars = 0
        while self._peek() == "*" or (stars and self._peek() in _QUALIFIERS):
            stars += self._take() == "*"
        return stars

    def definition(self) -> Definition:
        while re.fullmatch(r"MLF_[A-Z_]+", self._peek()):
            self._take()
        returns = self._type()
        name = self._take()
        self._take("(")
        parameters: list[Variable] = []
        if not (self._peek() == "void" and self._peek(1) == ")"):
            while self._peek() != ")":
                type_ = self._type()
                parameters.append(Variable(self._take(), type_, None, None))
                self._skip(",")
        else:
            self._take()
        self._take(")")
        return Definition(name, returns, tuple(parameters), self._block())

    def _declaration(self) -> Stmt:
        base = self._type()
        self._attributes()
        found = []
        stars = base.stars
        while True:
            name, extent, value = self._take(), None, None
            if self._skip("["):
                extent = _constant(self._choice()) if self._peek() != "]" else -1
                self._take("]")
            self._rows.pop(name, None)
            if extent is not None and self._skip("["):
                self._rows[name] = _constant(self._choice())
                extent *= self._rows[name]
                self._take("]")
                if self._peek() in ("[", "="):
                    raise ValueError("an array of arrays that is not read")
            if self._skip("="):
                value = self._initial()
            if extent == -1:
                extent = len(value.parts) if value is not None and value.kind == "list" else None
            type_ = Type(base.name, stars, base.lanes, base.members)
            found.append(Variable(name, type_, extent, value))
            if not self._skip(","):
                break
            stars = self._stars()
        self._take(";")
        return Stmt("declare", variables=tuple(found))

    def _initial(self) -> Expr:
        if not self._skip("{"):
            return self._assignment()
        parts = []
        while not self._skip("}"):
            parts.append(self._initial())
            self._skip(",")
        return Expr("list", parts=tuple(parts))

    # Statements.

    def _block(self) -> tuple[Stmt, ...]:
        self._take("{")
        found = []
        while not self._skip("}"):
            found.append(self._statement())
        return tuple(found)

    def _statement(self) -> Stmt:
        token = self._peek()
        if token == "{":
            return Stmt("block", body=self._block())
        if token == "_Pragma":  # of the loop that follows
            self._attributes()
            return self._statement()
        if token == "__asm__":
            return self._assembly()
        if token in ("if", "while", "for"):
            return getattr(self, f"_{token}")()  # type: ignore[no-any-return]
        if token == "return":
            self._take()
            value = None if self._peek() == ";" else self._expression()
            self._take(";")
            return Stmt("return", (value,))
        if token in ("break", "continue"):
            self._take()
            self._take(";")
            return Stmt("leave")
        if token == "do":
            return self._again()
        if token in ("switch", "goto", "struct", "typedef"):
            raise ValueError(f"'{token}'")
        if self._is_type():
            return self._declaration()
        if self._skip(";"):
            return Stmt("block")
        value = self._expression()
        self._take(";")
        return Stmt("do", (value,))

    def _assembly(self) -> Stmt:
        """Without instructions it says something to compilers alone."""
        self._take()
        self._skip("volatile")
        words = self._balanced()
        self._take(";")
        text = words[: words.index(":")] if ":" in words else words
        if not self._declares and any(word.strip('"') for word in text):
            raise AssemblyError("has assembly")
        outputs = [k for k, w in enumerate(words) if w.startswith(('"+', '"='))]
        given = [words[k + 2] for k in outputs if any(word.strip('"') for word in text)]
        names = tuple(Expr("name", name) for name in given)
        return Stmt("do", (Expr("changed", parts=names),)) if names else Stmt("block")

    def _body(self) -> tuple[Stmt, ...]:
        return self._block() if self._peek() == "{" else (self._statement(),)

    def _if(self) -> Stmt:
        self._take("if")
        self._take("(")
        condition = self._expression()
        self._take(")")
        body = self._body()
        return Stmt("if", (condition,), body, self._body() if self._skip("else") else ())

    def _while(self) -> Stmt:
        self._take("while")
        self._take("(")
        condition = self._expression()
        self._take(")")
        return Stmt("while", (condition,), self._body())

    def _again(self) -> Stmt:
        self._take("do")
        body = self._body()
        self._take("while")
        self._take("(")
        condition = self._expression()
        self._take(")")
        self._take(";")
        return Stmt("again", (condition,), body)

    def _for(self) -> Stmt:
        """As a block of its first part and the loop, whose `other` is its last part."""
        self._take("for")
        self._take("(")
        first: tuple[Stmt, ...] = ()
        if self._is_type():
            first = (self._declaration(),)
        elif not self._skip(";"):
            first = (Stmt("do", (self._expression(),)),)
            self._take(";")
        condition = None if self._peek() == ";" else self._expression()
        self._take(";")
        last = None if self._peek() == ")" else self._expression()
        self._take(")")
        steps = (Stmt("do", (last,)),) if last is not None else ()
        loop = Stmt("for", (condition,), self._body(), steps)
        return Stmt("block", body=(*first, loop))

    # Expressions.

    def _expression(self) -> Expr:
        left = self._assignment()
        while self._skip(","):
            left = Expr("binary", ",", (left, self._assignment()))
        return left

    def _assignment(self) -> Expr:
        left = self._choice()
        if self._peek() in _ASSIGNS:
            return Expr("assign", self._take(), (left, self._assignment()))
        return left

    def _choice(self) -> Expr:
        condition = self._level(0)
        if not self._skip("?"):
            return condition
        one = self._expression()
        self._take(":")
        return Expr("choice", parts=(condition, one, self._choice()))

    def _level(self, k: int) -> Expr:
        if k == len(_LEVELS):
            return self._unary()
        left = self._level(k + 1)
        while self._peek() in _LEVELS[k]:
            left = Expr("binary", self._take(), (left, self._level(k + 1)))
        return left

    def _unary(self) -> Expr:
        token = self._peek()
        if token in ("-", "+", "!", "~", "*", "&", "++", "--"):
            return Expr("unary", self._take(), (self._unary(),))
        if token == "sizeof":
            return self._size()
        if token == "(" and self._is_type(1):
            self._take("(")
            type_ = self._type()
            self._take(")")
            return Expr("cast", parts=(self._unary(),), type=type_)
        return self._postfix()

    def _index(self, of: Expr) -> Expr:
        """What is in brackets; of an array of arrays, in both."""
        index = self._expression()
        self._take("]")
        if of.kind != "name" or of.text not in self._rows:
            return index
        self._take("[")
        row = Expr("binary", "*", (index, Expr("number", str(self._rows[of.text]))))
        index = Expr("binary", "+", (row, self._expression()))
        self._take("]")
        return index

    def _size(self) -> Expr:
        """Of a type, or of an expression, which is the part."""
        self._take("sizeof")
        if self._peek() == "(" and self._is_type(1):
            self._take("(")
            type_ = self._type()
            self._take(")")
            return Expr("sizeof", type=type_)
        return Expr("sizeof", parts=(self._unary(),))

    def _postfix(self) -> Expr:
        token = self._take()
        if token == "(":
            left = self._expression()
            self._take(")")
        elif token[0].isdigit() or token[0] == ".":
            left = Expr("number", token)
        elif (token[0].isalpha() or token[0] == "_") and token not in _QUALIFIERS:
            left = Expr("name", token)
        else:
            raise ValueError(f"got '{token}', expected an operand")
        while self._peek() in ("[", "(", "++", "--", ".", "->"):
            sign = self._take()
            if sign == "[":
                left = Expr("index", parts=(left, self._index(left)))
            elif sign == "(":
                arguments = []
                while not self._skip(")"):
                    arguments.append(self._assignment())
                    self._skip(",")
                if left.kind != "name":
                    raise ValueError("a call of no name")
                left = Expr("call", left.text, tuple(arguments))
            elif sign in (".", "->"):
                whole = left if sign == "." else Expr("unary", "*", (left,))
                left = Expr("member", self._take(), (whole,))
            else:
                left = Expr("postfix", sign, (left,))
        return left


def _constant(e: Expr) -> int:
    """An array's extent. Raises ValueError for what is not a sum of products of literals."""
    if e.kind == "number":
        return number(e.text)
    if e.kind != "binary" or e.text not in _OF_EXTENTS:
        raise ValueError("an extent that is not read")
    return _OF_EXTENTS[e.text](*map(_constant, e.parts))
