"""Recurrent layers in the form that is quantised: their products are layers, the rest is a Scan.

    %y, %h, %c = LSTM(%x, w, r, b)    =>    %g = Gemm(%x, w', b')             of all steps
                                            %h, %c, %y = Scan(%g) { Gemm(%h, r') ... }

What stays in float gets its operator back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    shape_inference,
)

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.quantize.prepare import attribute, inner_reads, whole

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}  # in ONNX's order: z r h, and i o f c
USUAL = {
    "RNN": (b"Tanh",),
    "GRU": (b"Sigmoid", b"Tanh"),
    "LSTM": (b"Sigmoid", b"Tanh", b"Tanh"),
}
FUNCTIONS = frozenset((b"Sigmoid", b"Tanh", b"Relu", b"HardSigmoid", b"Softsign"))
# What results are stored in as tables: steps of 1, and the least and the most of them.
LIMITS = {
    **dict.fromkeys(("Sigmoid", "HardSigmoid"), (256, 0, 255)),
    **dict.fromkeys(("Tanh", "Softsign"), (128, -128, 127)),
}
FIRST, ONE = "//first", "//one"  # [0] and [1], of what is opened
PLAIN = frozenset(("direction", "hidden_size", "linear_before_reset", "activations", "layout"))


@frozen
class Product:
    """A layer inside of a Scan: its node there, and the Scan's outputs that have what it reads and
    computes in all steps, [batch, steps, ...]."""

    node: NodeProto
    x: str
    y: str


@frozen
class Gate:
    """A tensor inside of a Scan that functions with known limits read: `functions` are their
    results and operators, `shown` is the Scan's output that has it in all steps."""

    x: str
    functions: tuple[tuple[str, str], ...]
    shown: str


@frozen
class Way:
    """One direction, a Scan of this name: `first` is the layer that multiplies the input, `inner`
    are those that multiply the state, in the order of their weights."""

    name: str
    first: str
    inner: tuple[Product, ...]
    all: str  # the hidden states, [batch, steps, hidden]
    gates: tuple[Gate, ...]  # of which the functions may be tables; none if one of them may not


@frozen
class Cell:
    """A recurrent layer that was taken apart into the nodes `made`, of which the Scans have its
    name."""

    node: NodeProto
    ways: tuple[Way, ...]
    made: frozenset[str]

    @property
    def layers(self) -> tuple[str, ...]:
        return tuple(n for w in self.ways for n in (w.first, *(p.node.name for p in w.inner)))

    def whole(self, constants: Mapping[str, Array]) -> tuple[NodeProto, dict[str, Array]]:
        """The operator again, and its weights from those of the layers."""
        node, name = NodeProto(), self.node.name
        node.CopyFrom(self.node)
        parts = [_joined(way, constants) for way in self.ways]
        names = [f"{name}_{part}" for part in "WRB"]
        node.input[1:3] = names[:2]
        node.input[3:4] = names[2:]
        values = dict(zip(names, map(np.stack, zip(*parts, strict=True)), strict=True))
        for k, given in enumerate(node.input[5:7]):
            firsts = [f"{way.name}_first_{k}" for way in self.ways]
            if given and firsts[0] in constants:
                names.append(f"{name}_before_{k}")
                node.input[5 + k] = names[-1]
                values[names[-1]] = np.stack([constants[n] for n in firsts])
        return node, values


def _joined(way: Way, constants: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """The operator's W, R and B of one direction."""
    bias = constants[f"{way.first}.bias"]
    states = [constants[f"{p.node.name}.weight"] for p in way.inner]
    later = [constants.get(f"{p.node.name}.bias", np.zeros(0, np.float32)) for p in way.inner]
    rest = np.zeros(bias.size - sum(b.size for b in later), np.float32)
    recurrent = np.concatenate([np.zeros(0, np.float32), *later, rest])[: bias.size]
    weights = np.ascontiguousarray(constants[f"{way.first}.weight"].T)
    return weights, np.concatenate([s.T for s in states]), np.concatenate([bias, recurrent])


def taken_apart(model: ModelProto) -> tuple[ModelProto, tuple[Cell, ...]]:
    """The model with each recurrent layer of constant weights and plain form in parts."""
    if not any(n.op_type in GATES for n in model.graph.node):
        return model, ()
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    typed = shape_inference.infer_shapes(made).graph
    infos = (*typed.input, *typed.value_info)
    shapes = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim]
        for i in infos
        if i.type.tensor_type.elem_type == TensorProto.FLOAT
    }
    nodes: list[NodeProto] = []
    cells = []
    for node in list(graph.node):
        if node.op_type in GATES and _is_plain(node, stored, shapes.get(node.input[0], [])):
            taker = _Taker(node, stored, shapes[node.input[0]])
            cells.append(taker.cell())
            nodes += taker.nodes
            graph.value_info.extend(taker.infos)
            graph.initializer.extend(
                numpy_helper.from_array(np.asarray(a, order="C"), n)
                for n, a in taker.constants.items()
            )
        else:
            nodes.append(node)
    copies = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    read = {i for n in graph.node for i in (*n.input, *inner_reads(n))}
    read |= {o.name for o in graph.output}
    kept = [t for t in graph.initializer if t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return made, tuple(cells)


def _is_plain(node: NodeProto, stored: Mapping[str, Array], shape: Sequence[int]) -> bool:
    """Whether what it computes is what `_Taker` writes: no peepholes, lengths, limits."""
    inputs = [*node.input, *[""] * (8 - len(node.input))]
    known = all(n in stored and stored[n].dtype == np.float32 for n in filter(None, inputs[1:4]))
    named = {a.name for a in node.attribute if a.name != "input_forget" or a.i}
    if not known or inputs[4] or inputs[7] or not named <= PLAIN or whole(node, "layout", 0):
        return False
    functions = _functions(node)
    return len(shape) == 3 and all(shape) and functions <= FUNCTIONS


def _functions(node: NodeProto) -> set[bytes]:
    given = attribute(node, "activations", ())
    assert isinstance(given, (list, tuple))
    return set(given)


class _Taker:
    """Collects the nodes and constants of one layer."""

    def __init__(self, node: NodeProto, stored: Mapping[str, Array], shape: Sequence[int]) -> None:
        self.node, self.stored, self.name = node, stored, node.name
        self.steps, self.batch, self.width = shape
        self.inputs = [*node.input, *[""] * (8 - len(node.input))]
        self.gates, self.units = GATES[node.op_type], int(stored[node.input[2]].shape[2])
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.infos: list[ValueInfoProto] = []

    def step(self, op: str, inputs: Sequence[str], out: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [out], f"{out}_{op}", **attributes))
        return out

    def constant(self, name: str, value: object, kind: type = np.int64) -> str:
        self.constants[name] = np.asarray(value, kind)
        return name

    def cell(self) -> Cell:
        name, node = self.name, self.node
        turned = self.step("Transpose", [node.input[0]], f"{name}_turned", perm=[1, 0, 2])
        flat = self.constant(f"{name}_rows", [-1, self.width])
        x = self.step("Reshape", [turned, flat], f"{name}_flat")
        way = attribute(node, "direction", b"forward")
        count = 2 if way == b"bidirectional" else 1
        ways, ends = [], []
        for d in range(count):
            made, end = self.way(x, d, back=way == b"reverse" or d == 1)
            ways.append(made)
            ends.append(end)
        self.results(ways, ends)
        return Cell(node, tuple(ways), frozenset(n.output[0] for n in self.nodes))

    def results(self, ways: list[Way], ends: list[tuple[str, ...]]) -> None:
        """The operator's outputs: Y [steps, directions, batch, hidden], the last states."""
        name, outs = self.name, [*self.node.output, "", ""]
        parts: list[tuple[str, int, list[str]]] = []
        if outs[0]:
            parts.append((outs[0], 1, []))
            for d, way in enumerate(ways):
                turned = f"{name}_{d}_steps"
                parts[0][2].append(self.step("Transpose", [way.all], turned, perm=[1, 0, 2]))
        for k, out in enumerate(outs[1:3]):
            if out:
                parts.append((out, 0, [end[k] for end in ends]))
        for out, axis, values in parts:
            place = self.constant(f"{out}_axis", [axis])
            if len(values) == 1:
                self.step("Unsqueeze", [values[0], place], out)
                continue
            wide = [self.step("Unsqueeze", [v, place], f"{v}_wide") for v in values]
            self.step("Concat", wide, out, axis=axis)

    def way(self, x: str, d: int, back: bool) -> tuple[Way, tuple[str, ...]]:
        name = f"{self.name}_reverse" if d else self.name
        w, r = (self.stored[self.inputs[k]][d] for k in (1, 2))
        rows = self.gates * self.units
        both = self.stored[self.inputs[3]][d] if self.inputs[3] else np.zeros(2 * rows, np.float32)
        body = _Body(name, self.node, r, both[rows:])
        first = f"{name}_input"
        weight = self.constant(f"{first}.weight", w.T, np.float32)
        bias = self.constant(f"{first}.bias", both[:rows] + body.early, np.float32)
        sums = self.step("Gemm", [x, weight, bias], f"{first}_sum")
        self.nodes[-1].name = first
        apart = self.constant(f"{name}_apart", [-1, self.steps, rows])
        sums = self.step("Reshape", [sums, apart], f"{name}_gates")
        states = [self.state(name, k, d) for k in body.states]
        self.constants |= body.constants
        last = tuple(f"{name}_last_{k}" for k in range(len(states)))
        outs = [*last, f"{name}_all", *body.shown]
        axes = [1] * (1 + len(body.shown))
        directions: dict[str, Any] = {
            f"scan_{of}_directions": [1] * n for of, n in _counts(body) if back
        }
        scan = helper.make_node(
            *("Scan", [*states, sums], outs, name),
            body=body.graph(),
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_output_axes=axes,
            **directions,
        )
        self.nodes.append(scan)
        shape = self.batch, self.steps, self.units
        self.infos.append(helper.make_tensor_value_info(f"{name}_all", TensorProto.FLOAT, shape))
        return Way(name, first, tuple(body.products), f"{name}_all", body.bounded()), last

    def state(self, name: str, k: int, d: int) -> str:
        """[batch, hidden] before the first step."""
        given = self.inputs[5 + k]
        if not given or given in self.stored:
            value = self.stored[given][d] if given else np.zeros((self.batch, self.units))
            return self.constant(f"{name}_first_{k}", value, np.float32)
        place = self.constant(f"{name}_first_{k}_axis", d)
        return self.step("Gather", [given, place], f"{name}_first_{k}", axis=0)


def _counts(body: _Body) -> tuple[tuple[str, int], ...]:
    return ("input", 1), ("output", 1 + len(body.shown))


class _Body:
    """One step: the next states from the last ones and the sums that the gates have of x."""

    def __init__(self, name: str, node: NodeProto, r: Array, bias: Array) -> None:
        self.name, self.op, self.units = name, node.op_type, r.shape[1]
        given = attribute(node, "activations", ())
        assert isinstance(given, (list, tuple))
        usual = USUAL[node.op_type]
        place = len(usual) if name.endswith("_reverse") and len(given) > len(usual) else 0
        self.functions = [f.decode() for f in (list(given)[place:] or usual)[: len(usual)]]
        self.states = range(2 if self.op == "LSTM" else 1)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.products: list[Product] = []
        self.gates: list[Gate] = []
        self.shown: list[str] = []
        self.inner: list[str] = []
        self.early = bias  # what is added to the sums of x
        self.r = r
        self.before = bool(whole(node, "linear_before_reset", 0))
        if self.op == "GRU" and self.before:
            self.early = np.append(bias[: 2 * self.units], np.zeros(self.units, np.float32))
        self.late = bias - self.early
        h, c, g = (f"{name}_{n}" for n in ("hidden", "cell", "sums"))
        self.given = [h, *([c] if self.op == "LSTM" else []), g]
        self.results = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self.op](h, c, g)

    def step(self, op: str, inputs: Sequence[str], label: str, **attributes: Any) -> str:
        out = f"{self.name}_{label}"
        self.nodes.append(helper.make_node(op, inputs, [out], f"{out}_{op}", **attributes))
        return out

    def product(self, x: str, label: str, rows: slice) -> str:
        """x by some rows of the weights: a layer, whose operands the Scan shows."""
        name = f"{self.name}_{label}"
        self.constants[f"{name}.weight"] = self.r[rows].T
        inputs, op = [x, f"{name}.weight"], "MatMul"
        if self.late[rows].any():
            self.constants[f"{name}.bias"] = self.late[rows]
            inputs, op = [*inputs, f"{name}.bias"], "Gemm"
        y = self.step(op, inputs, f"{label}_sum")
        layer = self.nodes[-1]
        layer.name = name
        shown = f"{name}_read", f"{name}_made"
        self.shows(zip((x, y), shown, strict=True))
        self.products.append(Product(layer, *shown))
        return y

    def shows(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Tensors and the Scan's outputs that have them."""
        for inner, out in pairs:
            self.inner.append(self.step("Identity", [inner], f"seen_{len(self.inner)}"))
            self.shown.append(out)

    def gate(self, x: str, functions: Sequence[str]) -> None:
        """`x` is what functions read, directly or in parts; of these the results."""
        made = {n.output[0]: n.op_type for n in self.nodes}
        known = tuple((f, made[f]) for f in functions)
        shown = f"{x}_seen"
        self.shows([(x, shown)])
        self.gates.append(Gate(x, known, shown))

    def bounded(self) -> tuple[Gate, ...]:
        ops = {op for gate in self.gates for _, op in gate.functions}
        return tuple(self.gates) if ops <= LIMITS.keys() else ()

    def parts(self, x: str, label: str, *gates: int) -> list[str]:
        """Parts of the last axis, each of so many gates."""
        outs = [f"{self.name}_{label}_{k}" for k in range(len(gates))]
        sizes = f"{self.name}_{label}_sizes"
        self.constants[sizes] = np.array(gates, np.int64) * self.units
        made = helper.make_node("Split", [x, sizes], outs, f"{self.name}_{label}", axis=-1)
        self.nodes.append(made)
        return outs

    def _rnn(self, h: str, c: str, g: str) -> list[str]:
        total = self.step("Add", [g, self.product(h, "state", slice(None))], "total")
        new = self.step(self.functions[0], [total], "new")
        self.gate(total, [new])
        return [self.step("Identity", [new], "next")]

    def _lstm(self, h: str, c: str, g: str) -> list[str]:
        total = self.step("Add", [g, self.product(h, "state", slice(None))], "total")
        f, act, last = self.functions
        i, o, keep, new = self.parts(total, "gate", 1, 1, 1, 1)
        i, o, keep = (self.step(f, [n], f"{n[len(self.name) + 1 :]}_open") for n in (i, o, keep))
        new = self.step(act, [new], "new")
        self.gate(total, [i, o, keep, new])
        kept = self.step("Mul", [keep, c], "kept")
        added = self.step("Mul", [i, new], "added")
        cell = self.step("Add", [kept, added], "next_cell")
        shown = self.step(last, [cell], "shown")
        self.gate(cell, [shown])
        return [self.step("Mul", [o, shown], "next"), cell]

    def _gru(self, h: str, c: str, g: str) -> list[str]:
        """Resets what the state adds to the new value after the product, or the state before."""
        f, act = self.functions
        split = 2 * self.units
        if self.before:
            early, late = self.parts(self.product(h, "state", slice(None)), "apart", 2, 1)
        else:
            early = self.product(h, "state", slice(split))
        first, second = self.parts(g, "x", 2, 1)
        total = self.step("Add", [first, early], "total")
        opened = self.step(f, [total], "open")
        self.gate(total, [opened])
        z, r = self.parts(opened, "gate", 1, 1)
        if self.before:
            added = self.step("Mul", [r, late], "reset")
        else:
            reset = self.step("Mul", [r, h], "reset")
            added = self.product(reset, "candidate", slice(split, None))
        last = self.step("Add", [second, added], "sum")
        new = self.step(act, [last], "new")
        self.gate(last, [new])
        one = f"{self.name}_one"
        self.constants[one] = np.array(1, np.float32)
        part = self.step("Mul", [self.step("Sub", [one, z], "rest"), new], "added")
        return [self.step("Add", [part, self.step("Mul", [z, h], "kept")], "next")]

    def graph(self) -> GraphProto:
        shown = self.step("Identity", [self.results[0]], "now")
        outs = [*self.results, shown, *self.inner]
        infos = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (*self.given, *outs)
        ]
        count = len(self.given)
        return helper.make_graph(self.nodes, f"{self.name}_step", infos[:count], infos[count:])


def opened(scan: NodeProto, stored: Mapping[str, TensorProto]) -> Iterator[NodeProto]:
    """Nodes before it that give each constant state of one sample the batch of the Scan's input;
    they read the constants FIRST and ONE."""
    for k, name in enumerate(scan.input[:-1]):
        if name in stored and stored[name].dims[0] == 1:
            own = [f"{name}//{part}" for part in ("shape", "batch", "rank", "opened")]
            yield helper.make_node("Shape", [scan.input[-1]], [own[0]])
            yield helper.make_node("Gather", [own[0], FIRST], [own[1]], axis=0)
            yield helper.make_node("Concat", [own[1], ONE], [own[2]], axis=0)
            yield helper.make_node("Expand", [name, own[2]], [own[3]])
            scan.input[k] = own[3]
