"""What a model takes with less RAM: plans of other budgets, and what each of them costs.

The compiler's search for a `ram_budget` is asked for several of them, with inputs and outputs
outside the workspace and in it. Every point is a module that was compiled with the options that
the point names, and counted on the simulated board where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlftool.compile import compile_frontier
from mlftool.describe import bundle as bundle_of
from mlftool.errors import MlfError, one_line
from mlftool.frozen import frozen, replace
from mlftool.insight import svg
from mlftool.insight.facts import on_board
from mlftool.insight.subject import Subject
from mlftool.module import Module
from mlftool.plan.budget import cost
from mlftool.progress import step
from mlftool.runtime.boards import Board

GOALS = 2  # budgets that are tried between the smallest plan and the usual one
# What keeps the search short, whatever the model; neither depends on the machine.
MOST_STEPS = 200
MOST_INSTRUCTIONS = 200_000_000

COUNTED = ("instructions", "cycles", "flash")


@frozen
class Point:
    """A plan: the options that give it, "" if they are the module's own; its RAM, which is the
    workspace with inputs, outputs and states, in bytes; the runs of layers that it computes in
    bands; and the kernels' estimate of instructions. `figures` has `instructions`, `cycles` and
    `flash`, as far as they were counted."""

    options: str
    ram: int
    inside: bool  # inputs and outputs are in the workspace
    bands: tuple[str, ...]
    estimate: int
    figures: Mapping[str, int]


@frozen
class Curve:
    """`own` is the module as it is, which its `points` may not have. The least RAM comes first."""

    own: Point
    points: tuple[Point, ...]
    unit: str  # of the costs: "cycles", "instructions" or "estimate"

    def cost(self, point: Point) -> int:
        return point.estimate if self.unit == "estimate" else point.figures[self.unit]

    @property
    def all(self) -> list[Point]:
        """With the module as it is, the least RAM first."""
        return sorted((self.own, *self.points), key=lambda p: (p.ram, self.cost(p)))


def curve(subject: Subject, board: Board | None, figures: Mapping[str, int]) -> Curve | str:
    """The curve of a module of which `figures` are known, or why there is none. Raises MlfError."""
    module = subject.compiled
    if module is None:
        return "give the model or the manifest's entry that the archive was made from"
    if len(module.program.calls) > MOST_STEPS:
        return f"it is not looked for in models of more than {MOST_STEPS} steps"
    own = _point("", module, {n: figures[n] for n in COUNTED if n in figures})
    heavy = own.figures.get("instructions", 0) > MOST_INSTRUCTIONS
    points = []
    for made in _others(module):
        where = None if heavy else board
        with step(f"counting with {_options(module, made) or 'the usual options'}"):
            points.append(_point(_options(module, made), made, _counted(made, where)))
    every = [own, *points]
    units = (u for u in ("cycles", "instructions") if all(u in p.figures for p in every))
    found = Curve(own, (), next(units, "estimate"))
    return replace(found, points=tuple(_worth(found, points)))


def _others(module: Module) -> Iterator[Module]:
    """Modules of other budgets; options that the executor lacks are left out."""
    spec = replace(module.spec, tuning=None)
    for inside in dict.fromkeys((spec.workspace_io, True)):
        try:
            yield from compile_frontier(replace(spec, workspace_io=inside), GOALS)
        except MlfError:
            continue


def _worth(found: Curve, points: Sequence[Point]) -> Iterator[Point]:
    """Of each place of inputs and outputs, those that no other one of at most their RAM beats."""
    for inside in (True, False):
        best = None
        for p in sorted(points, key=lambda p: (p.ram, found.cost(p))):
            if p.inside == inside and (best is None or found.cost(p) < best):
                best = found.cost(p)
                if (p.ram, p.inside, p.bands) != (found.own.ram, found.own.inside, found.own.bands):
                    yield p


def _options(own: Module, made: Module) -> str:
    """The options that give this module, besides those that both have."""
    words = []
    if made.spec.ram_budget != own.spec.ram_budget:
        words.append(f"--ram-budget {made.spec.ram_budget}")
    if made.spec.workspace_io and not own.spec.workspace_io:
        words.append("--workspace-io")
    return " ".join(words)


def _counted(module: Module, board: Board | None) -> Mapping[str, int]:
    """The figures of one inference; empty without a board."""
    if board is None:
        return {}
    subject = Subject("", "", bundle_of([module]), module.spec.module_name, module)
    figures = on_board(subject, board, estimate=True)[0]
    return {n: figures[n] for n in COUNTED if n in figures}


def _point(options: str, module: Module, figures: Mapping[str, int]) -> Point:
    program = module.program
    bands = tuple(one_line(c.node.name) for c in program.calls if c.parts and c.kernel.turns)
    estimate, inside = round(cost(program)), program.workspace_io
    return Point(options, module.ram_bytes, inside, bands, estimate, figures)


def bands(point: Point) -> str:
    """What is computed in bands, in words."""
    return "; ".join(point.bands) or "none"


def ends(point: Point) -> str:
    """Where inputs and outputs are."""
    return "in the workspace" if point.inside else "apart"


def to_json(found: Curve) -> dict[str, Any]:
    """For scripts; new versions only add keys."""
    return {"unit": found.unit, "points": [_json(p, p is found.own) for p in found.all]}


def _json(point: Point, own: bool) -> dict[str, Any]:
    return {
        "options": point.options,
        "own": own,
        "ram_bytes": point.ram,
        "flash_bytes": point.figures.get("flash"),
        "instructions": point.figures.get("instructions"),
        "cycles": point.figures.get("cycles"),
        "estimated_instructions": point.estimate,
        "workspace_io": point.inside,
        "bands": list(point.bands),
    }


FEWEST = 3  # plans that a picture shows better than a table alone
_LEFT, _TOP, _WIDE, _HIGH = 90, 46, 700, 250
_COLOURS = {False: svg.COLOURS[6], True: svg.COLOURS[5]}  # by where inputs and outputs are


def drawing(found: Curve) -> str:
    """SVG: RAM to the right, cost upwards; the same curve is the same bytes."""
    points = found.all
    across = _scale([p.ram for p in points])
    upward = _scale([found.cost(p) for p in points])
    parts = [*_axes(across, upward, found.unit)]
    for inside in (False, True):
        chain = [p for p in points if p.inside == inside]
        places = [_place(found, p, across, upward) for p in chain]
        if len(places) > 1:
            path = " ".join(f"{svg.number(x)},{svg.number(y)}" for x, y in places)
            look = {"fill": "none", "stroke": _COLOURS[inside], "stroke_width": "1.5"}
            parts.append(svg.element("polyline", points=path, **look))
    parts += [_mark(found, p, across, upward) for p in points]
    parts += _legend(found)
    title = f"RAM and {_WORDS[found.unit]} of {len(points)} plans"
    return svg.picture(_LEFT + _WIDE + 40, _TOP + _HIGH + 52, title, parts)


_WORDS = {
    "cycles": "estimated cycles",
    "instructions": "instructions",
    "estimate": "instructions by the compiler's estimate",
}


@frozen
class _Scale:
    """A round first and last value, and the distance of its lines."""

    first: int
    last: int
    each: int

    def share(self, value: int) -> float:
        return (value - self.first) / (self.last - self.first)

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1, self.each)


def _scale(values: Sequence[int]) -> _Scale:
    """Covers the values with about five lines, whose distance is 1, 2 or 5 times a power of ten."""
    least, most = min(values), max(values)
    least, most = (least, most) if least < most else (least - 1, most + 1)
    each = max(1, (most - least) / 5)
    power = 10 ** math.floor(math.log10(each))
    distance = next(n * power for n in (1, 2, 5, 10) if n * power >= each)
    first = max(0, least - distance // 2) // distance * distance
    return _Scale(first, -(-(most + distance // 4) // distance) * distance, distance)


def _place(found: Curve, p: Point, across: _Scale, upward: _Scale) -> tuple[float, float]:
    x = _LEFT + _WIDE * across.share(p.ram)
    return x, _TOP + _HIGH * (1 - upward.share(found.cost(p)))


def _axes(across: _Scale, upward: _Scale, unit: str) -> Iterator[str]:
    base = _TOP + _HIGH
    for value in across.lines:
        x = _LEFT + _WIDE * across.share(value)
        yield svg.element("line", kind="line", x1=x, x2=x, y1=base, y2=base + 5)
        look = {"kind": "small", "text_anchor": "middle"}
        yield svg.element("text", f"{value:,}", x=x, y=base + 18, **look)
    for value in upward.lines:
        y = _TOP + _HIGH * (1 - upward.share(value))
        look = {"kind": "line", "stroke_opacity": "0.35"}
        yield svg.element("line", x1=_LEFT, x2=_LEFT + _WIDE, y1=y, y2=y, **look)
        text = {"kind": "small", "text_anchor": "end"}
        yield svg.element("text", f"{value:,}", x=_LEFT - 8, y=y + 4, **text)
    end = {"kind": "small", "text_anchor": "end"}
    label = "RAM: workspace, inputs and outputs, bytes"
    yield svg.element("text", label, x=_LEFT + _WIDE, y=base + 38, **end)
    yield svg.element("text", f"{_WORDS[unit]} of an inference", kind="small", x=8, y=_TOP - 14)


def _mark(found: Curve, p: Point, across: _Scale, upward: _Scale) -> str:
    """A dot whose tooltip says all; the module as it is has a ring."""
    x, y = _place(found, p, across, upward)
    about = f"{p.ram:,} B, {found.cost(p):,} {_WORDS[found.unit]}; layers in bands: {bands(p)}; "
    about += f"inputs and outputs {ends(p)}"
    about += f" ({p.options})" if p.options else " (as it is)"
    dot = svg.element("circle", cx=x, cy=y, r=4, fill=_COLOURS[p.inside])
    ring = {"kind": "edge", "fill": "none", "stroke_width": "1.5"}
    rings = [svg.element("circle", cx=x, cy=y, r=8, **ring)] if p is found.own else []
    return svg.element("g", inside=[svg.element("title", about), *rings, dot])


def _legend(found: Curve) -> Iterator[str]:
    """What the colours are, of those that occur, and the ring."""
    x = _LEFT + 230.0
    for inside in (False, True):
        if any(p.inside == inside for p in found.all):
            text = f"inputs and outputs {'in the workspace' if inside else 'apart'}"
            yield svg.element("circle", cx=x, cy=_TOP - 18, r=4, fill=_COLOURS[inside])
            yield svg.element("text", text, kind="small", x=x + 8, y=_TOP - 14)
            x += 30 + 5.5 * len(text)
    ring = {"kind": "edge", "fill": "none", "stroke_width": "1.5"}
    yield svg.element("circle", cx=x, cy=_TOP - 18, r=6, **ring)
    yield svg.element("text", "as it is", kind="small", x=x + 11, y=_TOP - 14)
