"""The calls in generated C: a lexer and a reader of functions that consist of calls alone.

It reads the functions that the emitters write around kernels, and no C beyond that: a statement of
another form is a ValueError, not a guess.

    void f(const void *in0, void *out0, uint8_t *workspace) {
      (void)in0;
      g((const float *)in0, step0_weights, (float *)(void *)(workspace + 64));
      return 0;
    }
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from mlftool.frozen import frozen

_TOKEN = re.compile(r"\s+|//[^\n]*|/\*.*?\*/|([A-Za-z_]\w*|\d+|[^\s\w])", re.DOTALL)
_WORDS = ("const", "void", "unsigned")
_NOTHING = {"mlf_mark", "mlf_print_marks"}  # what counts instructions touches no tensor


@frozen
class Argument:
    """`base` is an identifier, `offset` the bytes that are added to it; None if nothing is."""

    base: str
    offset: int | None


@frozen
class Call:
    symbol: str
    arguments: tuple[Argument, ...]


@frozen
class Function:
    name: str
    parameters: tuple[str, ...]
    calls: tuple[Call, ...]
    packed: bool = False  # calls have inputs, outputs, and one address for scratch (packed.py)


def functions(text: str) -> Iterator[Function]:
    """The functions of a file that end in a parameter `uint8_t *<memory>` and consist of calls.

    Those that consist of anything else are kernels, and are left out.
    """
    for head, body in definitions(text):
        try:
            yield _function(head, body)
        except ValueError:
            continue


def definitions(text: str) -> Iterator[tuple[str, str]]:
    """Definitions as the emitters write them: a line that ends in "{", up to a line "}"."""
    lines = text.split("\n")
    start = -1
    for k, line in enumerate(lines):
        if line.endswith(") {") and line[:1] not in (" ", "/", "#", ""):
            start = k
        elif line == "}" and start >= 0:
            yield lines[start][:-1], "\n".join(lines[start + 1 : k])
            start = -1


def tokens(text: str, pattern: re.Pattern[str] = _TOKEN) -> Iterator[str]:
    """What group 1 of the pattern has: names, numbers and signs. Raises ValueError for what C does
    not have."""
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise ValueError(f"no token at {text[at : at + 20]!r}")
        if match[1]:
            yield match[1]
        at = match.end()


def _function(head: str, body: str) -> Function:
    before, _, inside = head.partition("(")
    name = list(tokens(before))[-1]
    given = inside.rpartition(")")[0].split(",")
    parameters = tuple(list(tokens(p))[-1] for p in given if p.strip())
    reader = _Reader(tokens(body))
    calls = []
    while reader.peek():
        call = reader.statement()
        if call is not None and call.symbol not in _NOTHING:
            calls.append(call)
    return Function(name, parameters, tuple(calls))


class _Reader:
    """Recursive descent over the tokens of a body, of which it reads no more than it needs."""

    def __init__(self, found: Iterator[str]) -> None:
        self._rest, self._next = found, deque[str]()

    def peek(self, ahead: int = 0) -> str:
        while len(self._next) <= ahead:
            self._next.append(next(self._rest, ""))
        return self._next[ahead]

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise ValueError(f"got '{token}', expected '{wanted or 'a token'}'")
        return self._next.popleft()

    def statement(self) -> Call | None:
        """A call; None for a mention of a parameter, and for the end."""
        if self.peek() == "(" and self.peek(1) == "void" and self.peek(2) == ")":
            for wanted in ("(", "void", ")", "", ";"):
                self.take(wanted)
            return None
        if self.peek() == "return":
            for wanted in ("return", "0", ";"):
                self.take(wanted)
            return None
        symbol = self.name()
        self.take("(")
        arguments: list[Argument] = []
        while self.peek() != ")":
            arguments.append(self.argument())
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        self.take(";")
        return Call(symbol, tuple(arguments))

    def name(self) -> str:
        token = self.take()
        if not (token[0].isalpha() or token[0] == "_") or token in _WORDS:
            raise ValueError(f"got '{token}', expected a name")
        return token

    def argument(self) -> Argument:
        """Casts, then a name or a number; in parentheses a name, or a sum of both."""
        while self.peek() == "(" and self._is_cast():
            while self.take() != ")":
                pass
        if self.peek() != "(":
            return Argument(self.take() if self.peek().isdigit() else self.name(), None)
        self.take("(")
        base, offset = self.name(), None
        if self.peek() == "+":
            self.take("+")
            offset = int(self.take())
        self.take(")")
        return Argument(base, offset)

    def _is_cast(self) -> bool:
        at = 1
        while self.peek(at) not in (")", ""):
            at += 1
        return self.peek(at - 1) == "*"
