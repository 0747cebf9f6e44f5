"""The steps from the plainest int8 plan to the best: each is kept where it measurably helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array
from mlftool.quantize.equalise import STRENGTHS, equalised, pairs, reached
from mlftool.quantize.metrics import sqnr
from mlftool.quantize.network import Layer, Network
from mlftool.quantize.plan import Plan, Precision, Range
from mlftool.quantize.ranges import WAYS, by_way, candidates
from mlftool.quantize.samples import Samples
from mlftool.quantize.studio import Studio
from mlftool.quantize.weights import adaptive, corrected, nearest

MOST_CHOICES = 80  # tensors whose ranges are chosen one by one
MOST_LAYERS = 80  # layers whose rounding and bias are judged one by one
ROOMY = "+ 10 %"
MOST_LOSS = 1.0  # dB that room for what was not seen may cost
EQUALISING = 0.5  # dB that other weights have to gain, with which layers are no longer the model's
NARROWER = 0.05  # dB that a narrower range of one tensor has to gain
FOLDS = 4  # parts of the samples, each judged with ranges of the others


@frozen
class Step:
    """What a step did, and the SQNR of the outputs after it in dB; `kept` if it helped."""

    name: str
    detail: str
    sqnr: float
    kept: bool


@frozen
class Improved:
    """A network, whose weights equalisation may have changed, its plan, and the way there."""

    net: Network
    plan: Plan
    steps: tuple[Step, ...]
    ways: Mapping[str, str]  # group -> how its range was chosen


Candidates = Mapping[str, Mapping[str, Range]]  # group -> way -> range
Tables = frozenset[str] | None  # None for all that there can be


@frozen
class _Fold:
    """Some of the samples that calibrate, and ranges by all the others."""

    studio: Studio
    found: Candidates


class _Course:
    """Where the steps are: the best plan so far.

    What a plan is worth is measured on samples that its ranges were not taken from, part by part:
    on those that they were taken from nothing is ever cut off, and too little room costs nothing.
    """

    def __init__(self, net: Network, samples: Samples, tables: Tables, more: Samples) -> None:
        self.samples, self.tables, self.more = samples, tables, more
        self.steps: list[Step] = []
        self.ways = dict.fromkeys(net.groups, "minmax")
        self.move(net)
        self.plan = plainest(net, self.found, tables)
        self.sqnr = self.measured(self.plan, self.ways)

    def move(self, net: Network) -> None:
        """To a network of other weights."""
        self.net, self.studio = net, Studio(net, self.samples)
        self.folds = _folds(self.studio)
        wide = self.more is not self.samples
        self.found = ranges_of(Studio(net, self.more) if wide else self.studio)
        self.wanted = _joined([f.studio.judged(None) for f in self.folds])

    def settle(self) -> None:
        """Ranges stay as they are, and all samples judge the rest: on a part, what ranges cut off
        is more than what weights still gain."""
        self.folds = (_Fold(self.studio, self.found),)
        self.wanted = self.studio.judged(None)
        self.sqnr = self.measured(self.plan, self.ways)

    def measured(self, plan: Plan, ways: Mapping[str, str]) -> float:
        made = []
        for fold in self.folds:
            ranges = {group: fold.found[group][way] for group, way in ways.items()}
            made.append(fold.studio.judged(replace(plan, ranges=ranges)))
        return sqnr(_joined(made), self.wanted)

    def offer(self, plan: Plan, ways: Mapping[str, str] | None = None, gain: float = 0.0) -> bool:
        """Takes a plan if it gains more than so many dB; of `ways` its ranges are."""
        ways = self.ways if ways is None else ways
        value = self.measured(plan, ways)
        if value <= self.sqnr + gain:
            return False
        self.plan, self.ways, self.sqnr = plan, dict(ways), value
        return True

    def offer_ways(self, ways: Mapping[str, str], gain: float = 0.0) -> bool:
        ranges = {group: self.found[group][way] for group, way in ways.items()}
        return self.offer(replace(self.plan, ranges=ranges), ways, gain)

    def note(self, name: str, detail: str, before: float) -> None:
        self.steps.append(Step(name, detail, self.sqnr, self.sqnr > before))


def _joined(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def plainest(net: Network, found: Candidates, tables: Tables = None) -> Plan:
    """int8 by the least and the largest value, weights to the nearest integer; gates are tables in
    the recurrent layers `tables`, by default in all."""
    seen = by_way(found, "minmax")
    weights = {x.name: {bits: nearest(net, x, bits) for bits in (8, 4)} for x in net.layers}
    layers = {x.name: Precision.INT8 for x in net.layers}
    every = frozenset(way.name for way in net.gates.values())
    return Plan(layers, seen, seen, weights, every if tables is None else tables)


def ranges_of(studio: Studio) -> dict[str, Mapping[str, Range]]:
    """Candidates for each group's range, from all tensors of the group."""
    return {group: candidates(_values(studio, group)) for group in studio.net.groups}


def _folds(studio: Studio) -> tuple[_Fold, ...]:
    """For each part of the samples the candidates of the others."""
    count = len(studio.samples)
    parts = [np.arange(k, count, FOLDS) for k in range(min(FOLDS, count))]
    others = [np.setdiff1d(np.arange(count), p) if count > 1 else p for p in parts]
    by_part: list[dict[str, Mapping[str, Range]]] = [{} for _ in parts]
    for group in studio.net.groups:
        values = _values(studio, group)
        for found, chosen in zip(by_part, others, strict=True):
            found[group] = candidates(values[chosen])
    return tuple(_Fold(studio.part(p), f) for p, f in zip(parts, by_part, strict=True))


def _values(studio: Studio, group: str) -> Array:
    """[samples, values] of all tensors of a group in the float model."""
    net = studio.net
    names = [n for n in net.group if net.group[n] == group]
    given = [studio.samples.inputs[n] for n in names if n in net.model_inputs]
    made = studio.run(None, [n for n in names if n not in net.model_inputs])
    return np.concatenate([a.reshape(len(a), -1) for a in (*given, *made.values())], axis=1)


def improved(
    net: Network, samples: Samples, tables: Tables = None, more: Samples | None = None
) -> Improved:
    """Steps by measured SQNR on `samples`; ranges are those of `more`, which are seldom cut off by
    others. `tables` as in `plainest`."""
    course = _Course(net, samples, tables, more or samples)
    course.steps.append(Step("int8", "by minimum and maximum, to nearest", course.sqnr, True))
    _equalise(course)
    _choose_ranges(course)
    course.settle()
    _round(course)
    _correct(course)
    return Improved(course.net, course.plan, tuple(course.steps), course.ways)


def _equalise(course: _Course) -> None:
    found = pairs(course.net)
    before, start = course.sqnr, (course.net, course.plan)
    if not found:
        return
    reach = reached(course.net, course.studio)
    best = (before, *start)
    for strength in STRENGTHS:
        course.move(equalised(start[0], reach, strength))
        plan = plainest(course.net, course.found, course.tables)
        value = course.measured(plan, course.ways)
        best = max(best, (value, course.net, plan), key=lambda b: b[0])
    if best[0] < before + EQUALISING:
        best = (before, *start)
    if course.net is not best[1]:
        course.move(best[1])
    course.sqnr, _, course.plan = best
    course.note(
        "equalisation", f"{len(found)} {'pair' if len(found) == 1 else 'pairs'} of layers", before
    )


def _choose_ranges(course: _Course) -> None:
    """From ranges with room: a narrower one has to gain, since other samples may be larger still
    than those of a part are beside the other parts."""
    before = course.sqnr
    every = course.net.groups
    roomy = course.offer_ways(dict.fromkeys(every, ROOMY), -MOST_LOSS)
    for way in WAYS:
        course.offer_ways(dict.fromkeys(every, way), MOST_LOSS if roomy else 0.0)
    for group in every if len(every) <= MOST_CHOICES else ():
        for way in WAYS:
            low, high = course.found[group][way]
            least, most = course.plan.ranges[group]
            if (low, high) != (least, most):
                gain = NARROWER if high - low < most - least else 0.0
                course.offer_ways({**course.ways, group: way}, gain)
    counts = {w: list(course.ways.values()).count(w) for w in WAYS}
    detail = ", ".join(f"{n} by {w}" for w, n in counts.items() if n)
    course.note("calibration", detail, before)


def _round(course: _Course) -> None:
    """Adaptive rounding in 8 and 4 bits; in 8 it is judged layer by layer."""
    before, taken = course.sqnr, 0
    single = len(course.net.layers) <= MOST_LAYERS
    whole = course.plan
    for layer in course.net.layers:
        x = course.studio.read_by(layer, whole)
        for bits in (4, 8):
            start = course.plan.weights[layer.name][bits]
            made = adaptive(course.net, layer, start, x, bits)
            if made is None:
                continue
            if bits == 4:
                made = corrected(course.net, layer, made, x)
                course.plan = course.plan.with_weights(layer.name, bits, made)
                whole = whole.with_weights(layer.name, bits, made)
            elif single:
                taken += course.offer(course.plan.with_weights(layer.name, bits, made))
            else:
                whole = whole.with_weights(layer.name, bits, made)
    if not single and course.offer(whole):
        taken = len(course.net.layers)
    course.note("adaptive rounding", f"{taken} of {len(course.net.layers)} layers", before)


def _correct(course: _Course) -> None:
    before = course.sqnr
    taken = 0
    for plan in bias_corrections(course.studio, course.plan):
        taken += course.offer(plan) if isinstance(plan, Plan) else 0
    course.note("bias correction", f"{taken} of {len(course.net.layers)} layers", before)


def bias_corrections(studio: Studio, plan: Plan) -> list[Plan]:
    """One plan: each layer's bias less what it is off by on average, layer after layer."""
    if len(studio.net.layers) > MOST_LAYERS:
        return []
    wanted = studio.with_layers(None)
    for layer in studio.net.layers:
        bits = plan.precisions[layer.name].weight_bits
        if not layer.bias or not bits:
            continue
        weights = plan.weights[layer.name][bits]
        gap = _mean(wanted[layer.y] - studio.run(plan, [layer.y])[layer.y], layer)
        assert weights.bias is not None
        # Of the gap what no other processor's last bits change: parts of a step of 8 bits.
        unit = np.exp2(np.floor(np.log2(np.abs(wanted[layer.y]).max() or 1.0))) / 2048
        bias = (weights.bias + np.rint(gap / unit) * unit).astype(np.float32)
        plan = plan.with_weights(layer.name, bits, replace(weights, bias=bias))
    return [plan]


def _mean(gap: Array, layer: Layer) -> Array:
    """By output channel of [samples, batch, channels, ...], or of rows."""
    own = gap.ndim - 1 if layer.in_rows else 2
    axes = tuple(k for k in range(gap.ndim) if k != own)
    mean: Array = gap.mean(axis=axes, dtype=np.float64)
    return mean
