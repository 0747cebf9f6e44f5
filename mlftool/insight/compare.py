"""Layer by layer: how far a quantised model is from its float form, or a board from the host."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from mlftool import table
from mlftool.errors import MlfError, Problem, one_line
from mlftool.frontends.models import TFLite
from mlftool.frozen import field, frozen
from mlftool.insight.trace import Finished, Result, Sample, Traced, run, samples_for, traced
from mlftool.ir.graph import Array
from mlftool.module import ModuleSpec
from mlftool.quantize.factors import Factors
from mlftool.runtime.compare import compare as compared
from mlftool.runtime.distance import Distance, distance
from mlftool.runtime.execute import Place
from mlftool.table import Cell, Table
from mlftool.width import how_many

USUAL_SAMPLES = 8  # of those that there are
USUAL_SQNR = 10.0  # dB; below it a layer has gone wrong


@frozen
class Layer:
    """A layer of both sides. `other` is what the reference calls it if that is another name, `how`
    by what they were matched. `differing` elements are outside the tolerance of their type.
    `tensor` is what the layer computes, `fused` the operators of the nodes that compute it, by
    their names."""

    name: str
    tensor: str
    op: str
    other: str
    how: str
    elements: int
    largest: float
    differing: int
    distance: Distance
    fused: Mapping[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> str:
        """The names of all nodes that are computed together."""
        return " + ".join(self.fused) if all(self.fused) and self.fused else self.name

    @property
    def operators(self) -> str:
        return " + ".join(self.fused.values()) or self.op


@frozen
class Compared:
    """`unmatched` layers have no counterpart. Below an SQNR of `least` dB a layer has gone wrong;
    None where it has if it differs. `missing` is what an archive does not tell."""

    name: str
    reference: str
    layers: tuple[Layer, ...]
    unmatched: tuple[str, ...]
    least: float | None
    missing: tuple[str, ...] = ()

    @property
    def first_wrong(self) -> Layer | None:
        """The first layer, in the order in which they run, that goes wrong."""
        return next((layer for layer in self.layers if self._is_wrong(layer)), None)

    def _is_wrong(self, layer: Layer) -> bool:
        if self.least is None:
            return layer.differing > 0
        sqnr = layer.distance.sqnr
        # Of a reference that is zero everywhere, whatever is not is wrong.
        return layer.distance.error > 0 if sqnr is None else sqnr < self.least


def against(
    spec: ModuleSpec, reference: ModuleSpec, names: tuple[str, str], given: Samples, least: float
) -> Compared:
    """A model against another, both on this computer. Raises MlfError."""
    ours, theirs = traced(spec), traced(reference)
    if isinstance(ours.model, TFLite) != isinstance(theirs.model, TFLite):
        text = f"{names[1]} is of the other format, with another order of axes"
        hint = "compare an ONNX model with ONNX, and TensorFlow Lite with TensorFlow Lite"
        raise MlfError(Problem("MLF0405", text, names[0], help=hint))
    return _both(ours, theirs, names, given, least, matched(ours.results, theirs.results))


OUTPUTS_ALONE = "layers: an archive has the results of its outputs alone"


def archives_against(
    ours: Finished, theirs: Finished, names: tuple[str, str], given: Samples, least: float
) -> Compared:
    """The outputs of an archive against those of another or of a model. Raises MlfError."""
    there = {r.name: r for r in theirs.results}
    if len(ours.results) != len(there):
        text = f"{how_many(len(ours.results), 'output')}, and {names[1]} has {len(there)}"
        raise MlfError(Problem("MLF0602", f"not the same network: {text}", names[0]))
    named = all(r.name in there for r in ours.results)
    pairs: list[Pair] = []
    for r, by_order in zip(ours.results, theirs.results, strict=True):
        other = there[r.name] if named else by_order
        if _count(r) != _count(other):
            text = f"output '{r.name}' is {list(r.shape)}, '{other.name}' of {names[1]} "
            text = f"not the same network: {text}{list(other.shape)}"
            raise MlfError(Problem("MLF0602", text, names[0]))
        pairs.append((r, other, "name" if named else "order"))
    for a, b in zip(ours.inputs, theirs.inputs, strict=False):
        if a.dtype != b.dtype and None in (t.scale for t in (a, b) if t.dtype.kind in "iu"):
            text = f"input '{a.name}' is {a.dtype}, '{b.name}' of {names[1]} {b.dtype}, and no "
            text += "scale says what the integers stand for"
            raise MlfError(Problem("MLF0602", text, names[0]))
    return _both(ours, theirs, names, given, least, pairs, (OUTPUTS_ALONE,))


def _both(
    ours: Traced | Finished,
    theirs: Traced | Finished,
    names: tuple[str, str],
    given: Samples,
    least: float,
    pairs: Sequence[Pair],
    missing: tuple[str, ...] = (),
) -> Compared:
    if len(ours.inputs) != len(theirs.inputs):
        text = f"{how_many(len(ours.inputs), 'input')}, and {names[1]} has {len(theirs.inputs)}"
        raise MlfError(Problem("MLF0602", f"not the same network: {text}", names[0]))
    for a, b in zip(ours.inputs, theirs.inputs, strict=True):
        if math.prod(a.shape) != math.prod(b.shape):
            text = f"input '{a.name}' is {list(a.shape)}, '{b.name}' of {names[1]} {list(b.shape)}"
            raise MlfError(Problem("MLF0602", f"not the same network: {text}", names[0]))
    here = Place("host")
    wanted, mine = given(theirs, ours)
    if not pairs:
        raise MlfError(Problem("MLF0602", f"no layer is one of {names[1]}'s", names[0]))
    got, expected = (
        _as_float(model, run(model, here, fed)) for model, fed in ((ours, mine), (theirs, wanted))
    )
    layers = tuple(_layer(a, b, how, got, expected) for a, b, how in pairs)
    there = {a.name for a, _, _ in pairs}
    left = tuple(r.node or r.name for r in ours.results if r.name not in there)
    return Compared(names[0], names[1], layers, left, least, missing)


def on_board(spec: ModuleSpec, name: str, place: Place, given: Samples) -> Compared:
    """A model on a board against itself on this computer. Raises MlfError."""
    return _places(traced(spec), name, place, given)


def archive_on_board(found: Finished, name: str, place: Place, given: Samples) -> Compared:
    """The outputs of an archive on a board against those on this computer. Raises MlfError."""
    return _places(found, name, place, given, (OUTPUTS_ALONE,))


def _places(
    found: Traced | Finished,
    name: str,
    place: Place,
    given: Samples,
    missing: tuple[str, ...] = (),
) -> Compared:
    samples, _ = given(found, found)
    got, expected = run(found, place, samples), run(found, Place("host"), samples)
    layers = tuple(_layer(r, r, "name", got, expected) for r in found.results)
    return Compared(f"{name} on {place.target}", "this computer", layers, (), None, missing)


@frozen
class Samples:
    """Makes the samples of both models: up to `most` of a file that has either one's form, or one
    pattern."""

    arrays: Mapping[str, Array] | None
    most: int
    file: str

    def __call__(
        self, reference: Traced | Finished, ours: Traced | Finished
    ) -> tuple[list[Sample], list[Sample]]:
        """Those of the reference, and the same for ours. Raises MlfError if they fit neither."""
        if self.arrays is None:
            return _patterns(reference, ours)
        try:
            made: list[Sample] = list(self._read(reference))
        except MlfError:
            own: list[Sample] = list(self._read(ours))
            return samples_for(reference, ours, own), own
        return made, samples_for(ours, reference, made)

    def _read(self, model: Traced | Finished) -> list[dict[str, Array]]:
        from mlftool.runtime.vectors import samples_of

        assert self.arrays is not None
        return samples_of(self.arrays, model.inputs, self.file)[: self.most]


def _patterns(
    reference: Traced | Finished, ours: Traced | Finished
) -> tuple[list[Sample], list[Sample]]:
    """One sample of each. Where an input of ours is quantised, all of its integers: what they
    stand for is what the model was quantised for."""
    if any(t.scale is not None for t in ours.inputs):
        own = [_pattern(ours)]
        return samples_for(reference, ours, own), own
    made = [_pattern(reference)]
    return made, samples_for(ours, reference, made)


def _pattern(model: Traced | Finished) -> Sample:
    """Values between -2 and 2, or all values of 8-bit integers."""
    sample = {}
    for t in model.inputs:
        steps = np.arange(math.prod(t.shape), dtype=np.int64) * 37 % 256
        values = steps / 64.0 - 2.0 if np.dtype(t.dtype).kind == "f" else steps
        sample[t.name] = values.astype(t.dtype).reshape(t.shape)
    return sample


Pair = tuple[Result, Result, str]


def matched(ours: Sequence[Result], theirs: Sequence[Result]) -> list[Pair]:
    """Which layers are the same: by the tensor's name, else by the node's, else by kind, shape and
    order between those that are known."""
    found: dict[str, tuple[Result, str]] = {}
    free = {r.name: r for r in theirs}
    ways = ("name", "meant", "meant"), ("name", "name", "meant"), ("node", "node", "node")
    for how, mine, key in ways:
        known = {getattr(r, key): r for r in free.values() if getattr(r, key)}
        for r in ours:
            other = known.get(getattr(r, mine))
            if r.name in found or other is None or _count(r) != _count(other):
                continue
            found[r.name] = other, how
            free.pop(other.name, None)
    layers = {(other.node, other.kind) for other, _ in found.values() if other.node}
    left = _lasts(r for r in free.values() if (r.node, r.kind) not in layers)
    rest = [r for r in ours if r.name not in found]
    signs, others = ([(r.kind, _count(r)) for r in side] for side in (rest, left))
    for a, b, size in SequenceMatcher(None, signs, others, autojunk=False).get_matching_blocks():
        found |= {rest[a + k].name: (left[b + k], "order") for k in range(size)}
    meant = {r.meant for r in ours}
    by_name = {r.name: r for r in theirs}
    return [
        (r, _cut(found[r.name][0], by_name, meant), found[r.name][1])
        for r in ours
        if r.name in found
    ]


def _lasts(results: Iterable[Result]) -> list[Result]:
    """The last result of each layer: after its activation."""
    return list({(r.node or r.name, r.kind): r for r in results}.values())


def _count(r: Result) -> int:
    return math.prod(r.shape)


def _cut(other: Result, by_name: Mapping[str, Result], meant: set[str]) -> Result:
    """A quantiser leaves out an activation that its limits imply: then what follows is meant."""
    return by_name[other.cut] if other.cut in by_name and other.cut not in meant else other


def _as_float(
    found: Traced | Finished, results: Sequence[Mapping[str, Array]]
) -> Sequence[Mapping[str, Array]]:
    """What a quantiser equalised, in the units of the float model."""
    if isinstance(found, Finished) or not found.factors:
        return results
    return [
        {r.name: _undone(found.factors.get(r.meant), made[r.name], r) for r in found.results}
        for made in results
    ]


def _undone(factors: Factors | None, values: Array, result: Result) -> Array:
    return values if factors is None else factors.undone(values, result.shape)


def _layer(
    ours: Result,
    theirs: Result,
    how: str,
    got: Sequence[Mapping[str, Array]],
    expected: Sequence[Mapping[str, Array]],
) -> Layer:
    whole, largest, differing = Distance(), 0.0, 0
    for a, b in zip(got, expected, strict=True):
        mine, wanted = a[ours.name].reshape(-1), b[theirs.name].reshape(-1)
        whole += distance(mine, wanted)
        one = compared([{"": mine}], [{"": wanted}])
        largest, differing = max(largest, one.max_abs_error), differing + one.mismatches
    name, other = ours.node or ours.name, theirs.node or theirs.name
    other = "" if other == name else other
    size = whole.elements
    return Layer(name, ours.name, ours.op, other, how, size, largest, differing, whole, ours.fused)


HEADS = ("order", "largest error", "RMSE", "cosine", "SQNR dB", "elements", "operators", "layer")


def text(found: Compared) -> str:
    """For people."""
    often = Counter((layer.nodes, layer.operators) for layer in found.layers)
    rows = tuple(
        _row(k, layer, often[layer.nodes, layer.operators] > 1)
        for k, layer in enumerate(found.layers)
    )
    lines = [f"{found.name} against {found.reference}", "", table.text(Table(HEADS, rows)), ""]
    lines += [f"not matched: {', '.join(map(one_line, found.unmatched))}"] * bool(found.unmatched)
    lines += [f"not known: {what}" for what in found.missing]
    return "\n".join([*lines, verdict(found)])


def _row(order: int, layer: Layer, repeated: bool) -> tuple[Cell, ...]:
    """`repeated` names get their tensor's."""
    d = layer.distance
    name = f"{layer.nodes}: {layer.tensor}" if repeated else layer.nodes
    name = f"{name} ({layer.other})" if layer.other else name
    cosine = "-" if d.cosine is None else f"{d.cosine:.6f}"
    sqnr = "-" if d.sqnr is None else "exact" if d.sqnr == math.inf else f"{d.sqnr:.1f}"
    errors = f"{layer.largest:.4g}", f"{d.rmse:.4g}"
    return (order, *errors, cosine, sqnr, layer.elements, layer.operators, name)


def verdict(found: Compared) -> str:
    """The first layer that goes wrong, in a sentence."""
    wrong = found.first_wrong
    kind = "output" if found.missing else "layer"
    if wrong is None:
        if found.least is None:
            count = len(found.layers)
            return f"all {count} {kind}s agree" if count > 1 else f"the only {kind} agrees"
        return f"no {kind} is below {found.least:g} dB"
    name, sqnr = f"'{one_line(wrong.name)}' ({wrong.op})", wrong.distance.sqnr
    if found.least is None:
        text = f"first {kind} that differs: {name}: {wrong.differing} of {wrong.elements} elements"
        return f"{text}, by up to {wrong.largest:.4g}"
    at = found.layers.index(wrong)
    before = found.layers[at - 1].distance.sqnr if at else None
    text = "a reference of zeros" if sqnr is None else f"{sqnr:.1f} dB"
    came = (
        "" if before is None or math.isinf(before) else f"; the {kind} before has {before:.1f} dB"
    )
    return f"first {kind} below {found.least:g} dB: {name}: {text}{came}"


def to_json(found: Compared) -> dict[str, Any]:
    """The same for scripts; new versions only add keys. What is infinite is null."""
    wrong = found.first_wrong
    return {
        "name": found.name,
        "reference": found.reference,
        "least_sqnr": found.least,
        "first_wrong": None if wrong is None else wrong.name,
        "unmatched": list(found.unmatched),
        "missing": list(found.missing),
        "layers": [
            {
                "name": layer.name,
                "tensor": layer.tensor,
                "reference": layer.other or layer.name,
                "operator": layer.op,
                "operators": list(layer.fused.values()) or [layer.op],
                "nodes": [name for name in layer.fused if name],
                "matched_by": layer.how,
                "elements": layer.elements,
                "differing": layer.differing,
                "max_abs_error": _finite(layer.largest),
                "rmse": _finite(layer.distance.rmse),
                "cosine": layer.distance.cosine,
                "sqnr": _finite(layer.distance.sqnr),
            }
            for layer in found.layers
        ],
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
