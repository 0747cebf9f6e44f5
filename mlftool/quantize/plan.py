"""A plan: the precision of each layer, the range of each stored tensor, the rounded weights."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Array
from mlftool.quantize.network import Layer, Network
from mlftool.quantize.recurrent import Way

LIMITS = {4: 7, 8: 127}  # of symmetric weights
SMALLEST = 2.0**-60  # range that is told from zero: its unit keeps accumulators' units ordinary
WIDER = 2  # times what was seen: what 16 bits hold, of which one is to spare for other samples
Range = tuple[float, float]


class Precision(StrEnum):
    """What becomes of a layer."""

    INT8 = "int8"  # activations and weights
    INT4 = "int4"  # weights; activations have 8 bits
    INT16 = "int16"  # activations; weights have 8 bits
    FLOAT = "float"

    @property
    def weight_bits(self) -> int:
        """0 for floats."""
        return {"int4": 4, "float": 0}.get(self.value, 8)


@frozen
class Scale:
    """real = scale * (stored - zero), stored in `bits` bits."""

    scale: np.float32
    zero: int
    bits: int

    @property
    def limits(self) -> tuple[int, int]:
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1


def scale_of(limits: Range, bits: int) -> Scale:
    """For reals between `limits`, which are widened to have zero: asymmetric in 8 bits, symmetric
    in 16."""
    lo, hi = min(0.0, limits[0]), max(0.0, limits[1])
    if hi - lo < SMALLEST:
        return Scale(np.float32(1), 0, bits)  # of zeros alone
    if bits == 16:
        return Scale(np.float32(max(-lo, hi) / 32767), 0, bits)
    scale = np.float32((hi - lo) / 255)
    zero = int(np.clip(np.rint(-128 - lo / float(scale)), -128, 127))
    return Scale(scale, zero, bits)


@frozen
class Weights:
    """`stored` integers of the weights' shape, `scales` float32 for each output channel (of a
    group), or one; `bias` float32, with what rounding adds on average taken off."""

    stored: Array
    scales: Array
    bias: Array | None

    def real(self, axis: int) -> Array:
        """float32, as DequantizeLinear gives them."""
        rank = self.stored.ndim
        scales = self.scales.reshape([-1 if k == axis else 1 for k in range(rank)])
        made: Array = self.stored.astype(np.float32) * scales
        return made


@frozen
class Plan:
    """`ranges` are those of 8 bits, by group; 16 bits hold WIDER times `seen`. `weights` are by
    layer and bits. `tables`: the directions of recurrent layers of which the gates are
    tables where the state is multiplied in 8 bits."""

    precisions: Mapping[str, Precision]
    ranges: Mapping[str, Range]
    seen: Mapping[str, Range]
    weights: Mapping[str, Mapping[int, Weights]]
    tables: frozenset[str] = frozenset()

    def with_precision(self, layer: str, precision: Precision) -> Plan:
        return replace(self, precisions={**self.precisions, layer: precision})

    def uniform(self, precision: Precision) -> Plan:
        return replace(self, precisions=dict.fromkeys(self.precisions, precision))

    def with_weights(self, layer: str, bits: int, weights: Weights) -> Plan:
        mine = {**self.weights[layer], bits: weights}
        return replace(self, weights={**self.weights, layer: mine})


@frozen
class Resolved:
    """A plan for a network: what each tensor is stored in."""

    net: Network
    plan: Plan

    @cached_property
    def bits(self) -> Mapping[str, int]:
        """Group -> 16 next to a layer that asks for it, 0 between float layers only, else 8. What
        no layer is next to is float where all of them are."""
        plan, net = self.plan, self.net
        near: dict[str, set[Precision]] = {g: set() for g in net.groups}
        for layer in net.layers:
            ends = net.group.get(layer.x), net.stored_by.get(layer.name)
            for group in filter(None, ends):
                near[group].add(plan.precisions[layer.name])
        common = set(plan.precisions.values())

        def bits(found: set[Precision]) -> int:
            if Precision.INT16 in found:
                return 16
            return 0 if found == {Precision.FLOAT} else 8

        return {
            group: self._of_gates(net.gates[group]) if group in net.gates else bits(found or common)
            for group, found in near.items()
        }

    def _of_gates(self, way: Way) -> int:
        narrow = {Precision.INT8, Precision.INT4}
        found = {self.plan.precisions[p.node.name] for p in way.inner}
        return 8 if way.name in self.plan.tables and found <= narrow else 0

    def scale(self, group: str) -> Scale | None:
        """What a group is stored in; None for floats."""
        bits = self.bits[group]
        if not bits:
            return None
        if bits == 16:
            low, high = self.plan.seen[group]
            return scale_of((WIDER * low, WIDER * high), bits)
        return scale_of(self.plan.ranges[group], bits)

    def read(self, layer: Layer) -> Scale | None:
        """What a layer reads: of a tensor of 16 bits, the others read 8."""
        group = self.net.group.get(layer.x)
        own = None if group is None else self.scale(group)
        if own is None or group is None or not self.plan.precisions[layer.name].weight_bits:
            return None if layer.inside else own
        if own.bits == 16 and self.plan.precisions[layer.name] is not Precision.INT16:
            return scale_of(self.plan.ranges[group], 8)
        return own

    def weights(self, layer: Layer) -> Weights | None:
        """The layer's rounded weights, in scales in which its bias fits 32 bits; None in float."""
        bits = self.plan.precisions[layer.name].weight_bits
        x = self.read(layer)
        if not bits or x is None:
            return None
        w = self.plan.weights[layer.name][bits]
        if w.bias is None or w.scales.size not in (1, w.bias.size):
            return w
        unit = w.scales.astype(np.float64) * float(x.scale)
        if np.all(np.abs(w.bias) < unit * 2**30):
            return w
        least = np.abs(w.bias).astype(np.float64) / float(x.scale) / 2**30
        least = least.max(keepdims=True) if w.scales.size == 1 else least
        scales = np.maximum(w.scales, least.astype(np.float32))
        shape = [-1 if k == layer.axis else 1 for k in range(w.stored.ndim)]
        stored = np.rint(w.real(layer.axis) / scales.reshape(shape)).astype(np.int8)
        return replace(w, stored=stored, scales=scales)

    def bias(self, layer: Layer) -> tuple[Array, Array] | None:
        """int32 and its scales, x's times the weights' in float32."""
        x, w = self.read(layer), self.weights(layer)
        if x is None or w is None or w.bias is None:
            return None
        unit = (x.scale * w.scales).astype(np.float32)
        spread = np.tile(unit, w.bias.size // unit.size) if unit.size > 1 else unit
        stored = np.clip(np.rint(w.bias / spread.astype(np.float64)), -(2**31), 2**31 - 1)
        return stored.astype(np.int32), unit
