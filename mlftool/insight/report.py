"""One self-contained HTML page about a module: figures, accuracy, layers, memory, drawing."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from mlftool.errors import MlfError, one_line
from mlftool.frozen import frozen
from mlftool.insight import curve, graph, memmap, svg
from mlftool.insight.facts import on_board
from mlftool.insight.layout import ROWS
from mlftool.insight.profile import Profile, by_cost, profile
from mlftool.insight.subject import Subject, board_for
from mlftool.insight.whole import Whole
from mlftool.mlf.bundle import tar_bytes
from mlftool.runtime import toolchain
from mlftool.runtime.boards import Board
from mlftool.runtime.compare import Comparison, compare
from mlftool.runtime.execute import Place, execute
from mlftool.runtime.vectors import Array
from mlftool.table import Growth, Percent, shown
from mlftool.targets import TARGETS
from mlftool.version import VERSION

LARGEST_DRAWING = 500_000  # bytes, of a page of a megabyte
MOST_LAYERS = 400  # in the table, the dearest

Sample = dict[str, Array]


@frozen
class Accuracy:
    """How outputs on the board compare with those that were expected, of so many samples."""

    samples: int
    comparison: Comparison


@frozen
class Report:
    """All that the page shows. `figures` are of the whole, `missing` what is not known and why;
    `plans` is None where they were not asked for."""

    subject: Subject
    figures: dict[str, int]
    profile: Profile | None
    accuracy: Accuracy | None
    commands: tuple[str, ...]
    missing: tuple[str, ...]
    plans: curve.Curve | None = None
    tools: tuple[str, ...] = ()  # what compiled and ran it, as each says of itself


def report(
    subject: Subject,
    wanted: str | None,
    vectors: tuple[Sequence[Sample], Sequence[Sample]] | None,
    commands: Sequence[str],
    search: bool = True,
) -> Report:
    """Measures a module on its board. Without one, what is known without it. With `search`, also
    what it takes with less RAM. Raises MlfError."""
    interface = subject.interface
    figures = {
        **subject.memory,
        "inputs and outputs": sum(t.size_bytes for t in (*interface.inputs, *interface.outputs)),
    }
    figures |= {"state": interface.state_bytes} if interface.state_bytes else {}
    missing = [] if subject.memory else ["workspace and weights: the archive does not tell them"]
    costs = accuracy = None
    try:
        board = board_for(interface.target, wanted, subject.file)
    except MlfError as error:
        if wanted is not None:
            raise
        board = None
        missing.append(f"instructions, flash and RAM: {error.problems[0].message}")
    if board is not None:
        figures |= on_board(subject, board, estimate=True)[0]
        whole = Whole(figures["instructions"], figures.get("cycles"))
        costs = profile(subject, wanted, whole=whole)
        missing += costs.missing
    if vectors is not None:
        given, expected = vectors
        place = Place(board.target, board) if board else Place("host")
        ran, _ = execute(subject.bundle, interface, place, given)
        compared = compare(ran.outputs, expected, *subject.tolerance)
        accuracy = Accuracy(len(given), compared)
    plans = curve.curve(subject, board, figures) if search else None
    if isinstance(plans, str):
        missing.append(f"the cost of less RAM: {plans}")
        plans = None
    return Report(
        subject, figures, costs, accuracy, tuple(commands), tuple(missing), plans, _tools(board)
    )


def _tools(board: Board | None) -> tuple[str, ...]:
    """The compiler and the simulator with their versions. Raises MlfError if one is missing."""
    if board is None:
        return ()
    compiler = toolchain.compiler_of(TARGETS[board.target])
    programs = (compiler, toolchain.simulator_of(board.simulator))
    said = (toolchain.identity(toolchain.find(p)[:1]).splitlines() for p in programs)
    return tuple(lines[1] for lines in said if len(lines) > 1)


def page(found: Report) -> str:
    """The page: the same report is the same bytes. It needs no script, no network and no fonts."""
    subject = found.subject
    interface = subject.interface
    plan = memmap.memory_map(subject, False)
    drawn = _drawn(_graph(found))
    too_large = len(drawn.encode()) > LARGEST_DRAWING
    costs = by_cost(found.profile) if found.profile else []
    return _template().render(
        title=f"{one_line(subject.name)} on {interface.target}",
        version=VERSION,
        interface=interface,
        board=found.profile.board if found.profile else "",
        flags=found.profile.flags if found.profile else "",
        figures=[
            ("RAM" if name == "ram" else name, *_sizes(name, value))
            for name, value in _ordered(found.figures)
        ],
        accuracy=found.accuracy,
        layers=costs[:MOST_LAYERS],
        most_bars=MOST_BARS,
        shown_share=_share_of_bars(found.profile),
        more=max(0, len(costs) - MOST_LAYERS),
        whole=found.profile,
        kernels=_kernels(found.profile) if found.profile else [],
        bars=Markup(_bars(found.profile)) if costs and costs[0].instructions else "",
        memory=Markup(memmap.drawing(plan)) if plan.plan else "",
        plans=_plans(found.plans) if found.plans else [],
        unit=found.plans.unit if found.plans else "",
        curve=_curve(found.plans),
        drawing="" if too_large else Markup(drawn),
        commands=found.commands,
        missing=[*found.missing, *plan.missing],
        hashes=_hashes(subject),
        tools=found.tools,
    )


def _drawn(found: graph.Drawing) -> str:
    """In columns of so few rows that the whole is about as wide as a page is high."""
    rows = math.ceil(math.sqrt(2.2 * len(found.boxes)))
    return graph.drawing(found, min(max(rows, 8), ROWS))


def _breakable(text: str) -> Markup:
    """A name or list of operators, which a narrow column may break where its words end."""
    return Markup(re.sub(r"(?<=[._/+])(?=\w)|(?<=[a-z])(?=[A-Z])", "<wbr>", str(escape(text))))


def _graph(found: Report) -> graph.Drawing:
    return graph.after(found.subject, found.profile)


_ORDER = ("instructions", "cycles", "flash", "ram", "stack", "workspace", "weights", "code")


def _ordered(figures: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(figures.items(), key=lambda f: _ORDER.index(f[0]) if f[0] in _ORDER else 99)


def _sizes(name: str, value: int) -> tuple[str, str]:
    """The figure, and the same in KiB or millions; of less the figure alone."""
    if name in ("instructions", "cycles"):
        how = "estimated" if name == "cycles" else "an inference"
        between = ", " if name == "cycles" else " "
        return f"{value:,}", f"{value / 1e6:.2f} million{between}{how}" if value >= 1e6 else how
    return f"{value:,} B", f"{value / 1024:.1f} KiB" if value >= 1024 else ""


@frozen
class Kind:
    """All layers that one kernel computes."""

    kernel: str
    layers: int
    instructions: int
    macs: int
    code_bytes: int


def _kernels(whole: Profile) -> list[Kind]:
    """The kernels, the dearest first; none where the archive does not say what they took."""
    if any(c.instructions is None for c in whole.costs):
        return []
    found = []
    for name in dict.fromkeys(c.layer.kernel for c in whole.costs):
        of = [c for c in whole.costs if c.layer.kernel == name]
        code = {c.layer.function: c.code_bytes for c in of}
        counts = sum(c.instructions or 0 for c in of), sum(c.layer.macs or 0 for c in of)
        found.append(Kind(name, len(of), *counts, sum(code.values())))
    return sorted(found, key=lambda k: (-k.instructions, k.kernel))


_WIDE, _HIGH = 900, 18
MOST_BARS = 30


def _bars(whole: Profile | None) -> str:
    """A bar for each of the dearest layers."""
    assert whole is not None
    costs = [c for c in by_cost(whole) if c.instructions][:MOST_BARS]
    most = max(c.instructions or 0 for c in costs)
    parts = []
    for k, c in enumerate(costs):
        n, y = c.instructions or 0, 10 + k * (_HIGH + 4)
        width = max(1.0, 520 * n / most)
        label = svg.ending(one_line(c.layer.name or c.layer.function), 240)
        parts.append(svg.element("text", label, x=248, y=y + 13, text_anchor="end"))
        look = {"fill": svg.COLOURS[5], "fill_opacity": "0.8"}
        parts.append(svg.element("rect", x=256, y=y, width=width, height=_HIGH, **look))
        share = f"{n:,}  {100 * n / whole.instructions:.1f} %"
        parts.append(svg.element("text", share, kind="small", x=262 + width, y=y + 13))
    title = f"instructions of the {len(costs)} dearest layers"
    return svg.picture(_WIDE, 20 + len(costs) * (_HIGH + 4), title, parts)


def _curve(found: curve.Curve | None) -> Markup:
    worth = found is not None and len(found.all) >= curve.FEWEST
    return Markup(curve.drawing(found)) if found and worth else Markup()


def _plans(found: curve.Curve) -> list[dict[str, Any]]:
    """A line for each plan: how it differs from the module as it is, and the options for it."""
    own = found.own
    return [
        {
            "point": p,
            "own": p is own,
            "ram": Growth(p.ram / own.ram - 1) if own.ram else None,
            "cost": Growth(found.cost(p) / found.cost(own) - 1) if found.cost(own) else None,
            "bands": curve.bands(p),
            "ends": curve.ends(p),
            "options": [f"--{option.strip()}" for option in p.options.split("--")[1:]],
        }
        for p in found.all
    ]


def _share_of_bars(whole: Profile | None) -> float | None:
    """What part of the instructions the bars are of; None if they are of all layers."""
    if whole is None or not whole.instructions or len(whole.costs) <= MOST_BARS:
        return None
    drawn = by_cost(whole)[:MOST_BARS]
    return sum(c.instructions or 0 for c in drawn) / whole.instructions


def _hashes(subject: Subject) -> list[tuple[str, str]]:
    """SHA-256 of the model, as it is in one file, and of the archive."""
    found = []
    if subject.compiled is not None:
        found.append(("model", subject.compiled.options.model_sha256))
    return [*found, ("archive", hashlib.sha256(tar_bytes(subject.bundle)).hexdigest())]


def _template() -> jinja2.Template:
    text = (Path(__file__).parent / "report.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"shown": shown, "line": one_line, "breakable": _breakable}
    environment.filters["share"] = lambda part: shown(Percent(part))
    return environment.from_string(text)


def to_json(found: Report) -> dict[str, Any]:
    """The figures for scripts; new versions only add keys."""
    accuracy = found.accuracy
    return {
        "name": found.subject.name,
        "target": found.subject.interface.target,
        "figures": found.figures,
        "passed": None if accuracy is None else accuracy.comparison.passed,
        "max_abs_error": None if accuracy is None else accuracy.comparison.max_abs_error,
        "missing": list(found.missing),
        "curve": None if found.plans is None else curve.to_json(found.plans),
        "tools": list(found.tools),
        "hashes": dict(_hashes(found.subject)),
    }
