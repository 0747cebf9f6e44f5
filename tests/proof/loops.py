"""Random kernels of nested loops, guards and walking pointers, as C and as Python that counts which
elements they touch."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Loops:
    """A kernel under construction: `c` and `python` are the same statements."""

    chance: random.Random
    c: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # integers in scope
    count: int = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def add(self, depth: int, c: str, python: str = "") -> None:
        self.c.append("  " * depth + c)
        self.python.append("  " * depth + (python or "pass"))

    def term(self) -> str:
        """Sums and products of what is in scope; the same text in both languages."""
        pick = self.chance.choice
        parts = [f"{pick((1, 1, 2, 3, -1, 5))} * {n}" for n in self.names if pick((0, 1))]
        return " + ".join([*parts, str(pick((0, 0, 1, -2, 7)))])


def kernel(chance: random.Random) -> tuple[str, str]:
    """C of `k(x, w)` and Python of `run(touch)`, which calls touch(memory, element)."""
    made = Loops(chance)
    made.add(1, "const float *at = x;", "at = 0")
    _body(made, 1, 3)
    c = "MLF_KERNEL void k(const float *x, float *w) {\n" + "\n".join(made.c) + "\n}\n"
    return c, "def run(touch, div, mod):\n" + "\n".join(made.python) + "\n"


def _body(made: Loops, depth: int, more: int) -> None:
    outer = list(made.names)
    for _ in range(made.chance.randint(1, 3)):
        kind = made.chance.randrange(8 if more else 5)
        if kind == 0:
            _access(made, depth)
        elif kind == 1:
            _named(made, depth)
        elif kind == 2:
            step = made.chance.choice((1, 2, 3))
            made.add(depth, f"at += {step};", f"at += {step}")
        elif kind == 3:
            made.add(depth, "w[0] = *at;", "touch('x', at); touch('w', 0)")
        elif kind == 4:
            made.add(depth, "w[1] = *at++;", "touch('x', at); touch('w', 1); at += 1")
        elif kind == 5:
            _guarded(made, depth, more)
        else:
            _loop(made, depth, more)
    made.names = outer


def _access(made: Loops, depth: int) -> None:
    memory, term = made.chance.choice("xw"), made.term()
    c = f"w[{term}] = 0.0f;" if memory == "w" else f"w[0] = x[{term}];"
    made.add(depth, c, f"touch('{memory}', {term}); touch('w', 0)")


def _named(made: Loops, depth: int) -> None:
    name, term, other = made.name("v"), made.term(), made.term()
    n = made.chance.choice((2, 3, 5))
    c, python = made.chance.choice(
        (
            (term, term),
            (f"({term}) / {n}", f"div({term}, {n})"),
            (f"({term}) % {n}", f"mod({term}, {n})"),
            (f"({term}) & ~{2**n - 1}", f"({term}) & ~{2**n - 1}"),
            (f"{term} < {other} ? {term} : {other}", f"min({term}, {other})"),
            (f"mlf_min_i32({term}, {other})", f"min({term}, {other})"),
        )
    )
    made.add(depth, f"const int32_t {name} = {c};", f"{name} = {python}")
    made.names.append(name)


def _guarded(made: Loops, depth: int, more: int) -> None:
    sign = made.chance.choice(("<", "<=", ">", ">=", "==", "!="))
    other, least = made.chance.choice((0, 3, 9)), made.term()
    one = f"{made.term()} {sign} {other}"
    both = f"{least} >= 0"
    c, python = made.chance.choice(
        (
            (one, one),
            (f"{both} && {one}", f"{both} and {one}"),
            (f"!({one})", f"not ({one})"),
            (least, least),
        )
    )
    made.add(depth, f"if ({c}) {{", f"if {python}:")
    made.python.append("  " * (depth + 1) + "pass")
    _body(made, depth + 1, more - 1)
    if made.chance.random() < 0.3 and depth > 1 and made.python[-1].strip() != "break":
        made.add(depth, "} else {", "else:")
        made.python.append("  " * (depth + 1) + "pass")
        _body(made, depth + 1, more - 1)
    made.add(depth, "}")


def _loop(made: Loops, depth: int, more: int) -> None:
    name, start, step = (
        made.name("i"),
        made.chance.choice((0, 0, 1, -2)),
        made.chance.choice((1, 2)),
    )
    end = made.chance.choice((str(made.chance.randint(0, 6)), made.term()))
    if made.chance.random() < 0.3:
        head = f"for (int32_t {name} = {end}; {name} >= {start}; {name} -= {step}) {{"
        made.add(depth, head, f"{name} = {end}")
        made.python.append("  " * depth + f"while {name} >= {start}:")
        move = f"{name} -= {step}"
    else:
        least = made.chance.choice(("", "", f"min({end}, {made.term()})"))
        called = least.replace("min", "mlf_min_i32") or end
        head = f"for (int32_t {name} = {start}; {name} < {called}; {name} += {step}) {{"
        made.add(depth, head, f"{name} = {start}")
        made.python.append("  " * depth + f"while {name} < {least or end}:")
        move = f"{name} += {step}"
    made.names.append(name)
    _body(made, depth + 1, more - 1)
    if made.chance.random() < 0.2:
        leave = made.chance.choice(("break", "continue"))
        test = f"{made.term()} > 4"
        made.add(depth + 1, f"if ({test}) {{")
        made.python[-1] = "  " * (depth + 1) + f"if {test}:"
        inside = f"{move}; continue" if leave == "continue" else leave
        made.add(depth + 2, f"{leave};", inside)
        made.add(depth + 1, "}")
        _access(made, depth + 1)
    made.python.append("  " * (depth + 1) + move)
    made.add(depth, "}")
