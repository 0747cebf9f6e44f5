"""The syntax of regular expressions (RE2's), parsed to a tree."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mlftool.frozen import frozen

Ranges = tuple[tuple[int, int], ...]  # of code points, sorted, not touching

LAST = 0x10FFFF
MOST_REPEATS = 1000  # RE2's limit
_ENDS = (0x7F, 0x7FF, 0xFFFF, LAST)  # last code points of one to four bytes
_CLASSES = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZ__az"}
_POSIX = {
    "alnum": "09AZaz", "alpha": "AZaz", "ascii": "\0\x7f", "blank": "\t\t  ",
    "cntrl": "\0\x1f\x7f\x7f", "digit": "09", "graph": "!~", "lower": "az", "print": " ~",
    "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ", "word": "09AZ__az", "xdigit": "09AFaf"
}  # fmt: skip
_CONTROL = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


@frozen
class Parsed:
    """A part of a pattern: `bytes` (one character), `empty`, `all` in a row, `any` of, `repeat`."""

    kind: str
    parts: tuple[Parsed, ...] = ()
    sequences: tuple[tuple[tuple[int, int], ...], ...] = ()  # of ranges of bytes
    condition: str = ""  # of an empty part: "^", "$", "b", "B", or none
    least: int = 0
    most: int | None = None


def is_word_byte(byte: int) -> bool:
    r"""Whether a byte is one of \w, which is ASCII."""
    return byte < 0x80 and (chr(byte).isalnum() or byte == ord("_"))


def parse(pattern: str) -> Parsed:
    """The tree of a whole pattern. Raises ValueError for what is not supported."""
    parser = _Parser(_QUOTED.sub(_spelt_out, pattern))
    tree = parser.alternatives()
    if parser.at < len(parser.text):
        raise ValueError(f"')' at {parser.at} closes no group")
    return tree


_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\.", re.DOTALL)


def _spelt_out(found: re.Match[str]) -> str:
    r"""\Qa.b\E as a\.b; any other escape as it is."""
    if found[1] is None:
        return found[0]
    return "".join(c if c.isalnum() else f"\\{c}" for c in found[1])


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.text, self.at = pattern, 0
        self.fold = self.newline = self.lines = False  # flags i, s and m

    def eat(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        self.at += len(token) if found else 0
        return found

    def next(self) -> str:
        if self.at >= len(self.text):
            raise ValueError("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self) -> Parsed:
        flags = self.fold, self.newline
        parts = [self.sequence()]
        while self.eat("|"):
            parts.append(self.sequence())
        self.fold, self.newline = flags
        return parts[0] if len(parts) == 1 else Parsed("any", tuple(parts))

    def sequence(self) -> Parsed:
        parts = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self.repeated())
        return Parsed("all", tuple(parts))

    def repeated(self) -> Parsed:
        tree = self.atom()
        while True:
            counted = re.compile(r"\{(\d+)(,?)(\d*)\}").match(self.text, self.at)
            if self.eat("*"):
                least, most = 0, None
            elif self.eat("+"):
                least, most = 1, None
            elif self.eat("?"):
                least, most = 0, 1
            elif counted:
                self.at = counted.end()
                least = int(counted[1])
                most = least if not counted[2] else int(counted[3]) if counted[3] else None
            else:
                return tree
            if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
                raise ValueError(f"repeats {least} to {most} times; expected up to {MOST_REPEATS}")
            self.eat("?")  # reluctant: the same texts match
            if self.at < len(self.text) and self.text[self.at] in "*+?":
                raise ValueError(f"'{self.text[self.at]}' at {self.at} repeats nothing")
            tree = Parsed("repeat", (tree,), least=least, most=most)

    def atom(self) -> Parsed:
        c = self.next()
        if c == "(":
            return self.group()
        if c == "[":
            return self.one_of(self.bracket())
        if c == ".":
            return self.one_of(((0, LAST),) if self.newline else ((0, 9), (11, LAST)))
        if c in "^$":
            return Parsed("empty", condition=c)
        if c in "*+?":
            raise ValueError(f"'{c}' at {self.at - 1} repeats nothing")
        if c != "\\":
            return self.one_of(self.folded(((ord(c), ord(c)),)))
        if self.at < len(self.text) and self.text[self.at] in "AzbB":
            return Parsed("empty", condition={"A": "^", "z": "$"}.get(c := self.next(), c))
        return self.one_of(self.folded(self.escape()))

    def group(self) -> Parsed:
        if self.eat("?"):
            named = re.compile(r"P?<\w+>").match(self.text, self.at)
            flags = re.compile(r"([ims]*)(-[ims]+)?([:)])").match(self.text, self.at)
            if named:
                self.at = named.end()
            elif not flags or "m" in flags[1]:
                shown = self.text[self.at - 2 : self.at + 2]
                raise ValueError(f"group '{shown}'; supported: (...), (?:...), flags i and s")
            else:
                return self.flagged(flags)
        tree = self.alternatives()
        if not self.eat(")"):
            raise ValueError("a group is not closed")
        return tree

    def flagged(self, flags: re.Match[str]) -> Parsed:
        """(?flags) until the group around it ends, or (?flags:...)."""
        self.at = flags.end()
        outside = self.fold, self.newline
        on, off = flags[1], flags[2] or ""
        self.fold = (self.fold or "i" in on) and "i" not in off
        self.newline = (self.newline or "s" in on) and "s" not in off
        if flags[3] == ")":
            return Parsed("all")
        tree = self.alternatives()
        self.fold, self.newline = outside
        if not self.eat(")"):
            raise ValueError("a group is not closed")
        return tree

    def escape(self) -> Ranges:
        """What follows a backslash: a class, or one character."""
        c = self.next()
        if c.lower() in _CLASSES:
            found = _pairs(_CLASSES[c.lower()])
            return found if c.islower() else inverted(found)
        if c in _CONTROL:
            return ((_CONTROL[c], _CONTROL[c]),)
        number = re.compile(r"x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2})").match(
            self.text, self.at - 1
        )
        if number:
            self.at = number.end()
            value = int(number[3], 8) if number[3] else int(number[1] or number[2], 16)
            if value > LAST:
                raise ValueError(f"character {value:#x}; the last is {LAST:#x}")
            return ((value, value),)
        if c.isalnum():
            raise ValueError(f"'\\{c}' is not supported")
        return ((ord(c), ord(c)),)

    def bracket(self) -> Ranges:
        negative = self.eat("^")
        found = list(self.member())  # a bracket that closes at once is a member
        while not self.eat("]"):
            found += self.member()
        ranges = self.folded(_joined(found))
        return inverted(ranges) if negative else ranges

    def member(self) -> Ranges:
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.text, self.at)
        if posix and posix[2] in _POSIX:
            self.at = posix.end()
            found = _pairs(_POSIX[posix[2]])
            return inverted(found) if posix[1] else found
        low = self.bracket_character()
        if len(low) > 1 or low[0][0] != low[0][1]:
            return low
        if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] != "]":
            self.at += 1
            high = self.bracket_character()
            if len(high) > 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                raise ValueError(f"a range ends badly at {self.at}")
            return ((low[0][0], high[0][0]),)
        return low

    def bracket_character(self) -> Ranges:
        c = self.next()
        return self.escape() if c == "\\" else ((ord(c), ord(c)),)

    def folded(self, ranges: Ranges) -> Ranges:
        """With (?i), letters of ASCII in both cases, and the two others that fold to them."""
        if not self.fold:
            return ranges
        more = []
        for low, high in ranges:
            for first, by in ((ord("a"), -32), (ord("A"), 32)):
                a, b = max(low, first), min(high, first + 25)
                if a <= b:
                    more.append((a + by, b + by))
        found = _joined([*ranges, *more])
        for letter, other in (("k", 0x212A), ("s", 0x17F)):
            if any(a <= ord(letter) <= b for a, b in found) or any(
                a <= other <= b for a, b in found
            ):
                both = [(ord(x), ord(x)) for x in (letter, letter.upper())]
                found = _joined([*found, *both, (other, other)])
        return found

    def one_of(self, ranges: Ranges) -> Parsed:
        return Parsed("bytes", sequences=tuple(s for a, b in ranges for s in encoded(a, b)))


def _pairs(text: str) -> Ranges:
    return tuple((ord(a), ord(b)) for a, b in zip(text[::2], text[1::2], strict=True))


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, and those that overlap or touch made one."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def inverted(ranges: Ranges) -> Ranges:
    """All other code points."""
    found, low = [], 0
    for a, b in _joined(ranges):
        if low < a:
            found.append((low, a - 1))
        low = b + 1
    return tuple([*found, (low, LAST)] if low <= LAST else found)


def encoded(low: int, high: int) -> list[tuple[tuple[int, int], ...]]:
    """The UTF-8 of code points `low` to `high`, as sequences of ranges of bytes."""
    for end in _ENDS:
        if low <= end < high:
            return [*encoded(low, end), *encoded(end + 1, high)]
    if low <= 0xDFFF and high >= 0xD800 and high > 0x7FF:  # surrogates have no UTF-8
        parts = [(low, min(high, 0xD7FF)), (max(low, 0xE000), high)]
        return [s for a, b in parts if a <= b for s in encoded(a, b)]
    if high <= 0x7F:
        return [((low, high),)]
    size = 1 + next(k for k, end in enumerate(_ENDS) if high <= end)
    for k in range(1, size):  # cut where the last k bytes do not run through all their values
        mask = (1 << (6 * k)) - 1
        if low & ~mask != high & ~mask:
            if low & mask:
                return [*encoded(low, low | mask), *encoded((low | mask) + 1, high)]
            if high & mask != mask:
                return [*encoded(low, (high & ~mask) - 1), *encoded(high & ~mask, high)]
    return [tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))]
