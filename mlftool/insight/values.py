"""How far arrays of one build are from those of another: constants, and outputs from a pattern."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mlftool import table
from mlftool.frozen import frozen
from mlftool.ir.graph import Array, Graph
from mlftool.runtime.distance import distance
from mlftool.table import Percent, Table

SHOWN = 10


@frozen
class Change:
    """An array that differs. `before` and `after` are its type and shape, "" where it is not; of
    two that have the same shape, `differing` of `elements`, the `largest` difference and the RMSE;
    None of texts."""

    name: str
    before: str
    after: str
    elements: int = 0
    differing: int = 0
    largest: float | None = None
    rmse: float | None = None
    share: float = 0.0  # the RMSE over the root of the mean square before

    def to_json(self) -> dict[str, object]:
        keys = ("name", "before", "after", "elements", "differing")
        data = {key: getattr(self, key) or None for key in keys}
        figures = {"max_abs_difference": self.largest, "rmse": self.rmse}
        finite = {k: v if v is not None and math.isfinite(v) else None for k, v in figures.items()}
        return {**data, **finite}


def constants(graph: Graph) -> dict[str, Array]:
    """A model's constants by their names, those of its subgraphs after their node's."""
    found = dict(graph.consts)
    for node in graph.nodes:
        for key, inner in node.graphs.items():
            more = constants(inner).items()
            found |= {f"{node.name or node.result}.{key}.{name}": value for name, value in more}
    return found


def changes(before: Mapping[str, Array], after: Mapping[str, Array]) -> tuple[Change, ...]:
    """What differs, the greatest share first. Arrays of one side's names belong together if the
    other side has as many of its own, of the same types and shapes in the same order: exporters
    number anew."""
    pairs = dict(_pairs(before, after))
    found = [
        change
        for name, value in after.items()
        if (change := _change(name, before.get(pairs.get(name, "")), value))
    ]
    gone = before.keys() - set(pairs.values())
    found += [Change(name, _form(before[name]), "") for name in before if name in gone]
    return tuple(sorted(found, key=lambda c: (bool(c.before and c.after), -c.share)))


def _pairs(before: Mapping[str, Array], after: Mapping[str, Array]) -> Iterator[tuple[str, str]]:
    """Names after, and what they were called before."""
    yield from ((name, name) for name in after if name in before)
    old, new = ([n for n in a if n not in b] for a, b in ((before, after), (after, before)))
    if [_form(before[n]) for n in old] == [_form(after[n]) for n in new]:
        yield from zip(new, old, strict=True)


def _form(value: Array) -> str:
    return f"{value.dtype}[{'x'.join(map(str, value.shape))}]"


def _change(name: str, old: Array | None, new: Array) -> Change | None:
    """None if both have the same bytes."""
    if old is None:
        return Change(name, "", _form(new))
    forms = (_form(old), _form(new))
    if old.shape != new.shape:
        return Change(name, *forms)
    if old.dtype.kind in "OUS" or new.dtype.kind in "OUS":
        count = int(np.count_nonzero(old != new))
        return Change(name, *forms, old.size, count) if count else None
    if old.dtype == new.dtype and old.tobytes() == new.tobytes():
        return None
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (old, new))
    differing = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    far = distance(new, old)
    root = float(np.sqrt(far.reference / max(1, far.elements)))
    with np.errstate(invalid="ignore"):  # of infinities
        largest = float(np.max(np.abs(b - a)[differing], initial=0.0))
    share = far.rmse / root if root else float("inf") if far.rmse else 0.0
    count = int(np.count_nonzero(differing))
    return Change(name, *forms, old.size, count, largest, far.rmse, share)


def text(found: Sequence[Change], kind: str) -> list[str]:
    """Lines for people: how many, and the greatest `SHOWN` of those that both sides have."""
    both = [c for c in found if c.before and c.after]
    counts = {"differ": len(both)}
    counts |= {"new": sum(not c.before for c in found), "gone": sum(not c.after for c in found)}
    said = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
    if len(both) > SHOWN:
        said += f"; the {SHOWN} that differ most"
    lines = [f"{kind}: {said or 'the same'}"]
    return [*lines, table.text(_table(both[:SHOWN]))] if both else lines


def _table(found: Sequence[Change]) -> Table:
    rows = []
    for c in found:
        form = c.after if c.before == c.after else f"{c.before} -> {c.after}"
        far = ("-" if x is None else f"{x:.4g}" for x in (c.largest, c.rmse))
        share = None if c.rmse is None else Percent(c.share)
        counts = (c.differing, c.elements) if c.elements else (None, None)
        rows.append((c.name, form, *counts, *far, share))
    heads = ("name", "type and shape", "differ", "of", "largest", "RMSE", "RMSE / RMS")
    return Table(heads, tuple(rows))
