"""What a C preprocessor leaves of a module and of the headers that it includes.

A configuration is what a compiler defines on its own. Conditions are evaluated and macros replaced
as C says; a definition is expanded when it is asked for, since most helpers of a header are not
called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlftool.frozen import frozen
from mlftool.proof.csource import tokens

TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    r"|0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[uUlLfF]*|[A-Za-z_]\w*"
    r"|<<=|>>=|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||##|[-+*/%&|^]=|[^\s\w])",
    re.DOTALL,
)
MOST_TOKENS = 2_000_000  # that expansions make: a stranger's macros may double each time
MOST_DEPTH = 60
_NAME = re.compile(r"[A-Za-z_]\w*")
_CONTINUED = re.compile(r"\\\n")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_HEAD = re.compile(r"\b(\w+)\s*\([^;{}#]*\)\s*\{\s*$")
_CALL = re.compile(r"[A-Z]\w*\(")


@frozen
class Macro:
    """`parameters` is None if it takes no arguments."""

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


@dataclass
class Unit:
    """A module and its headers in one configuration. `functions` has the text of each definition by
    its name, before expansion; `typedefs` the words of each type definition, expanded."""

    macros: dict[str, Macro] = field(default_factory=dict)
    functions: dict[str, str | Sequence[str]] = field(default_factory=dict)
    typedefs: list[Sequence[str]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _made: int = 0

    def read(self, name: str, files: Mapping[str, str]) -> None:
        """Reads a file and what it includes of `files`, by their last names, once each. Raises
        ValueError for a condition that C does not have."""
        if name in self._seen or name not in files:
            return
        self._seen.add(name)
        kept: list[str] = []
        open_: list[tuple[bool, bool]] = []  # whether a branch is read, and whether one was
        for line in _CONTINUED.sub(" ", files[name]).split("\n"):
            if not line.lstrip().startswith("#"):
                if all(reading for reading, _ in open_):
                    kept.append(line)
                continue
            words = _COMMENT.sub("", line).strip()[1:].strip()
            word, _, rest = words.partition(" ")
            if word in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
                self._branch(word, rest.strip(), open_)
            elif all(reading for reading, _ in open_):
                if word == "include":
                    self._split(kept)
                    kept = []
                    self.read(rest.strip().strip('"<>').split("/")[-1], files)
                elif word == "define":
                    self._define(rest.strip())
                elif word == "undef":
                    self._split(kept)
                    kept = []
                    self.macros.pop(rest.strip(), None)
        self._split(kept)

    def _branch(self, word: str, rest: str, open_: list[tuple[bool, bool]]) -> None:
        outer = all(reading for reading, _ in open_[:-1])
        if word in ("if", "ifdef", "ifndef"):
            outer = all(reading for reading, _ in open_)
            true = outer and (
                self._holds(rest) if word == "if" else (rest in self.macros) == (word == "ifdef")
            )
            open_.append((true, true))
        elif not open_:
            raise ValueError(f"#{word} without #if")
        elif word == "endif":
            open_.pop()
        else:
            _, was = open_[-1]
            true = outer and not was and (word == "else" or self._holds(rest))
            open_[-1] = (true, was or true)

    def _define(self, rest: str) -> None:
        match = re.match(r"(\w+)(\(([^)]*)\))?", rest)
        if match is None:
            raise ValueError(f"#define {rest}")
        names = match[3].split(",") if match[3] else []
        parameters = tuple(n.strip() for n in names) if match[2] is not None else None
        self.macros[match[1]] = Macro(parameters, tuple(tokens(rest[match.end() :], TOKEN)))

    # Definitions.

    def _split(self, lines: Sequence[str]) -> None:
        """Finds the definitions in lines without directives."""
        at = 0
        while at < len(lines):
            line = lines[at]
            if line.startswith("typedef"):
                end = _end(lines, at, ";" if "{" not in line else "}")
                words = tokens("\n".join(lines[at : end + 1]), TOKEN)
                self.typedefs.append(self.expanded(list(words)))
                at = end
            elif line[:1].isalpha() or line[:1] == "_":
                at = self._definition(lines, at)
            at += 1

    def _definition(self, lines: Sequence[str], at: int) -> int:
        """What begins at a line; returns its last line."""
        head = line = lines[at]
        end = at
        while not re.search(r"[{;=]", _COMMENT.sub("", line)) and end + 1 < len(lines):
            if _CALL.match(head) and _balanced(head):
                self._by_macro(head)
                return end
            end += 1
            line = lines[end]
            head += "\n" + line
        match = _HEAD.search(_COMMENT.sub("", head))
        if match:
            last = _end(lines, end, "}")
            name = _declared(head) or match[1]
            self.functions[name] = "\n".join(lines[at : last + 1])
            return last
        if _CALL.match(head):
            self._by_macro(head)
        return end

    def _by_macro(self, text: str) -> None:
        """Definitions that a macro makes."""
        words = list(tokens(text, TOKEN))
        if words[0] not in self.macros:
            return
        found = self.expanded(words)
        start = depth = 0
        for k, word in enumerate(found):
            depth += (word == "{") - (word == "}")
            if word == "}" and depth == 0:
                one = found[start : k + 1]
                name = _called(one)
                if name:
                    self.functions[name] = one
                start = k + 1

    def definition(self, name: str) -> list[str] | None:
        """The words of a function, expanded. Raises ValueError for what is too long."""
        found = self.functions.get(name)
        if found is None:
            return None
        return self.expanded(list(tokens(found, TOKEN))) if isinstance(found, str) else list(found)

    # Macros.

    def expanded(
        self, words: Sequence[str], hidden: frozenset[str] = frozenset(), depth: int = 0
    ) -> list[str]:
        made: list[str] = []
        todo = list(reversed(words))
        while todo:
            word = todo.pop()
            macro = self.macros.get(word)
            if macro is None or word in hidden:
                made.append(word)
                continue
            arguments: list[list[str]] = []
            if macro.parameters is not None:
                if not todo or todo[-1] != "(":
                    made.append(word)
                    continue
                arguments = _arguments(todo)
            body = self._replaced(macro, arguments, hidden, depth)
            self._made += len(body)
            if self._made > MOST_TOKENS or depth > MOST_DEPTH:
                raise ValueError("macros make too much")
            again = self.expanded(body, hidden | {word}, depth + 1)
            if again and again[-1] in self.macros and todo and todo[-1] == "(":
                todo.append(again.pop())  # a macro's name, whose arguments follow
            made += again
        return made

    def _replaced(
        self, macro: Macro, arguments: Sequence[list[str]], hidden: frozenset[str], depth: int
    ) -> list[str]:
        given = dict(zip(macro.parameters or (), arguments, strict=False))
        body, made = macro.body, list[str]()
        k = 0
        while k < len(body):
            word = body[k]
            beside = "##" in (body[k + 1 : k + 2] or ()) or (k > 0 and body[k - 1] == "##")
            if word == "#" and k + 1 < len(body) and body[k + 1] in given:
                k += 1
                made.append('"' + " ".join(given[body[k]]).replace('"', "'") + '"')
            elif word == "##":
                k += 1
                right = given.get(body[k], [body[k]])
                if made and right:
                    made[-1] += right[0]
                    made += right[1:]
                else:
                    made += right
            elif word in given:
                argument = given[word]
                made += argument if beside else self.expanded(argument, hidden, depth + 1)
            else:
                made.append(word)
            k += 1
        return made

    # Conditions.

    def _holds(self, text: str) -> bool:
        words = list(tokens(text, TOKEN))
        known: list[str] = []
        while words:
            word = words.pop(0)
            if word == "defined":
                inside = words and words[0] == "("
                name = words[1] if inside else words[0]
                del words[: 3 if inside else 1]
                known.append("1" if name in self.macros else "0")
            else:
                known.append(word)
        found = ["0" if _NAME.fullmatch(w) else w for w in self.expanded(known)]
        value, at = _level(found, 0, 0)
        if at != len(found):
            raise ValueError(f"#if {text}")
        return value != 0


_LEVELS = (("||",), ("&&",), ("|",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"))
_DONE: Mapping[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
}


def _level(words: Sequence[str], at: int, k: int) -> tuple[int, int]:
    """The value of a condition's part from `at` on, and what follows it."""
    if k == len(_LEVELS):
        return _one(words, at)
    value, at = _level(words, at, k + 1)
    while at < len(words) and words[at] in _LEVELS[k]:
        other, end = _level(words, at + 1, k + 1)
        value, at = _DONE[words[at]](value, other), end
    return value, at


def _one(words: Sequence[str], at: int) -> tuple[int, int]:
    if at >= len(words):
        raise ValueError("a condition without an end")
    if words[at] == "!":
        value, at = _one(words, at + 1)
        return int(not value), at
    if words[at] == "(":
        value, at = _level(words, at + 1, 0)
        if at >= len(words) or words[at] != ")":
            raise ValueError("a condition without a bracket")
        return value, at + 1
    if words[at].startswith("'"):
        return ord(words[at][1]), at + 1
    return int(words[at].rstrip("uUlL"), 0), at + 1


def _arguments(todo: list[str]) -> list[list[str]]:
    """Takes the arguments of a macro off a reversed list that begins with "("."""
    todo.pop()
    found: list[list[str]] = [[]]
    depth = 1
    while todo:
        word = todo.pop()
        depth += (word in "([{") - (word in ")]}") if len(word) == 1 else 0
        if depth == 0:
            return found
        if word == "," and depth == 1:
            found.append([])
        else:
            found[-1].append(word)
    raise ValueError("arguments without an end")


def _balanced(text: str) -> bool:
    return text.count("(") == text.count(")")


def _end(lines: Sequence[str], at: int, sign: str) -> int:
    """The line at which a definition ends: one that begins with "}", or has a ";"."""
    for k in range(at, len(lines)):
        if lines[k].startswith("}") if sign == "}" else sign in lines[k]:
            return k
    return len(lines) - 1


def _declared(head: str) -> str:
    return _called(list(tokens(head, TOKEN)))


def _called(words: Iterable[str]) -> str:
    """The name before the parameters of a definition: the last one before a "(" that no attribute
    has."""
    found, depth, before = "", 0, ""
    for word in words:
        if word == "{":
            break
        if word == "(":
            if depth == 0 and _NAME.fullmatch(before) and before != "__attribute__":
                found = before
            depth += 1
        elif word == ")":
            depth -= 1
        before = word
    return found


def names(words: Iterable[str]) -> Iterator[str]:
    return (word for word in words if _NAME.fullmatch(word))
