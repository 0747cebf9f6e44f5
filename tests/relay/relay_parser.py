"""A strict reader of the part of Relay's grammar that our texts use: text -> Function.

Written from the grammar of TVM 0.9 to 0.18: floats need their suffix, names are letters, digits and
`_`, tuples of one have a comma, strings know no escapes, comments nest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

TOKENS = re.compile(
    r"""(?P<space>[ \t\n]+)
    |(?P<version>\#\[version\ =\ "0\.0\.5"\])
    |(?P<number>-?(?:inff|[0-9][0-9.]*(?:e[-+]?[0-9]+)?(?:[fi](?:[0-9]+)?)?))
    |(?P<local>%[A-Za-z_][A-Za-z0-9_]*)
    |(?P<graph>%[0-9]+)
    |(?P<global>@[A-Za-z_][A-Za-z0-9_]*)
    |(?P<string>"[^"\n]*")
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<arrow>->)
    |(?P<mark>[()\[\]{},;:=.])""",
    re.VERBOSE,
)
WORDS = "let fn def if else type match extern free_var ref ref_read ref_write"
KEYWORDS = set(WORDS.split())


@dataclass(frozen=True)
class Tensor:
    dtype: str
    shape: tuple[int, ...]


Type = Any  # Tensor, or a tuple of types


@dataclass(frozen=True)
class Literal:
    value: Any
    type: Tensor


@dataclass(frozen=True)
class Call:
    op: str
    args: tuple[Any, ...]
    attrs: dict[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class TupleOf:
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Item:
    value: Any
    index: int


@dataclass(frozen=True)
class If:
    condition: Any
    then: Block
    other: Block


@dataclass
class Block:
    """Bindings in order, (name, declared type or None, expression), and the result."""

    bindings: list[tuple[str, Type | None, Any]]
    result: Any


@dataclass(frozen=True)
class Lambda:
    """fn (parameters) -> type { ... }"""

    params: tuple[tuple[str, Tensor], ...]
    returns: Type
    body: Block


@dataclass
class Function:
    params: list[tuple[str, Tensor]]
    attrs: dict[str, Any]
    returns: Type
    body: Block


class RelayError(Exception):
    pass


def tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(text):
        if text.startswith("/*", at):
            at = _after_comment(text, at + 2)
            continue
        match = TOKENS.match(text, at)
        if match is None:
            raise RelayError(f"no token at: {text[at : at + 40]!r}")
        assert match.lastgroup is not None
        if match.lastgroup != "space":
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return [*found, ("end", "")]


def _after_comment(text: str, at: int) -> int:
    depth = 1
    while depth:
        if at >= len(text):
            raise RelayError("a comment does not end")
        pair = text[at : at + 2]
        depth += {"/*": 1, "*/": -1}.get(pair, 0)
        at += 2 if pair in ("/*", "*/") else 1
    return at


class Parser:
    def __init__(self, text: str) -> None:
        self.tokens, self.at = tokens(text), 0

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    def take(self, what: str) -> str:
        kind, text = self.tokens[self.at]
        if what not in (kind, text):
            near = " ".join(t for _, t in self.tokens[max(0, self.at - 8) : self.at + 4])
            raise RelayError(f"expected {what}, got {text!r} near: {near}")
        self.at += 1
        return text

    def when(self, text: str) -> bool:
        if self.text == text and self.kind in ("mark", "arrow", "word"):
            self.at += 1
            return True
        return False

    def module(self) -> Function:
        self.take("version")
        self.take("def")
        if self.take("global") != "@main":
            raise RelayError("the function is not @main")
        params, attrs = [], {}
        self.take("(")
        while not self.when(")"):
            if self.kind == "word":
                attrs = self.attributes()
                self.take(")")
                break
            name = self.local()
            self.take(":")
            params.append((name, self.type()))
            if self.text != ")":
                self.take(",")
        self.take("arrow")
        returns = self.type()
        body = self.block()
        self.take("end")
        return Function(params, attrs, returns, body)

    def local(self) -> str:
        name = self.take("local")
        if name[1:] in KEYWORDS or name.startswith("%inff"):
            raise RelayError(f"{name} is a keyword or a number to the lexer")
        return name

    def type(self) -> Type:
        if self.when("("):
            parts = []
            while not self.when(")"):
                parts.append(self.type())
                if self.text != ")":
                    self.take(",")
            return tuple(parts)
        self.take("Tensor")
        self.take("[")
        self.take("(")
        shape: list[int] = []
        while not self.when(")"):
            if shape:
                self.take(",")
            shape.append(self.integer())
        self.take(",")
        dtype = self.take("word")
        self.take("]")
        return Tensor(dtype, tuple(shape))

    def integer(self) -> int:
        text = self.take("number")
        if not re.fullmatch("-?[0-9]+", text):
            raise RelayError(f"{text} is no plain integer")
        return int(text)

    def block(self) -> Block:
        self.take("{")
        bindings: list[tuple[str, Type | None, Any]] = []
        while True:
            following = self.tokens[self.at + 1][1]
            if self.kind == "graph" and following == "=":
                name, declared = self.take("graph"), None
            elif self.text == "let" and self.kind == "word":
                self.take("let")
                name = self.local()
                self.take(":")
                declared = self.type()
            else:
                break
            self.take("=")
            bindings.append((name, declared, self.expression()))
            self.take(";")
        result = self.expression()
        self.take("}")
        return Block(bindings, result)

    def expression(self) -> Any:
        value = self.atom()
        while self.text == "." and self.kind == "mark":
            self.take(".")
            value = Item(value, self.integer())
        return value

    def atom(self) -> Any:
        if self.kind in ("local", "graph"):
            name = self.text
            self.at += 1
            return Var(name)
        if self.kind == "number":
            return literal(self.take("number"))
        if self.text in ("True", "False"):
            return Literal(self.take("word") == "True", Tensor("bool", ()))
        if self.when("if"):
            self.take("(")
            condition = self.expression()
            self.take(")")
            then = self.block()
            self.take("else")
            return If(condition, then, self.block())
        if self.when("fn"):
            return self.function()
        if self.when("("):
            return self.tuple()
        return self.call()

    def function(self) -> Lambda:
        params = []
        self.take("(")
        while not self.when(")"):
            name = self.local()
            self.take(":")
            params.append((name, self.type()))
            if self.text != ")":
                self.take(",")
        self.take("arrow")
        returns = self.type()
        return Lambda(tuple(params), returns, self.block())

    def tuple(self) -> Any:
        parts, commas = [], 0
        while not self.when(")"):
            parts.append(self.expression())
            if self.text != ")":
                self.take(",")
                commas += 1
        return parts[0] if len(parts) == 1 and not commas else TupleOf(tuple(parts))

    def call(self) -> Call:
        op = self.take("word")
        if op in KEYWORDS:
            raise RelayError(f"keyword {op} where an operator is expected")
        while self.when("."):
            op += "." + self.take("word")
        self.take("(")
        args, attrs = [], {}
        while not self.when(")"):
            if self.kind == "word" and self.tokens[self.at + 1][1] == "=":
                attrs = self.attributes()
                self.take(")")
                break
            args.append(self.expression())
            if self.text != ")":
                self.take(",")
        return Call(op, tuple(args), attrs)

    def attributes(self) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        while self.kind == "word":
            key = self.take("word")
            self.take("=")
            if key in attrs:
                raise RelayError(f"attribute {key} stands twice")
            attrs[key] = self.value()
            if self.text != ")":
                self.take(",")
        return attrs

    def value(self) -> Any:
        if self.kind == "string":
            return self.take("string")[1:-1]
        if self.when("["):
            parts = []
            while not self.when("]"):
                parts.append(self.value())
                if self.text != "]":
                    self.take(",")
            return parts
        if self.text in ("True", "False"):
            return self.take("word") == "True"
        return literal(self.take("number")).value


def literal(text: str) -> Literal:
    """A number with the type that its suffix says; the lexer has no other floats."""
    if text.endswith("inff"):
        return Literal(float(text[:-1]), Tensor("float32", ()))
    match = re.fullmatch(r"(-?[0-9.]+(?:e[-+]?[0-9]+)?)(?:(f)([0-9]*)|i([0-9]+))?", text)
    if match is None:
        raise RelayError(f"{text} is no number")
    if match[2]:
        return Literal(float(match[1]), Tensor(f"float{match[3] or 32}", ()))
    if not re.fullmatch("-?[0-9]+", match[1]):
        raise RelayError(f"{text} has no suffix, so TVM reads an integer")
    width = int(match[4] or 32)
    if width not in (16, 32, 64) or not -(2 ** (width - 1)) <= int(match[1]) < 2 ** (width - 1):
        raise RelayError(f"{text} does not fit {width} bits")
    return Literal(int(match[1]), Tensor(f"int{width}", ()))


def parse(text: str) -> Function:
    """The function. Raises RelayError for anything that TVM's parser would not take."""
    return Parser(text).module()
