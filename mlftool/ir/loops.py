"""Loops that run once are not written: their body stands alone, with 0 for the loop's variable.

A template declares the head of a loop with `each`. Whether its bound is 1 is known when
the numbers are: layers that share a function may differ in it, and then the loop stays.

    for (int32_t image = 0; image < 1; image++) {
      y[image * 64 + c] = x[c];                    ->    y[c] = x[c];
    }
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# A piece of text whose numbers are filled in: what it is, as a hole says it, and the text.
Token = tuple[str, str]
OPEN, HEAD = "l", "h"
MARKS = (OPEN, HEAD)
ZERO = "\1"  # a zero that stands for a term: what it is multiplied with and added to leaves

_ONCE = re.compile(r"for \(int32_t (\w+) = 0; \1 < (\d+); \1(?:\+\+| \+= (\d+))\) \{$")
_JUMP = re.compile(r"\b(?:continue|break)\b")
_HINT = re.compile(r"(?<=\n) *MLF_(?:UNROLL\([^\n]*\)|ROLLED)\n( *)$")
_COMMENT = re.compile(r"(//[^\n]*|/\*.*?\*/)", re.DOTALL)
_BRACE = re.compile(r'[{}]|"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DECLARATION = re.compile(
    r"^ *(?:const )?[A-Za-z_]\w* \*?(?:const )?\*?\w+(?:\[[^\n]*\])?(?: = |;|, )"
)


def mark(kind: str, text: str = "") -> str:
    """A mark in a text, between two zero bytes as every hole."""
    return f"\0{kind}{text}\0"


def each(name: str, bound: object, step: object = 1) -> str:
    """The head of a loop over `name` from 0 below `bound`; its brace ends it."""
    more = "++" if type(step) is int and step == 1 else f" += {step}"
    head = f"for (int32_t {name} = 0; {name} < {bound}; {name}{more}) {{"
    return f"{mark(OPEN, name)}{head}{mark(HEAD)}"


def entered(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without loops that run once."""
    rest, start = list(tokens), 0
    while (at := _next(rest, start)) is not None:
        head = next(k for k in range(at, len(rest)) if rest[k][0] == HEAD)
        header = _ONCE.match("".join(text for _, text in rest[at + 1 : head]))
        if header and 0 < int(header[2]) <= int(header[3] or 1):
            body, after = _body(rest[head + 1 :])
            if not _jumps(body):
                rest = _alone(rest[:at], _zeroed(body, header[1]), after)
                continue
        start = at + 1
    return rest


def _next(tokens: Sequence[Token], start: int) -> int | None:
    return next((k for k in range(start, len(tokens)) if tokens[k][0] == OPEN), None)


def _body(tokens: Sequence[Token]) -> tuple[list[Token], list[Token]]:
    """What is before the brace that ends the loop, and the rest from that brace on."""
    depth = 1
    for k, (kind, text) in enumerate(tokens):
        for brace in _BRACE.finditer("" if kind else text):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if depth == 0:
                at = brace.start()
                return [*tokens[:k], ("", text[:at])], [("", text[at:]), *tokens[k + 1 :]]
    raise ValueError("a loop without its end")


def _jumps(body: Sequence[Token]) -> bool:
    return any(_JUMP.search(_COMMENT.sub("", text)) for kind, text in body if not kind)


def _zeroed(body: Sequence[Token], name: str) -> list[Token]:
    """The body with zeros where it reads the loop's variable, beside comments."""
    variable = re.compile(rf"(?<![\w.])(?<!->){name}\b")
    made: list[Token] = []
    for kind, text in body:
        if not kind:
            parts = _COMMENT.split(text)
            parts[::2] = [variable.sub(ZERO, p) for p in parts[::2]]
            text = "".join(parts)
        made.append((kind, text))
    return made


def _alone(before: list[Token], body: list[Token], after: list[Token]) -> list[Token]:
    """A body in the place of its loop: in a block of its own where the names that it declares
    occur elsewhere, too."""
    if _clash(body, [*before, *after]):
        return [*_without_hint(before), ("", "{"), *body, *after]
    indent = before[-1][1].rpartition("\n")[2]
    before[-1] = "", before[-1][1].removesuffix(indent)
    before = _without_hint(before)
    body = [(kind, text if kind else text.replace("\n  ", "\n")) for kind, text in body]
    body[0] = "", body[0][1].removeprefix("\n")
    body[-1] = "", body[-1][1].rstrip(" ")
    after[0] = "", after[0][1].removeprefix("}").removeprefix("\n")
    return [*before, *body, *after]


def _without_hint(before: list[Token]) -> list[Token]:
    """The same without a line that tells the compiler how to unroll the loop after it."""
    text = ""
    for k in range(len(before) - 1, -1, -1):
        if before[k][0] in MARKS or text.count("\n") > 1:
            break
        text = before[k][1] + text
        if found := _HINT.search(text):
            return [*before[:k], ("", text[: found.start()] + found[1])]
    return before


def _clash(body: Sequence[Token], others: Sequence[Token]) -> bool:
    depth, names = 0, set()
    for line in "".join(text for _, text in body).split("\n"):
        if depth == 0 and _DECLARATION.match(line) and not line.lstrip().startswith("return "):
            names |= set(re.findall(r"(\w+)(?:\[[^\]]*\])?(?: = |;|, )", line))
        depth += line.count("{") - line.count("}")
    words = set(re.findall(r"\w+", "".join(text for _, text in others)))
    return any(name in words and not name[0].isdigit() for name in names)


_OPERAND = r"(?:\w+(?:\[[^\[\]]*\])?|\((?:[^()]|\([^()]*\))*\))"
_FIRST = r"(?<![\w.\])*&!~-])(?<![*/%] )"  # nothing before it belongs to its product
_PRODUCT = rf"{_FIRST}(?:{_OPERAND} [*/%] )*{_OPERAND}"
REMAINDER = re.compile(rf"{_PRODUCT} % $")  # by what is 1
_BINDS = r"(?! [*/%]|[\w.\[(])"  # nothing binds the zero before it tighter
_RULES = [
    (re.compile(rf"{_FIRST}{ZERO} [*/%] {_OPERAND}(?![\w.\[(])"), ZERO),
    (re.compile(rf"{_PRODUCT} \* {ZERO}(?![\w.\[(])"), ZERO),
    (re.compile(rf"(?<![\w)\]])\({ZERO}\)"), ZERO),
    (re.compile(rf"(?<![\w)\]])\(([\w.]+) [+-] {ZERO}\)"), r"\1"),
    (re.compile(rf"(?<![\w)\]])\({ZERO} \+ 0\)"), ZERO),
    (re.compile(rf"(?<=[,=] ){ZERO} \? \w+ : "), ""),
    (re.compile(rf" [+-] {ZERO}{_BINDS}"), ""),
    (re.compile(rf"{_FIRST}\({ZERO} \+ 1\) \* "), ""),
    (re.compile(rf"(?<![\w)\]])\({ZERO} \+ ([\w.]+)\)"), r"\1"),
    (re.compile(rf"((?:[(\[?:=,+<>&|-] ?|return |^ *)){ZERO} \+ "), r"\1"),
    (re.compile(rf"((?:[(\[]|[=,?:<>] |return )){ZERO} - (?=[\w(])"), r"\1-"),
]


def settled(text: str) -> str:
    """The text with its zeros: a product with one is one, and a sum is its other side."""
    if ZERO not in text:
        return text
    before = ""
    while before != text:
        before = text
        for pattern, new in _RULES:
            text = pattern.sub(new, text)
    return text.replace(ZERO, "0")
