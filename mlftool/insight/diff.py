"""What changed between two builds: figures, layers, results, and what a caller has to change."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mlftool import table
from mlftool.errors import MlfError, Problem, did_you_mean, one_line
from mlftool.frozen import frozen, replace
from mlftool.insight import values
from mlftool.insight.facts import METRICS, Facts, LayerFacts, is_measured
from mlftool.insight.values import Change, changes
from mlftool.ir.graph import Array
from mlftool.sizes import UNIT, UNITS
from mlftool.table import Growth, Signed, Table

LAYERS = 10  # that the text shows
# A layer's count is right to within a tick of the counter; less than this is no change.
NOISE = 80


@frozen
class Figure:
    """A metric before and after; None where one side does not know it."""

    metric: str
    before: int | None
    after: int | None

    @property
    def change(self) -> int | None:
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def share(self) -> float | None:
        """The change over what it was."""
        return self.change / self.before if self.before and self.change is not None else None


@frozen
class LayerChange:
    """A layer that is new, gone, or has another kernel or cost; None where it is not."""

    name: str
    before: LayerFacts | None
    after: LayerFacts | None

    @property
    def change(self) -> int:
        """In instructions, or in multiplications where those were not counted."""
        costs = [_cost(layer) for layer in (self.before, self.after)]
        return costs[1] - costs[0]


def _cost(layer: LayerFacts | None) -> int:
    if layer is None:
        return 0
    return layer.macs if layer.instructions is None else layer.instructions


@frozen
class Difference:
    """Two builds of one thing. `results` says whether they compute the same from a pattern, None
    if that is not known; `outputs` which of these differ and `constants` which of the model's, None
    where a side does not tell them."""

    before: Facts
    after: Facts
    figures: tuple[Figure, ...]
    layers: tuple[LayerChange, ...]
    interface: tuple[str, ...]
    results: bool | None
    outputs: tuple[Change, ...] | None = None
    constants: tuple[Change, ...] | None = None


def difference(before: Facts, after: Facts) -> Difference:
    figures = tuple(Figure(m, before.figures.get(m), after.figures.get(m)) for m in METRICS)
    known = before.outputs and after.outputs and _forms(before) == _forms(after)
    return Difference(
        *(before, after, figures, tuple(_layers(before, after))),
        tuple(_interface(before.interface, after.interface)),
        before.outputs == after.outputs if known else None,
        _changes(before.results, after.results) if known else None,
        _changes(before.constants, after.constants),
    )


def _changes(
    before: Mapping[str, Array] | None, after: Mapping[str, Array] | None
) -> tuple[Change, ...] | None:
    return None if before is None or after is None else changes(before, after)


def _forms(one: Facts) -> list[tuple[str, str]]:
    """Type and shape of inputs and outputs: a pattern means the same for equal ones."""
    tensors = (*one.interface["inputs"], *one.interface["outputs"])
    return [(str(t["dtype"]), str(t["shape"])) for t in tensors]


def paired(
    old: Sequence[Facts], new: Sequence[Facts], misfits: Collection[str] = ()
) -> tuple[list[Difference], list[str]]:
    """Builds of the same name, or one and one whatever their names; and the names of those that
    only one side has. `misfits` are builds that a side has, but could not measure."""
    if len(old) == len(new) == 1 and not misfits:
        return [difference(old[0], new[0])], []
    return paired_by_name(old, new, misfits)


def paired_by_name(
    old: Sequence[Facts], new: Sequence[Facts], misfits: Collection[str] = ()
) -> tuple[list[Difference], list[str]]:
    """The same, where names say what belongs together."""
    olds, news = ({f.name: f for f in facts} for facts in (old, new))
    pairs = [difference(olds[name], f) for name, f in news.items() if name in olds]
    alone = [f"{name}: is new" for name in news if name not in {*olds, *misfits}]
    alone += [f"{name}: is gone" for name in olds if name not in {*news, *misfits}]
    return pairs, alone


def _layers(before: Facts, after: Facts) -> list[LayerChange]:
    """The greatest change first: of instructions, or where one of both was not counted, of
    multiplications."""
    counted = all(x.instructions is not None for x in (*before.layers, *after.layers))
    olds, news = (
        _named(f.layers if counted else [replace(x, instructions=None) for x in f.layers])
        for f in (before, after)
    )
    found = []
    for key in dict.fromkeys([*olds, *news]):
        one = LayerChange(key[0], olds.get(key), news.get(key))
        moved = abs(one.change) > (NOISE if counted else 0)
        if one.before is None or one.after is None or moved or _kernel(one) is not None:
            found.append(one)
    return sorted(found, key=lambda c: -abs(c.change))


def _kernel(one: LayerChange) -> tuple[str, str] | None:
    """The kernels before and after, if they are others."""
    if one.before is None or one.after is None or one.before.kernel == one.after.kernel:
        return None
    return one.before.kernel, one.after.kernel


def _named(layers: Sequence[LayerFacts]) -> dict[tuple[str, int], LayerFacts]:
    """By name and how many of that name came before: names need not be unique."""
    seen: dict[str, int] = {}
    found = {}
    for layer in layers:
        k = seen[layer.name] = seen.get(layer.name, 0) + 1
        found[layer.name, k] = layer
    return found


# What people call a tensor's keys.
_WORDS = {"c_name": "name in C", "dtype": "type", "size_bytes": "bytes", "zero_point": "zero point"}


def _interface(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What a caller has to change, as sentences."""
    for key in dict.fromkeys([*old, *new]):
        if key not in ("inputs", "outputs") and old.get(key) != new.get(key):
            yield f"{key}: {_shown(old.get(key))} -> {_shown(new.get(key))}"
    for kind in ("inputs", "outputs"):
        before, after = old[kind], new[kind]
        if len(before) != len(after):
            yield f"{kind}: {len(before)} -> {len(after)}"
        for a, b in zip(before, after, strict=False):
            changes = [
                f"{_WORDS.get(k, k)} {_shown(a.get(k))} -> {_shown(b.get(k))}"
                for k in dict.fromkeys([*a, *b])
                if a.get(k) != b.get(k)
            ]
            if changes:
                yield f"{kind[:-1]} '{a['name']}': {', '.join(changes)}{_meaning(a, b)}"


def _meaning(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What another type, scale or zero point means: zero points of unlike types do not compare."""
    (before, first), (after, second) = _real(old), _real(new)
    if not (before and after) or all(old[k] == new[k] for k in ("dtype", "scale", "zero_point")):
        return ""
    if before == after and old["scale"] == new["scale"]:
        return f"; the same real values, stored {int(second - first):+d}"
    shown = (f"{low:.6g} to {high:.6g}" for low, high in (before, after))
    return f"; real values {' -> '.join(shown)}"


def _real(tensor: Mapping[str, Any]) -> tuple[tuple[float, float] | None, int]:
    """The least and greatest value that a quantised tensor holds, and its zero point; None of
    another tensor."""
    scale, zero, name = (tensor.get(key) for key in ("scale", "zero_point", "dtype"))
    info = np.iinfo(name) if re.fullmatch(r"u?int(8|16|32)", str(name)) else None
    if info is None or not isinstance(scale, float | int) or not isinstance(zero, int):
        return None, 0
    return (scale * (int(info.min) - zero), scale * (int(info.max) - zero)), zero


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "x".join(map(str, value)) or "none"
    if isinstance(value, bool):  # 0 and 1 are zero points
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "none" if value is None else str(value)


@frozen
class Limit:
    """What makes a comparison fail: `flash>+2%` a growth, `flash>64KiB` a size."""

    text: str
    metric: str
    value: float
    grows: bool
    percent: bool


_FORM = re.compile(rf"([a-z]+) *> *(\+?) *([0-9]{{1,15}}(?:\.[0-9]{{1,6}})?) *(%|{UNIT}|)")


def limit(text: str) -> Limit:
    """Raises MlfError for anything but METRIC>[+]NUMBER[%|B|KiB|MiB]."""
    found = _FORM.fullmatch(text.strip())
    if not found or (found[4] == "%" and not found[2]):
        hint = "write a growth such as flash>+2% or flash>+512B, or a limit such as ram>64KiB"
        raise MlfError(Problem("MLF0400", f"--fail-on: got '{text}'", help=hint))
    if found[1] not in METRICS:
        hint = did_you_mean(found[1], METRICS)
        raise MlfError(Problem("MLF0400", f"--fail-on: no metric '{found[1]}'", help=hint))
    percent = found[4] == "%"
    value = float(found[3]) * (0.01 if percent else UNITS.get(found[4], 1))
    return Limit(text, found[1], value, bool(found[2]), percent)


def all_exceeded(found: Sequence[Difference], limits: Sequence[Limit]) -> Iterator[Problem]:
    """Of every build. A target without a simulated board, such as the host, is not measured: a
    limit of what only boards tell is for the other builds, if there is one."""
    known = {f.metric for d in found for f in d.figures if f.after is not None}
    for d in found:
        unmeasured = {f.metric for f in d.figures if f.before is None and f.after is None}
        left_out = unmeasured & known if not is_measured(d.after.target) else set()
        yield from exceeded(d, [one for one in limits if one.metric not in left_out])


def exceeded(found: Difference, limits: Sequence[Limit]) -> Iterator[Problem]:
    """A problem for each limit that the new build exceeds, or whose metric it does not know."""
    figures = {f.metric: f for f in found.figures}
    for one in limits:
        f = figures[one.metric]
        measured = (f.share if one.percent else f.change) if one.grows else f.after
        if one.percent and f.before == 0 and f.after == 0:
            measured = 0.0
        name = found.after.name
        words, unit = METRICS[one.metric]
        if measured is None:
            text = f"{words}: not known of both builds, so '{one.text}' cannot be checked"
            yield Problem("MLF0616", text, name, help=_remedy(found) if _unrun(found) else "")
        elif measured > one.value:
            was = f"was {f.before:,}, " if f.before is not None else ""
            text = f"{words}: {was}is {f.after:,} {unit}".rstrip() + f"{_percent(f)}; "
            text += "expected at most what "
            yield Problem("MLF0616", f"{text}'{one.text}' allows", name)


def _percent(figure: Figure) -> str:
    return "" if figure.share is None else f" ({100 * figure.share:+.1f} %)"


def text(found: Difference) -> str:
    """For people."""
    before, after = found.before, found.after
    lines = [f"{before.name} ({before.target}) -> {after.name} ({after.target})", ""]
    rows = [
        (
            ", ".join(filter(None, METRICS[f.metric])),
            f.before,
            f.after,
            _signed(f.change),
            None if f.share is None else Growth(f.share),
        )
        for f in found.figures
        if f.before is not None or f.after is not None
    ]
    lines.append(table.text(Table(("", "before", "after", "change", ""), tuple(rows))))
    if _unrun(found):
        lines.append(f"not known: what only a board tells, such as flash; {_remedy(found)}")
    same = {True: "the same bits", False: "other bits", None: _not_compared(found)}[found.results]
    lines += ["", f"outputs for one fixed input: {same}"]
    lines += values.text(found.outputs, "outputs") if found.outputs else []
    if found.constants is not None:
        lines += values.text(found.constants, "constants")
    elif found.results is False:
        lines.append("constants: not compared; archives and saved figures do not tell theirs")
    lines += [f"a caller changes {one_line(c)}" for c in found.interface] or ["interface: the same"]
    if found.layers:
        count = len(found.layers)
        first = f", the {LAYERS} greatest" if count > LAYERS else ""
        head = f"{count} of the layers changed{first}; {_unit(found)}:"
        lines += ["", head, _layer_table(found.layers[:LAYERS])]
    return "\n".join(lines)


def _unit(found: Difference) -> str:
    """What the figures of the layers that changed are."""
    layers = (*found.before.layers, *found.after.layers)
    if all(x.instructions is not None for x in layers):
        return "instructions"
    return "multiplications, since instructions of layers are not known of both"


def _not_compared(found: Difference) -> str:
    """Why the outputs are not."""
    if _forms(found.before) == _forms(found.after):
        return "not compared; they are not known of both builds"
    return "not compared; types or shapes of inputs and outputs differ"


def _unrun(found: Difference) -> list[Facts]:
    """The builds that no board ran."""
    return [f for f in (found.before, found.after) if "instructions" not in f.figures]


def _remedy(found: Difference) -> str:
    """How these are measured: a target such as the host has no simulated board of its own."""
    if all(is_measured(f.target) for f in _unrun(found)):
        return "leave --no-run out to measure it; out of --save, too"
    return "give --on BOARD, such as --on cortex-m4, to measure it; to --save, too"


def _signed(change: int | None) -> Signed | None:
    return None if change is None else Signed(change)


def _layer_table(layers: Sequence[LayerChange]) -> str:
    rows = []
    for c in layers:
        costs = (None if layer is None else _cost(layer) for layer in (c.before, c.after))
        rows.append((*costs, _signed(c.change), _kernels(c), c.name))
    return table.text(Table(("before", "after", "change", "kernel", "layer"), tuple(rows)))


def _kernels(c: LayerChange) -> str:
    if c.before is None:
        return f"new: {c.after.kernel if c.after else ''}"
    if c.after is None:
        return f"gone: {c.before.kernel}"
    changed = _kernel(c)
    return " -> ".join(changed) if changed else c.after.kernel


_COLUMNS = ("flash", "ram", "workspace", "weights", "instructions", "cycles")


def markdown(found: Sequence[Difference], alone: Sequence[str] = ()) -> str:
    """For a pull request: a line for each build in which something changed."""
    changed = [d for d in found if is_change(d)]
    rows = [(d.after.name, *(_cell(d, m) for m in _COLUMNS)) for d in changed]
    lines = []
    if rows:
        heads = ("", "flash", "RAM", "workspace", "weights", "instructions", "cycles")
        lines += [table.markdown(Table(heads, tuple(rows))), ""]
    same = len(found) - len(changed)
    if same or not found:
        lines += [f"{same} build{'s' * (same != 1)} unchanged.", ""]
    notes = [f"`{_code(name)}`" for name in alone]
    for d in changed:
        notes += [f"`{_code(d.after.name)}`: a caller changes `{_code(c)}`" for c in d.interface]
        if d.results is False:
            notes.append(f"`{_code(d.after.name)}`: computes other bits from a pattern")
        if d.constants:
            names = ", ".join(f"`{_code(c.name)}`" for c in d.constants[:3])
            more = f" and {len(d.constants) - 3} more" if len(d.constants) > 3 else ""
            notes.append(f"`{_code(d.after.name)}`: other constants: {names}{more}")
    lines += [f"- {note}" for note in notes]
    return "\n".join(lines).rstrip("\n")


def _code(text: str) -> str:
    """Text between backticks, which it cannot end."""
    return one_line(text).replace("`", "'")


def is_change(d: Difference) -> bool:
    """Whether figures, results, constants or what a caller sees are others. An estimate that one
    side lacks is no change: older baselines have none."""
    moved = any(
        f.change or ((f.before is None) != (f.after is None) and f.metric != "cycles")
        for f in d.figures
    )
    return moved or bool(d.interface) or d.results is False or bool(d.constants)


def _cell(d: Difference, metric: str) -> str:
    f = next(f for f in d.figures if f.metric == metric)
    if f.after is None:
        return "-"
    return f"{f.after:,}" + (_percent(f) if f.change else "")


def to_json(found: Difference) -> dict[str, Any]:
    """For scripts; new versions only add keys."""
    names = operator.attrgetter("name", "module", "target", "executor")
    keys = ("name", "module", "target", "executor")
    return {
        "before": dict(zip(keys, names(found.before), strict=True)),
        "after": dict(zip(keys, names(found.after), strict=True)),
        "figures": {
            f.metric: {"before": f.before, "after": f.after, "change": f.change}
            for f in found.figures
        },
        "layers": [
            {
                "name": c.name,
                "before": vars(c.before) if c.before else None,
                "after": vars(c.after) if c.after else None,
            }
            for c in found.layers
        ],
        "interface": list(found.interface),
        "same_results": found.results,
        "outputs": _listed(found.outputs),
        "constants": _listed(found.constants),
    }


def _listed(found: Sequence[Change] | None) -> list[dict[str, object]] | None:
    return None if found is None else [c.to_json() for c in found]
