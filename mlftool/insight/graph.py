"""A model as a picture: as it was read, or as it runs, with types, kernels and costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlftool.codegen.kernels import write_kernels
from mlftool.codegen.notes import quantisation
from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.insight import description, svg
from mlftool.insight.description import Description, described
from mlftool.insight.layout import ROWS, Place, placed
from mlftool.insight.profile import Profile
from mlftool.insight.storage import graph_of
from mlftool.insight.subject import Subject
from mlftool.ir.graph import Graph, Node
from mlftool.mlf import graph as graph_json
from mlftool.module import Module
from mlftool.width import how_many


@frozen
class Box:
    """A node, an input or an output. `reads` are boxes before it; `cost` is in the drawing's unit,
    None of what costs nothing, and `about` is what a tooltip says."""

    kind: str  # "node", "view", "in" or "out"
    name: str
    op: str
    type: str
    kernel: str
    about: str
    reads: tuple[int, ...]
    cost: int | None = None
    meaning: str = ""  # of its integers, such as "0.5 * (q + 3)"


@frozen
class Drawing:
    """`unit` is what costs are counted in; shares are of the `whole`, by default all boxes'."""

    title: str
    boxes: tuple[Box, ...]
    unit: str
    missing: tuple[str, ...] = ()
    whole: int | None = None


def before(subject: Subject) -> Drawing:
    """The model as it was read, one box for each node. Raises MlfError for an archive, which does
    not have it."""
    if subject.compiled is None:
        text = "the model before the passes is not in an archive"
        hint = "give the model, or a manifest's entry; without --before the module is drawn"
        raise MlfError(Problem("MLF0405", text, subject.file, help=hint))
    graph = subject.compiled.imported
    title = f"{subject.name}: the model as read, {how_many(len(graph.nodes), 'node')}"
    return Drawing(title, _boxes(graph, {}), "MACs")


def after(subject: Subject, counted: Profile | None = None) -> Drawing:
    """The module as it runs. Costs are multiplications, or instructions if they are `counted` for
    each layer."""
    target = subject.interface.target
    title = f"{subject.name} for {target}"
    if subject.compiled is None:
        said, found = (
            described(subject.record, subject.file),
            graph_of(subject.record, subject.file),
        )
        return _of_graph(title, found, said) if found else _of_archive(title, said)
    module = subject.compiled
    costs = tuple(c.instructions for c in counted.costs) if counted else ()
    known = counted if counted and None not in costs else None
    return Drawing(
        f"{title}: {how_many(len(module.program.calls), 'layer')}",
        _boxes(module.program.graph, _steps(module, costs if known else ())),
        "instructions" if known else "MACs",
        whole=known.instructions if known else None,
    )


def _of_archive(title: str, said: Description | None) -> Drawing:
    if said is None:
        return Drawing(title, (), "MACs", ("layers: the archive does not say what they are",))
    boxes = tuple(
        Box("node", n.name, n.op, "", n.kernel, f"{n.op} {n.name}", (k - 1,) if k else (), n.macs)
        for k, n in enumerate(said.nodes)
    )
    missing = "what reads what: an archive has only the order of its layers"
    return Drawing(f"{title}: {how_many(len(boxes), 'layer')}", boxes, "MACs", (missing,))


def _of_graph(title: str, graph: graph_json.Graph, said: Description | None) -> Drawing:
    """Of a graph executor's archive. TVM's do not say what the functions compute."""
    calls = [n for n in graph.nodes if n.function]
    known = said.nodes if said and len(said.nodes) == len(calls) else ()
    about = {n.name: one for n, one in zip(calls, known, strict=bool(known))}
    made: dict[int, int] = {}
    boxes: list[Box] = []
    for node in graph.nodes:
        reads = tuple(dict.fromkeys(made[e] for e in node.inputs))
        made |= dict.fromkeys(node.outputs, len(boxes))
        boxes.append(_call(node, graph, reads, about.get(node.name)))
    for k, e in enumerate(graph.heads):
        name = "output" if len(graph.heads) == 1 else f"output{k}"
        boxes.append(Box("out", name, "output", _entry(graph, e), "", name, (made[e],)))
    missing = () if known else ("what the functions compute: the archive does not say it",)
    return Drawing(f"{title}: {how_many(len(calls), 'layer')}", tuple(boxes), "MACs", missing)


def _call(
    node: graph_json.Node,
    graph: graph_json.Graph,
    reads: tuple[int, ...],
    said: description.Node | None,
) -> Box:
    type_ = ", ".join(_entry(graph, e) for e in node.outputs)
    if not node.function:
        return Box("in", node.name, "argument", type_, "", f"{node.name}: {type_}", reads)
    op, kernel = (said.op, said.kernel) if said else (node.function, "")
    name, cost = (said.name, said.macs) if said else (node.name, None)
    return Box("node", name, op, type_, kernel, f"{op} '{name}'; makes {type_}", reads, cost)


def _entry(graph: graph_json.Graph, e: int) -> str:
    entry = graph.entries[e]
    return f"{entry.dtype}[{'x'.join(map(str, entry.shape))}]"


Step = tuple[str, int]  # kernel, cost


def _steps(module: Module, instructions: Sequence[int | None]) -> dict[str, Step]:
    """By the tensor that a step makes."""
    steps = write_kernels(module.program, module.spec.module_name).steps
    costs = instructions or [s.call.kernel.macs for s in steps]
    return {
        step.call.node.result: (step.call.kernel.name, cost or 0)
        for step, cost in zip(steps, costs, strict=True)
    }


def _boxes(graph: Graph, steps: Mapping[str, Step]) -> tuple[Box, ...]:
    meanings = dict(quantisation(graph, graph.nodes))
    boxes: list[Box] = []
    made: dict[str, int] = {}
    for name in graph.inputs:
        made[name] = len(boxes)
        boxes.append(_end("in", graph, name, (), meanings))
    for node in graph.nodes:
        reads = tuple(dict.fromkeys(made[n] for n in node.inputs if n in made))
        made |= {name: len(boxes) for name in node.outputs if name}
        boxes.append(_box(graph, node, reads, steps, meanings))
    for name in graph.outputs:
        reads = (made[name],) if name in made else ()
        boxes.append(_end("out", graph, name, reads, meanings))
    return tuple(boxes)


def _end(
    kind: str, graph: Graph, name: str, reads: tuple[int, ...], meanings: Mapping[str, str]
) -> Box:
    about, type_ = _tensor(graph, name, meanings), str(graph.types[name])
    op = f"{kind}put"
    return Box(kind, name, op, type_, "", about, reads, meaning=meanings.get(name, ""))


def _box(
    graph: Graph,
    node: Node,
    reads: tuple[int, ...],
    steps: Mapping[str, Step],
    meanings: Mapping[str, str],
) -> Box:
    ops = [n.op.removeprefix("com.microsoft.") for n in node.body] or [node.op]
    kernel, cost = steps.get(node.result, ("", None))
    lines = [f"{' + '.join(ops)} '{node.name}'", *([f"kernel {kernel}"] if kernel else [])]
    words = ((w, names) for w, names in (("reads", node.inputs), ("makes", node.outputs)))
    lines += [f"{w} {_tensor(graph, n, meanings)}" for w, names in words for n in names if n]
    lines += [f"{key} = {value}" for key, value in sorted(node.attrs.items())]
    # What costs nothing: other shapes of the same bytes, and in the model as read constants.
    kind = "node" if kernel or (reads and not steps) else "view"
    type_ = str(graph.types[node.result])
    about = "; ".join(line[:200] for line in lines[:24])
    meaning = meanings.get(node.result, "")
    return Box(kind, node.name, " + ".join(ops), type_, kernel, about, reads, cost, meaning)


def _tensor(graph: Graph, name: str, meanings: Mapping[str, str]) -> str:
    meaning = f" = {meanings[name]}" if name in meanings else ""
    constant = "constant " if name in graph.consts else ""
    return f"{constant}{name}: {graph.types[name]}{meaning}"


def to_json(found: Drawing) -> dict[str, Any]:
    """The same for scripts; new versions only add keys."""
    return {
        "title": found.title,
        "unit": found.unit,
        "missing": list(found.missing),
        "boxes": [
            {
                "kind": b.kind,
                "name": b.name,
                "operators": b.op,
                "type": b.type,
                "quantisation": b.meaning,
                "kernel": b.kernel,
                "cost": b.cost,
                "reads": list(b.reads),
            }
            for b in found.boxes
        ],
    }


_WIDE, _HIGH, _GAP, _DOWN, _TOP, _LEFT = 190, 58, 20, 26, 70, 30


def drawing(found: Drawing, rows: int = ROWS) -> str:
    """SVG: data flow downwards, and on at the top of the next column. Dearer layers are darker."""
    places = placed([b.reads for b in found.boxes], rows)
    lefts, width = _columns(places)
    corners = [
        (lefts[p.column] + p.across * (_WIDE + _GAP), _TOP + p.row * (_HIGH + _DOWN))
        for p in places
    ]
    height = max((y for _, y in corners), default=_TOP) + _HIGH + 40
    whole = found.whole or sum(b.cost or 0 for b in found.boxes)
    parts = [svg.element("text", found.title, kind="title", x=16, y=28)]
    most = max((b.cost or 0 for b in found.boxes), default=0)
    legend = f"darker: more {found.unit}, of {whole:,}" if whole else ""
    parts.append(svg.element("text", "; ".join(filter(None, (legend, *found.missing))), x=16, y=48))
    for box, b in enumerate(found.boxes):
        parts += [_edge(corners[k], corners[box], places[k], places[box]) for k in b.reads]
    for b, corner in zip(found.boxes, corners, strict=True):
        parts.append(_drawn(b, corner, whole, most))
    return svg.picture(max(width, 420), height, found.title, parts)


def _columns(places: Sequence[Place]) -> tuple[list[float], float]:
    """The left edge of each column, and where the last one ends."""
    count = max((p.column for p in places), default=0) + 1
    across = [max((p.across for p in places if p.column == c), default=0) + 1 for c in range(count)]
    lefts, x = [], float(_LEFT)
    for n in across:
        lefts.append(x)
        x += n * (_WIDE + _GAP) + 40
    return lefts, x


def _edge(start: tuple[float, float], end: tuple[float, float], above: Place, below: Place) -> str:
    """From a box to one below it; around those between, and up to another column."""
    x1, y1, x2, y2 = start[0] + _WIDE / 2, start[1] + _HIGH, end[0] + _WIDE / 2, end[1]
    if above.column == below.column and below.row == above.row + 1:
        bend = f"C {_at(x1, y1 + _DOWN / 2)} {_at(x2, y2 - _DOWN / 2)} {_at(x2, y2)}"
    elif above.column == below.column:
        # On the right of what is between.
        x1, y1, x2, y2 = start[0] + _WIDE, start[1] + _HIGH / 2, end[0] + _WIDE, end[1] + _HIGH / 2
        far = max(x1, x2) + 18
        bend = f"C {_at(far, y1)} {_at(far, y2)} {_at(x2, y2)}"
    else:
        x1, y1, y2 = start[0] + _WIDE, start[1] + _HIGH / 2, end[1] + _HIGH / 2
        x2 = end[0]
        bend = f"C {_at(x1 + 30, y1)} {_at(x2 - 30, y2)} {_at(x2, y2)}"
    return svg.element("path", kind="line", d=f"M {_at(x1, y1)} {bend}", fill="none")


def _at(x: float, y: float) -> str:
    return f"{svg.number(x)},{svg.number(y)}"


_FILLS = {"in": "#cfe8f7", "out": "#cfe8f7", "view": "#eeeeee"}


def _drawn(b: Box, corner: tuple[float, float], whole: int, most: int) -> str:
    x, y = corner
    share = (b.cost or 0) / whole if whole else 0.0
    heat = _heat((b.cost or 0) / most if most else 0.0)
    look = {"kind": "edge", "fill": _FILLS.get(b.kind) or heat, "stroke_width": "0.6"}
    round_ = 22 if b.kind in ("in", "out") else 4
    inside = [
        svg.element("title", b.about + (f"; {b.cost:,} of the cost" if b.cost else "")),
        svg.element("rect", x=x, y=y, width=_WIDE, height=_HIGH, rx=round_, **look),
        *_lines(b, x, y, share),
    ]
    return svg.element("g", inside=inside)


def _lines(b: Box, x: float, y: float, share: float) -> Iterator[str]:
    cost = f"{100 * share:.1f} %" if share >= 0.0005 else ""
    room = _WIDE - 16 - 8 * len(cost)
    yield svg.element("text", svg.shortened(b.op, room), kind="in", x=x + 8, y=y + 16)
    if cost:
        last = x + _WIDE - 8
        yield svg.element("text", cost, kind="small in", x=last, y=y + 15, text_anchor="end")
    type_ = svg.shortened(b.type + (f" = {b.meaning}" if b.meaning else ""), _WIDE - 16, 9.5)
    lines = (type_, svg.shortened(b.kernel, _WIDE - 16, 9.5), svg.ending(b.name, _WIDE - 16, 9.5))
    for k, shown in enumerate(filter(None, lines)):
        yield svg.element("text", shown, kind="small in", x=x + 8, y=y + 28 + 12 * k)


def _heat(part: float) -> str:
    """From white to a warm red for a part of the dearest layer's cost, so that a picture of a
    thousand layers has dark ones; the square root, so that small parts are seen, too."""
    at = math.sqrt(part)
    return "#" + "".join(f"{round(255 + at * (c - 255)):02x}" for c in (0xE8, 0x80, 0x50))
