"""The C of kernels as a tree: a parser of the part of C that templates and helpers are written in.

What it does not know is a ValueError, so the reader of a function knows all of it or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from mlftool.proof.csource import tokens

_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    r"|0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[uUlLfF]*|[A-Za-z_]\w*"
    r"|<<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w])",
    re.DOTALL,
)
# Name -> bytes, and whether it is signed; floats have no sign here, since no index is one.
INTEGERS = {
    **{f"int{n}_t": (n // 8, True) for n in (8, 16, 32, 64)},
    **{f"uint{n}_t": (n // 8, False) for n in (8, 16, 32, 64)},
    **{"int": (4, True), "unsigned": (4, False), "char": (1, True), "bool": (1, False)},
    **{"size_t": (4, False), "ptrdiff_t": (4, True), "uintptr_t": (4, False)},
}
FLOATS = {"float": 4, "double": 8}
_QUALIFIERS = {"const", "static", "volatile", "restrict", "MLF_RESTRICT", "inline", "register"}
_LEVELS = (
    *(("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">=")),
    *(("<<", ">>"), ("+", "-"), ("*", "/", "%")),
)
_ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}


@dataclass(frozen=True)
class Type:
    """`name` of INTEGERS, FLOATS or "void", and how many stars follow."""

    name: str
    stars: int = 0

    @property
    def bytes(self) -> int:
        """Of one element that it points to, or of itself. Raises KeyError for void."""
        return INTEGERS[self.name][0] if self.name in INTEGERS else FLOATS[self.name]


VOID = Type("void")


@dataclass(frozen=True)
class Expr:
    """`kind`: number (`text`), name (`text`), unary, postfix, binary, assign (`text` is the
    operator), choice, call (`text` is the function), index, cast (`type`), list."""

    kind: str
    text: str = ""
    parts: tuple[Expr, ...] = ()
    type: Type = VOID


@dataclass(frozen=True)
class Variable:
    """One name of a declaration; `extent` is an array's, in elements."""

    name: str
    type: Type
    extent: int | None
    value: Expr | None


@dataclass(frozen=True)
class Stmt:
    """`kind`: declare, do (an expression), if, for, while, again (a loop whose condition is at its
    end), block, return, leave (break or continue)."""

    kind: str
    exprs: tuple[Expr | None, ...] = ()
    body: tuple[Stmt, ...] = ()
    other: tuple[Stmt, ...] = ()
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True)
class Definition:
    """A function: its parameters, without a body if it is not understood."""

    name: str
    returns: Type
    parameters: tuple[Variable, ...]
    body: tuple[Stmt, ...]


_HEAD = re.compile(
    r"^(?:MLF_[A-Z_]+|static(?: inline)?)\s[^;{}=#]*?\b(\w+)\(([^;{}#]*)\)\s*\{$",
    re.MULTILINE,
)


@lru_cache(maxsize=64)
def definitions(text: str) -> Mapping[str, tuple[Definition | None, ...]]:
    """The functions of a file by name. A name has several where the preprocessor chooses among
    them; None is one that is not understood."""
    found: dict[str, tuple[Definition | None, ...]] = {}
    for head in _HEAD.finditer(text):
        end = text.find("\n}", head.end())
        for source in _ways(text[head.start() : end + 2]):
            found[head[1]] = (*found.get(head[1], ()), _parsed(source))
    return found


def _parsed(source: str) -> Definition | None:
    try:
        return Parser(source).definition()
    except (ValueError, KeyError, IndexError):
        return None


def _ways(text: str) -> list[str]:
    """What the preprocessor may leave of a function: each branch of its first condition, and so
    on. Raises nothing: a text with more than a few stays as it is, which no parser takes."""
    lines = text.split("\n")
    signs = [(k, line.split()[0]) for k, line in enumerate(lines) if line.lstrip().startswith("#")]
    starts = [k for k, sign in signs if sign in ("#if", "#ifdef", "#ifndef")]
    if not starts or len(starts) > 3:
        return [text]
    first = starts[-1]  # nothing is nested in the last
    cuts = [first]
    for k, sign in signs:
        if k > first and sign in ("#elif", "#else", "#endif"):
            cuts.append(k)
            if sign == "#endif":
                break
    branches = [lines[a + 1 : b] for a, b in pairwise(cuts)]
    if not any(lines[k].lstrip().startswith("#else") for k in cuts):
        branches.append([])
    rest = [[*lines[:first], *branch, *lines[cuts[-1] + 1 :]] for branch in branches]
    return [way for made in rest for way in _ways("\n".join(made))]


class Parser:
    """Recursive descent. Raises ValueError for what it does not know."""

    def __init__(self, text: str) -> None:
        if re.search(r"^\s*#", text, re.MULTILINE):
            raise ValueError("the preprocessor chooses")
        self._tokens = [*tokens(text, _TOKEN), ""]
        self._at = 0

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

    # Declarations.

    def _is_type(self, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        if token in _QUALIFIERS:
            return self._is_type(ahead + 1)
        if token == "MLF_ALIGNED":
            return True
        return token in INTEGERS or token in FLOATS or token == "void"

    def _type(self) -> Type:
        name = ""
        while True:
            token = self._peek()
            if token == "MLF_ALIGNED":
                for _ in range(4):
                    self._take()
            elif token in _QUALIFIERS:
                self._take()
            elif not name and self._is_type():
                name = self._take()
                while name == "unsigned" and self._peek() in ("int", "char", "long", "short"):
                    raise ValueError("a type of several words")
            else:
                break
        if not name:
            raise ValueError("no type")
        return Type(name, self._stars())

    def _stars(self) -> int:
        stars = 0
        while self._peek() == "*" or (stars and self._peek() in _QUALIFIERS):
            stars += self._take() == "*"
        return stars

    def definition(self) -> Definition:
        while re.fullmatch(r"MLF_[A-Z_]+", self._peek()) and not self._is_type():
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
        found = []
        stars = base.stars
        while True:
            name, extent, value = self._take(), None, None
            if self._skip("["):
                extent = number(self._take()) if self._peek() != "]" else -1
                self._take("]")
                if self._peek() == "[":
                    raise ValueError("an array of arrays")
            if self._skip("="):
                value = self._initial()
            if extent == -1:
                extent = len(value.parts) if value is not None and value.kind == "list" else None
            found.append(Variable(name, Type(base.name, stars), extent, value))
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
        if token == "MLF_UNROLL":  # of the loop that follows
            while self._take() != ")":
                pass
            return self._statement()
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
        if token in ("switch", "goto", "__asm__", "struct", "typedef"):
            raise ValueError(f"'{token}'")
        if self._is_type():
            return self._declaration()
        if self._skip(";"):
            return Stmt("block")
        value = self._expression()
        self._take(";")
        return Stmt("do", (value,))

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

    def _size(self) -> Expr:
        """Of a type, or of a variable (its name is the part)."""
        self._take("sizeof")
        inside = self._skip("(")
        if inside and self._is_type():
            type_ = self._type()
            made = Expr("number", str(4 if type_.stars else type_.bytes))
        else:
            made = Expr("sizeof", self._take())
            if not made.text[0].isalpha():
                raise ValueError("sizeof of no variable")
        if inside:
            self._take(")")
        return made

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
        while self._peek() in ("[", "(", "++", "--"):
            sign = self._take()
            if sign == "[":
                left = Expr("index", parts=(left, self._expression()))
                self._take("]")
            elif sign == "(":
                arguments = []
                while not self._skip(")"):
                    arguments.append(self._assignment())
                    self._skip(",")
                if left.kind != "name":
                    raise ValueError("a call of no name")
                left = Expr("call", left.text, tuple(arguments))
            else:
                left = Expr("postfix", sign, (left,))
        return left


def number(text: str) -> int:
    """The value of an integer literal. Raises ValueError for a float."""
    return int(text.rstrip("uUlL"), 0)
