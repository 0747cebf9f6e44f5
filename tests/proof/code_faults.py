"""Faults of an emitter: functions from the lines of its calls to lines that are wrong, or None."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

Fault = Callable[[random.Random, "Body"], "Body | None"]


@dataclass(frozen=True)
class Body:
    """The calls of the main function: symbol and arguments of each."""

    calls: tuple[tuple[str, tuple[str, ...]], ...]

    def changed(self, k: int, symbol: str, arguments: tuple[str, ...]) -> Body:
        calls = list(self.calls)
        calls[k] = (symbol, arguments)
        return replace(self, calls=tuple(calls))


def split(text: str, entry: str) -> tuple[str, Body, str]:
    """A C file before the calls of function `entry`, the calls, and the rest."""
    start = text.index("{\n", text.rindex(f"int32_t {entry}(")) + 2
    end = text.index("  return 0;\n}", start)
    lines = [x for x in text[start:end].splitlines() if not x.startswith(("  (void)", "  //"))]
    calls = []
    for statement in "\n".join(lines).split(";\n")[: None if lines else 0]:
        name, _, rest = statement.strip().rstrip(";").partition("(")
        if name:
            inner = rest[: rest.rindex(")")]
            calls.append((name, tuple(a.strip() for a in inner.split(",\n") if a.strip())))
    return text[:start], Body(tuple(calls)), text[end:]


def joined(head: str, body: Body, tail: str) -> str:
    return head + "".join(f"  {name}({', '.join(a)});\n" for name, a in body.calls) + tail


def addressed(body: Body) -> list[tuple[int, int]]:
    return [(k, i) for k, (_, a) in enumerate(body.calls) for i, x in enumerate(a) if " + " in x]


def with_argument(body: Body, k: int, i: int, text: str) -> Body:
    name, arguments = body.calls[k]
    return body.changed(k, name, (*arguments[:i], text, *arguments[i + 1 :]))


def offset_off(rng: random.Random, body: Body) -> Body | None:
    """An address off by some bytes."""
    found = addressed(body)
    if not found:
        return None
    k, i = rng.choice(found)
    before, _, after = body.calls[k][1][i].rpartition(" + ")
    at = int(after.rstrip(")"))
    by = rng.choice((-16, -8, -4, -1, 1, 4, 8, 16, 64))
    return with_argument(
        body, k, i, f"{before} + {max(0, at + by) or 1})" + ")" * (after.count(")") - 1)
    )


def arguments_swapped(rng: random.Random, body: Body) -> Body | None:
    """Two different pointers of one call in each other's place."""
    found = [
        (k, i, j)
        for k, (_, a) in enumerate(body.calls)
        for i in range(len(a))
        for j in range(i)
        if a[i] != a[j] and ("(" in a[i] or "(" in a[j])
        and a[i].rpartition("*)")[2] != a[j].rpartition("*)")[2]
    ]  # fmt: skip
    if not found:
        return None
    k, i, j = rng.choice(found)
    a = body.calls[k][1]
    return with_argument(with_argument(body, k, i, a[j]), k, j, a[i])


def argument_dropped(rng: random.Random, body: Body) -> Body | None:
    found = [k for k, (_, a) in enumerate(body.calls) if a]
    if not found:
        return None
    k = rng.choice(found)
    name, a = body.calls[k]
    i = rng.randrange(len(a))
    return body.changed(k, name, (*a[:i], *a[i + 1 :]))


def pointer_from_elsewhere(rng: random.Random, body: Body) -> Body | None:
    """An argument of another call."""
    found = [
        (k, i, a2[j])
        for k, (_, a1) in enumerate(body.calls)
        for i in range(len(a1))
        for _, a2 in body.calls
        for j in range(len(a2))
        if "(" in a1[i] and a1[i].rpartition("*)")[2] != a2[j].rpartition("*)")[2]
    ]
    return with_argument(body, *rng.choice(found)) if found else None


def call_dropped(rng: random.Random, body: Body) -> Body | None:
    if not body.calls:
        return None
    k = rng.randrange(len(body.calls))
    return replace(body, calls=(*body.calls[:k], *body.calls[k + 1 :]))


def call_repeated(rng: random.Random, body: Body) -> Body | None:
    if not body.calls:
        return None
    k = rng.randrange(len(body.calls))
    return replace(body, calls=(*body.calls[: k + 1], *body.calls[k:]))


def calls_swapped(rng: random.Random, body: Body) -> Body | None:
    found = [k for k in range(len(body.calls) - 1) if body.calls[k] != body.calls[k + 1]]
    if not found:
        return None
    k = rng.choice(found)
    calls = list(body.calls)
    calls[k], calls[k + 1] = calls[k + 1], calls[k]
    return replace(body, calls=tuple(calls))


def other_function(rng: random.Random, body: Body) -> Body | None:
    found = [
        (k, other) for k, (name, _) in enumerate(body.calls) for other, _ in body.calls
        if other != name
    ]  # fmt: skip
    if not found:
        return None
    k, name = rng.choice(found)
    return body.changed(k, name, body.calls[k][1])


CODE_FAULTS: tuple[Fault, ...] = (
    offset_off, arguments_swapped, argument_dropped, pointer_from_elsewhere, call_dropped,
    call_repeated, calls_swapped, other_function,
)  # fmt: skip
