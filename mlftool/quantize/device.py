"""What a quantised model costs on a target, and what it computes there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np
from onnx import ModelProto

from mlftool.compile import compile_modules, plan_module
from mlftool.frozen import field, frozen
from mlftool.ir.graph import Array
from mlftool.module import ModuleSpec, Planned
from mlftool.quantize.network import Network, float_outputs
from mlftool.quantize.plan import Plan, Precision
from mlftool.quantize.samples import Samples
from mlftool.quantize.write import CONVERSIONS, converted, written
from mlftool.runtime.host import load_host
from mlftool.targets import Target

PRODUCER = "mlftool quantize"
_NAME = "quantized"


@frozen
class Cost:
    """Instructions of one inference, as the kernels of the target estimate them, and bytes of
    constants in flash."""

    instructions: float
    flash: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.instructions + other.instructions, self.flash + other.flash)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.instructions - other.instructions, self.flash - other.flash)


NOTHING = Cost(0.0, 0)


def total(costs: Iterable[Cost]) -> Cost:
    return sum(costs, NOTHING)


@frozen
class Device:
    """A target, and a network of which plans are made."""

    net: Network
    target: str | Target
    optimize: str = "speed"

    def costs(self, plan: Plan) -> dict[str, Cost]:
        """By the name of each call's node, or of the layer of a recurrent one; "" has what equal
        constants save by being stored once. Raises MlfError if the target cannot run the plan."""
        planned = self._planned(plan)
        found: dict[str, Cost] = {}
        for name, cost in self._billed(planned):
            found[name] = found.get(name, NOTHING) + cost
        shared = sum(c.flash for c in found.values()) - planned.constants_bytes
        return {**found, "": found.get("", NOTHING) - Cost(0.0, shared)}

    def workspace_bytes(self, plan: Plan) -> int:
        """Of RAM for what lies between inputs and outputs. Raises MlfError as `costs` does."""
        return self._planned(plan).program.memory.size_bytes

    def _planned(self, plan: Plan) -> Planned:
        model = written(self.net, plan, PRODUCER)
        return plan_module(ModuleSpec(model, _NAME, self.target, optimize=self.optimize))

    def _billed(self, planned: Planned) -> Iterator[tuple[str, Cost]]:
        """By node. Of a Scan that was a recurrent layer, by its products: the first that
        multiplies the state has what no other takes. An operator's cost is shared by weights."""
        ways = {way.name: way for cell in self.net.cells for way in cell.ways}
        cells = {cell.node.name: cell for cell in self.net.cells}
        for call in planned.program.calls:
            name, whole = call.node.name, Cost(call.kernel.cost, planned.flash_of(call))
            if name in ways and call.parts:
                inner = [(n, Cost(*each)) for n, each in planned.inside(call)]
                first, *later = (p.node.name for p in ways[name].inner)
                for other in (ways[name].first, *later):
                    nodes = {other, converted(f"{other}_x", CONVERSIONS[0])}
                    own = total(cost for n, cost in inner if n in nodes)
                    yield other, own
                    whole -= own
                yield first, whole
            elif name in cells:
                sizes = {n: self.net.constants[f"{n}.weight"].size for n in cells[name].layers}
                for layer, size in sizes.items():
                    share = size / sum(sizes.values())
                    yield layer, Cost(whole.instructions * share, round(whole.flash * share))
            else:
                yield name, whole


@frozen
class Prices:
    """What plans cost, and before they are compiled what their layers cost in other plans."""

    device: Device
    plan: Plan
    _known: dict[tuple[Precision, ...], Cost] = field(default_factory=dict, compare=False)

    @cached_property
    def table(self) -> Mapping[Precision, Mapping[str, Cost]]:
        found = {p: self.device.costs(self.plan.uniform(p)) for p in Precision}
        for precision, costs in found.items():
            key = tuple(self.plan.uniform(precision).precisions.values())
            self._known[key] = total(costs.values())
        return found

    def layer(self, name: str, precision: Precision) -> Cost:
        """Were all layers in it."""
        return self.table[precision].get(name, NOTHING)

    def most_saved(self, name: str) -> float:
        """Instructions that float may save where a layer and its neighbours are int8: those of the
        layer, and of what converts its input and its result."""
        net, whole = self.device.net, self.table[Precision.INT8]
        layer = next(x for x in net.layers if x.name == name)
        ends = {net.group.get(layer.x), net.stored_by.get(name)} - {None}
        tensors = (n for n, group in net.group.items() if group in ends)
        nodes = (converted(n, op) for n in tensors for op in CONVERSIONS)
        saved = total(whole.get(n, NOTHING) for n in nodes) + self.layer(name, Precision.INT8)
        return saved.instructions - self.layer(name, Precision.FLOAT).instructions

    def sum(self, plan: Plan) -> Cost:
        """Layers by their precision, all else as between int8 layers: what it costs to go from one
        precision to another is not counted."""
        whole = self.table[Precision.INT8]
        rest = total(cost for name, cost in whole.items() if name not in plan.precisions)
        return rest + total(self.layer(n, p) for n, p in plan.precisions.items())

    def known(self, plan: Plan) -> bool:
        """Whether it is compiled."""
        return tuple(plan.precisions.values()) in self._known

    def of(self, plan: Plan) -> Cost:
        """Of the compiled plan."""
        key = tuple(plan.precisions.values())
        if key not in self._known:
            self._known[key] = total(self.device.costs(plan).values())
        return self._known[key]


def device_outputs(model: ModelProto, samples: Samples) -> dict[str, Array]:
    """[samples, ...] of each output, computed by the compiled C on this computer, whose integers
    and floats are the device's. Raises MlfError."""
    module = load_host(compile_modules([ModuleSpec(model, _NAME)]))
    made = [
        module({name: array[k] for name, array in samples.inputs.items()})
        for k in range(len(samples))
    ]
    names = [o.name for o in float_outputs(model)]
    return {name: np.stack([m[name] for m in made]) for name in names}
