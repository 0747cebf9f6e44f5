"""A second generator of networks, made to differ from the first (grow.py, menu.py).

It speaks all opsets from 7 to 21 in their own spellings, all number types, ranks from 0 to 6 and
extents of zero; it repeats whole nodes, shuffles them, names tensors as exporters do or worse, and
lets the network put out whatever it has: inputs, constants, tensors that are read on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from grow import (
    Array,
    Network,
    NotThisError,
    Single,
    attributes,
    fit,
    inner_names,
    make_model,
    value_info,
)
from onnx import helper, numpy_helper
from theirs import is_fit, otherwise

F32, F64, F16 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)
SIGNED = tuple(map(np.dtype, ("int8", "int16", "int32", "int64")))
UNSIGNED = tuple(map(np.dtype, ("uint8", "uint16", "uint32", "uint64")))
BOOL = np.dtype(np.bool_)
INT64 = np.dtype(np.int64)
MOST = 2000  # elements of a tensor
STEMS = ("t", "model/layer_{}/out:0", "x.{}", "int", "{} {}", "É{}", "/", "return{}", "a-b", "%s{}")
FIRST_OPSET, LAST_OPSET = 7, 21


class Maker:
    """A network of one opset under construction. `arrays` has every tensor's value for the first
    sample; `pool` those that nodes may read."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.opset = int(rng.integers(FIRST_OPSET, LAST_OPSET + 1))
        self.arrays: dict[str, Array] = {}
        self.pool: list[str] = []
        self.inputs: list[str] = []
        self.consts: dict[str, Array] = {}
        self.nodes: list[onnx.NodeProto] = []
        self._stem = self.pick(STEMS) if self.odds(0.5) else "t"

    # Dice.

    def odds(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, choices: Sequence[Any]) -> Any:
        if not len(choices):
            raise NotThisError
        return choices[int(self.rng.integers(len(choices)))]

    def upto(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, max(low, high) + 1))

    # Tensors.

    def name(self) -> str:
        number = len(self.arrays)
        while True:
            stem = self._stem.format(number, number)
            name = stem if stem not in self.arrays else f"{stem}_{number}"
            number += 1
            if name not in self.arrays:
                return name

    def shape(self, name: str) -> tuple[int, ...]:
        return self.arrays[name].shape

    def dtype(self, name: str) -> np.dtype[Any]:
        return self.arrays[name].dtype

    def any(self, fits: Callable[[Array], bool] = lambda a: True) -> str:
        """A tensor that fits; recent ones in half of the cases."""
        found = [n for n in self.pool if fits(self.arrays[n])]
        return str(self.pick(found[-4:] if self.odds(0.5) else found))

    def real(self, *ranks: int, full: bool = True) -> str:
        """A float32, with elements unless told otherwise."""
        return self.any(
            lambda a: a.dtype == F32 and (a.size > 0 or not full) and (not ranks or a.ndim in ranks)
        )

    def const(self, value: Any, dtype: Any = np.float32) -> str:
        name = self.name()
        self.arrays[name] = self.consts[name] = np.asarray(value, dtype)
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def weights(self, *shape: int, scale: float = 1.0) -> str:
        return self.const(self.rng.normal(size=shape) * scale)

    def input(self, shape: Sequence[int], dtype: Any = F32) -> str:
        name = self.name()
        self.arrays[name] = numbers(self.rng, np.dtype(dtype), shape)
        self.inputs.append(name)
        self.pool.append(name)
        return name

    # Nodes.

    def do(self, op: str, *operands: str, outs: int = 1, domain: str = "", **attrs: Any) -> str:
        """A node; the name of its first result. Raises NotThisError if onnxruntime cannot."""
        names = []
        for _ in range(outs):
            names.append(self.name())
            self.arrays[names[-1]] = np.zeros(0)
        attrs = {k: v for k, v in attrs.items() if v is not None and v != []}
        node = helper.make_node(op, operands, names, domain=domain, **attrs)
        try:
            found = Single(node, self.arrays, {*self.consts}, self.opset).run(self.arrays)
            read = [self.arrays.get(o) for o in operands]
            if otherwise(op, self.opset, read, attrs) or not all(map(_is_good, found)):
                raise NotThisError
        except Exception as error:
            for name in names:
                del self.arrays[name]
            raise NotThisError(str(error)) from None
        self.nodes.append(node)
        self.arrays.update(zip(names, found, strict=True))
        self.pool += names
        return names[0]

    def again(self) -> None:
        """A node that is there once more, with the same operands."""
        node = self.pick(self.nodes)
        outs = len(node.output)
        self.do(node.op_type, *node.input, outs=outs, domain=node.domain, **attributes(node))

    # The end.

    def network(self, name: str) -> Network:
        read = {i for n in self.nodes for i in _read(n)}
        made = [o for n in self.nodes for o in n.output]
        outs = [o for o in made if o not in read or self.odds(0.25)]
        for source in (self.inputs, list(self.consts)):
            if source and self.odds(0.06):
                one = helper.make_node("Identity", [self.pick(source)], [self.name()])
                self.arrays[one.output[0]] = self.arrays[one.input[0]]
                self.nodes.append(one)
                outs.append(one.output[0])
        self.rng.shuffle(outs)
        used = [i for i in self.inputs if i in read or self.odds(0.2)]
        used += [n.input[0] for n in self.nodes if n.input and n.input[0] in self.inputs]
        used = list(dict.fromkeys(used))
        graph = helper.make_graph(
            self._shuffled(),
            "net",
            [value_info(i, self.arrays[i]) for i in used],
            [value_info(o, self.arrays[o]) for o in outs],
            [numpy_helper.from_array(self.arrays[c], c) for c in self.consts],
        )
        self._as_nodes(graph)
        feeds = [{i: self.arrays[i] for i in used}]
        feeds.append({i: numbers(self.rng, self.dtype(i), self.shape(i)) for i in used})
        model = make_model(graph, self.opset)
        return Network(name, model, fit(model, feeds))

    def _shuffled(self) -> list[onnx.NodeProto]:
        """The nodes in another order that is as good."""
        if self.odds(0.5):
            return self.nodes
        left, done, order = list(self.nodes), {*self.inputs, *self.consts, ""}, []
        while left:
            ready = [n for n in left if _read(n) <= done]
            order.append(self.pick(ready))
            left = [n for n in left if n is not order[-1]]
            done |= {*order[-1].output}
        return order

    def _as_nodes(self, graph: onnx.GraphProto) -> None:
        """Some constants become nodes."""
        kept = []
        for tensor in graph.initializer:
            if self.odds(0.2):
                graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], value=tensor))
            else:
                kept.append(tensor)
        del graph.initializer[:]
        graph.initializer.extend(kept)


def _is_good(array: Array) -> bool:
    return array.size <= MOST and array.dtype.kind in "fiub" and array.ndim <= 6 and is_fit(array)


def _read(node: onnx.NodeProto) -> set[str]:
    return {*node.input, *inner_names(node)}


def numbers(rng: np.random.Generator, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """Of the range of their type; floats of a few magnitudes, with ties and zeros among them."""
    if dtype.kind == "f":
        x = rng.normal(size=shape) * 10.0 ** rng.integers(-1, 2)
        x = np.where(rng.random(shape) < 0.2, np.round(x * 2) / 2, x)
        return np.asarray(x).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, size=shape)).astype(dtype)
    info = np.iinfo(dtype)
    low, high = max(int(info.min), -1000), min(int(info.max), 1000)
    return np.asarray(rng.integers(low, high + 1, size=shape)).astype(dtype)
