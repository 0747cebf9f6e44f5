"""Templates rendered with unknown values: each condition that is met is decided, one way and the
other, so one template gives a text for each combination that its own conditions allow.

A value that a template is not given is a `Symbol`: arithmetic on it gives a symbol, printing it a
name. Asked for its truth it asks the `Path`, which decides once and stays with it: after `n == 1`
it knows that `n > 1` is wrong.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import BaseLoader, Environment, Undefined

LENGTHS = (2, 1)  # of a list, and of a range whose end is unknown
PRINTED = 3  # what "%d" makes of an unknown number
PRINTED_NAME = re.compile(r"Z\d+_")
EXHAUSTED = 8  # decisions of which every combination is rendered; more are decided at random
MOST = 100  # texts of a template
_UNPACKED = re.compile(r"values to unpack \(expected (\d+)")

_COMPARES: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "**": operator.pow,
}


@dataclass
class Path:
    """The decisions of one rendering: the first are given, later ones are the first alternative, or
    a random one."""

    given: Sequence[int] = ()
    chance: random.Random | None = None
    taken: list[tuple[int, int]] = field(default_factory=list)  # alternative, of how many
    known: dict[str, Any] = field(default_factory=dict)  # the value of an expression
    least: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    never: dict[str, set[Any]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    iterated: str = ""  # the last one
    said: list[str] = field(default_factory=list)  # the decisions, for a reader

    def choose(self, of: int, text: Callable[[int], str]) -> int:
        at = len(self.taken)
        if at < len(self.given):
            chosen = self.given[at]
        else:
            chosen = self.chance.randrange(of) if self.chance else 0
        self.taken.append((chosen, of))
        self.said.append(text(chosen))
        return chosen

    def truth(self, expr: str) -> bool:
        if expr not in self.known:
            if 0 in self.never.get(expr, ()):
                return True
            if self.least.get(expr, 0) > 0 or self.most.get(expr, 0) < 0:
                return True
            no = self.choose(2, lambda k: f"not {expr}" if k else expr)
            if not no:
                self.never.setdefault(expr, set()).add(0)
                return True
            self.known[expr] = 0
        return bool(self.known[expr])

    def compares(self, left: str, op: str, right: Any) -> bool:
        """Whether an unknown `left` compares so with a known `right`."""
        if left in self.known:
            known = self.known[left]
            try:
                return _COMPARES[op](known, right)
            except TypeError:
                return False
        number = isinstance(right, (int, float)) and not isinstance(right, bool)
        low, high = self.least.get(left, float("-inf")), self.most.get(left, float("inf"))
        if op in ("==", "!="):
            possible = right not in self.never.get(left, ()) and (
                not number or low <= right <= high
            )
            if not possible:
                return op == "!="
            if number and low == high:
                return op == "=="
            equal = not self.choose(2, lambda k: f"{left} {'!=' if k else '=='} {right!r}")
            if equal:
                self.known[left] = right
            else:
                self.never.setdefault(left, set()).add(right)
            return equal == (op == "==")
        edge = {"<": right - 1, "<=": right, ">": right, ">=": right - 1}[op]
        if edge > 0:
            low = max(low, 1)  # a size, not what is left of one
        while low in self.never.get(left, ()):
            low += 1
        while high in self.never.get(left, ()):
            high -= 1
        below = op in ("<", "<=")  # is it at most edge, or above
        if high <= edge:
            return below
        if low > edge:
            return not below
        at_most = bool(self.choose(2, lambda k: f"{left} {'<=' if k else '>'} {edge}"))
        if at_most:
            self.most[left] = edge
            if edge > 0:
                self.least.setdefault(left, 1)
        else:
            self.least[left] = edge + 1
        return at_most == below

    def length(self, expr: str) -> int:
        if expr in self.known:
            value = self.known[expr]
            return value if isinstance(value, int) else 0
        if expr not in self.lengths:
            k = self.choose(len(LENGTHS), lambda k: f"{LENGTHS[k]} of {expr}")
            self.lengths[expr] = LENGTHS[k]
        return self.lengths[expr]

    def whole(self, expr: str) -> int:
        if expr not in self.known:
            low, high = self.least.get(expr, 0), self.most.get(expr, 1 << 20)
            never = self.never.get(expr, ())
            likely = [n for n in (*LENGTHS, 3, 4, int(low)) if low <= n <= high]
            likely = [n for n in likely if n not in never][: len(LENGTHS)] or [int(low)]
            k = self.choose(len(likely), lambda k: f"{expr} == {likely[k]}")
            self.known[expr] = likely[k]
        return int(self.known[expr])

    def name(self, expr: str) -> str:
        return self.names.setdefault(expr, f"Z{len(self.names)}_")


PATH: list[Path] = [Path()]  # the rendering that symbols ask; operators have no other way to it


class Symbol:
    """A value of which a template knows nothing but what it has asked."""

    def __init__(self, expr: str, value: Callable[[], Any] | None = None) -> None:
        self._expr = expr
        self._value = value  # of a result of known operands; raises LookupError

    # Its value, where the path has decided it.
    def _known(self) -> Any:
        known = PATH[0].known
        if self._expr in known:
            return known[self._expr]
        if self._value is not None:
            return self._value()
        raise LookupError

    def __bool__(self) -> bool:
        try:
            return bool(self._known())
        except LookupError:
            return PATH[0].truth(self._expr)

    def __int__(self) -> int:
        try:
            return int(self._known())
        except (LookupError, ValueError):
            return PRINTED

    def __index__(self) -> int:
        try:
            return int(self._known())
        except (LookupError, ValueError):
            return PATH[0].whole(self._expr)

    def __len__(self) -> int:
        return PATH[0].length(self._expr)

    def __iter__(self) -> Iterator[Any]:
        PATH[0].iterated = self._expr
        return iter([self[k] for k in range(PATH[0].length(self._expr))])

    def __contains__(self, other: object) -> bool:
        return PATH[0].truth(f"{shown(other)} in {self._expr}")

    def __str__(self) -> str:
        try:
            return str(self._known())
        except LookupError:
            return PATH[0].name(self._expr)

    def __html__(self) -> str:
        return str(self)

    def __format__(self, spec: str) -> str:
        return str(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Symbol(f"{self._expr}.{name}")

    def __getitem__(self, key: object) -> Any:
        if isinstance(key, slice):
            return Symbol(f"{self._expr}[{shown(key.start)}:{shown(key.stop)}]")
        return Symbol(f"{self._expr}[{shown(key)}]")

    def __call__(self, *given: object, **named: object) -> Any:
        said = [*map(shown, given), *(f"{k}={shown(v)}" for k, v in named.items())]
        return Symbol(f"{self._expr}({', '.join(said)})")

    def __hash__(self) -> int:
        return hash(self._expr)

    def __neg__(self) -> Any:
        return _result("-", 0, self)


def shown(value: object) -> str:
    return value._expr if isinstance(value, Symbol) else repr(value)


def plain(value: Any) -> Any:
    """The value of a symbol, if it is decided. Raises LookupError."""
    return value._known() if isinstance(value, Symbol) else value


def _result(op: str, left: Any, right: Any) -> Symbol:
    """Of arithmetic."""

    def value() -> Any:
        try:
            return _ARITHMETIC[op](plain(left), plain(right))
        except (TypeError, ZeroDivisionError):
            raise LookupError from None

    return Symbol(f"({shown(left)} {op} {shown(right)})", value)


class Comparison(Symbol):
    """Decided only when somebody asks for its truth."""

    def __init__(self, left: Any, op: str, right: Any) -> None:
        super().__init__(f"{shown(left)} {op} {shown(right)}")
        self._sides = left, op, right

    def __bool__(self) -> bool:
        left, op, right = self._sides
        try:
            right = plain(right)
        except LookupError:
            return PATH[0].truth(self._expr)
        try:
            return bool(_COMPARES[op](plain(left), right))
        except LookupError:
            return PATH[0].compares(shown(left), op, right)
        except TypeError:
            return False


def _operators() -> None:
    for op, name in {
        "+": "add",
        "-": "sub",
        "*": "mul",
        "//": "floordiv",
        "%": "mod",
        "/": "truediv",
        "**": "pow",
    }.items():

        def forward(self: Symbol, other: Any, op: str = op) -> Symbol:
            return _result(op, self, other)

        def backward(self: Symbol, other: Any, op: str = op) -> Symbol:
            return _result(op, other, self)

        setattr(Symbol, f"__{name}__", forward)
        setattr(Symbol, f"__r{name}__", backward)
    for op, function in _COMPARES.items():

        def compare(self: Symbol, other: Any, op: str = op) -> Symbol:
            return Comparison(self, op, other)

        setattr(Symbol, f"__{function.__name__}__", compare)


_operators()


class Missing(Symbol, Undefined):
    """What stands for a name that a template was not given; nothing, for the rest of an
    `if` in an expression."""

    def __init__(
        self, hint: Any = None, obj: Any = None, name: Any = None, exc: Any = None
    ) -> None:
        Symbol.__init__(self, name or "nothing")
        self._nothing = hint is not None

    def __str__(self) -> str:
        return "" if self._nothing else Symbol.__str__(self)

    def __bool__(self) -> bool:
        return not self._nothing and Symbol.__bool__(self)


class Named(BaseLoader):
    """Templates whose names have an unknown part: one of those that there are."""

    def __init__(self, like: Environment) -> None:
        self.like, self.all = like.loader, like.list_templates()

    def get_source(self, env: Environment, template: str) -> Any:
        return self.like.get_source(env, template)

    def load(self, env: Environment, name: str, globals: Any = None) -> Any:
        unknown = PRINTED_NAME.search(name)
        if unknown is None:
            return super().load(env, name, globals)
        before, after = name[: unknown.start()], name[unknown.end() :]
        there = [n for n in self.all if n.startswith(before) and n.endswith(after)]
        path = PATH[0]
        expr = next(e for e, n in path.names.items() if n == unknown[0])
        chosen = there[path.choose(len(there), lambda k: there[k])]
        path.known[expr] = chosen[len(before) : len(chosen) - len(after)]
        made = super().load(env, chosen, globals)
        return made


def _each(name: object, bound: object, step: object = 1) -> str:
    return f"for (int32_t {name} = 0; {name} < {bound}; {name} += {step}) {{"


def environment(like: Environment) -> Environment:
    """One that renders the same templates with symbols in place of what they are not given."""
    made = like.overlay(undefined=Missing, bytecode_cache=None, cache_size=400, loader=Named(like))
    made.globals = {**like.globals, "each": _each, "end": "}"}
    made.tests = {
        **like.tests,
        "defined": lambda value: PATH[0].truth(f"{shown(value)} is defined"),
        "none": lambda value: (
            PATH[0].truth(f"{shown(value)} is none") if isinstance(value, Symbol) else value is None
        ),
    }
    made.filters = {
        **like.filters,
        "default": lambda value, other: (
            value if PATH[0].truth(f"{shown(value)} is defined") else other
        ),
        "length": lambda value: (
            Symbol(f"{shown(value)}|length", lambda: _length(value))
            if isinstance(value, Symbol)
            else len(value)
        ),
    }
    return made


def _length(value: Symbol) -> int:
    path = PATH[0]
    if value._expr in path.lengths:
        return path.lengths[value._expr]
    raise LookupError


def texts(env: Environment, template: str, most: int = MOST) -> Iterator[tuple[list[str], str]]:
    """The decisions and the text of each rendering: all of them, or `most`, at random."""
    path, text = rendered(env, template, ())
    yield path.said, text
    if len(path.taken) > EXHAUSTED:
        chance = random.Random(template)
        for _ in range(most - 1):
            path, text = rendered(env, template, (), chance)
            yield path.said, text
        return
    for _ in range(most - 1):
        given = [chosen for chosen, _ in path.taken]
        while given and given[-1] + 1 == path.taken[len(given) - 1][1]:
            given.pop()
        if not given:
            return
        given[-1] += 1
        path, text = rendered(env, template, given)
        yield path.said, text


def rendered(
    env: Environment,
    template: str,
    given: Sequence[int],
    chance: random.Random | None = None,
) -> tuple[Path, str]:
    """What comes of the `given` decisions; a symbol that is unpacked has as many elements as there
    are names."""
    lengths: dict[str, int] = {}
    state = chance.getstate() if chance else None
    while True:
        PATH[0] = Path(given, chance, lengths=dict(lengths))
        try:
            return PATH[0], env.get_template(template).render()
        except ValueError as error:
            wanted = _UNPACKED.search(str(error))
            if wanted is None or PATH[0].iterated in lengths:
                raise
            lengths[PATH[0].iterated] = int(wanted[1])
            if chance and state:
                chance.setstate(state)
