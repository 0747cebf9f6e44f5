"""Tensors whose extents are known only at run time, in boxes of their upper bounds: what rules do
so that a node is right on them (importer/extents.py).

An operator whose result depends on what lies beyond the extents gets its input filled with what
changes nothing: zeros for a sum, the least value for a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from onnx import NodeProto

from mlftool.frozen import frozen
from mlftool.ir import dtype
from mlftool.ir.dtype import DType
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.protos import attributes
from mlftool.onnx_rules.scope import (
    EXTENTS,
    KEEP,
    Next,
    Outcome,
    Refuse,
    Replace,
    Rule,
    Scope,
    Symbols,
)


def as_it_is(scope: Scope, node: NodeProto) -> Outcome:
    """The rule of operators that are right on boxes."""
    return Next(node)


def filled(scope: Scope, node: NodeProto, k: int, value: Any, symbols: Symbols = ()) -> TensorType:
    """Let input `k` hold `value` beyond its extents, or `symbols`; returns its type."""
    name = node.input[k]
    type_, symbols = scope.types[name], symbols or scope.symbols_of(name)
    if any(symbols):
        box = scope.fresh(f"{name}.filled")
        scope.types[box], scope.symbols[box] = type_, symbols
        axes = [a for a, s in enumerate(symbols) if s]
        inputs = (name, *(symbols[a] for a in axes))
        attrs = {"axes": axes, "value": value}
        scope.nodes.append(Node("mlf.FillBeyond", inputs, (box,), attrs, f"beyond {name}"))
        node.input[k] = box
    return type_


def whole(scope: Scope, node: NodeProto) -> Outcome:
    """The node computes the whole box of its first input; its result has the same extents on the
    same axes."""
    symbols = scope.symbols_of(node.input[0])

    def then() -> Outcome:
        for name in filter(scope.types.__contains__, node.output):
            rank = len(scope.types[name].shape)
            scope.symbols[name] = tuple((*symbols, *[""] * rank)[:rank])
        return KEEP

    return Replace((node,), scope.hiding({node.input[0]}), then)


def first_alone(rule: Rule) -> Rule:
    """The rule of operators whose other inputs say what to do with the first one. How many they
    say it of may not depend on values."""

    def checked(scope: Scope, node: NodeProto) -> Outcome:
        late = [n for n in node.input[1:] if any(scope.symbols_of(n))]
        if late:
            return Refuse("MLF0302", f"the extents of '{late[0]}' are known only at run time")
        return rule(scope, node)

    return checked


def stretched(scope: Scope, node: NodeProto, keep: int = 0) -> None:
    """Let inputs broadcast against each other whose extents are known only at run time: one that
    turns out to be 1 there is repeated. Their last `keep` axes do not broadcast."""
    ranks = [len(scope.types[name].shape) for name in node.input if name]
    for axis in range(keep + 1, max(ranks) + 1):
        own = {k: _extent(scope, name, axis) for k, name in enumerate(node.input) if name}
        wide = dict.fromkeys(e for e, _ in own.values() if e != 1)  # in order, each once
        if len(wide) < 2:
            continue
        static = [e for e in wide if isinstance(e, int)]
        symbol = "" if static else _broadcast(scope, [str(e) for e in wide])
        bound = max(static, default=max(n for _, n in own.values()))
        for k, (extent, _) in own.items():
            if isinstance(extent, str):
                node.input[k] = _stretched(scope, node.input[k], axis, bound, symbol)


def _extent(scope: Scope, name: str, axis: int) -> tuple[int | str, int]:
    """Extent and bound of an axis that is counted from the end, from 1 on."""
    shape = scope.types[name].shape
    if axis > len(shape):
        return 1, 1
    return (scope.extents_of(name)[-axis] if shape[-axis] else "") or shape[-axis], shape[-axis]


def _broadcast(scope: Scope, symbols: Sequence[str]) -> str:
    """The symbol of the extent to which these broadcast."""
    name = scope.fresh("broadcast.extent")
    scope.types[name] = TensorType(dtype.int32, ())
    scope.nodes.append(Node("mlf.BroadcastExtent", tuple(symbols), (name,), {}, name))
    return name


def _stretched(scope: Scope, name: str, axis: int, bound: int, symbol: str) -> str:
    type_, symbols = scope.types[name], list(scope.symbols_of(name))
    shape, box = list(type_.shape), scope.fresh(f"{name}.stretched")
    inputs = (name, symbols[-axis])
    shape[-axis], symbols[-axis] = bound, symbol
    scope.types[box] = TensorType(type_.dtype, tuple(shape))
    if any(symbols):
        scope.symbols[box] = tuple(symbols)
    attrs = {"axis": len(shape) - axis}
    scope.nodes.append(Node("mlf.Stretch", inputs, (box,), attrs, f"{name} broadcast"))
    return box


def filling(neutral: Callable[[DType], Any], inputs: int = 1) -> Rule:
    """The rule of operators whose first `inputs` are filled with what changes nothing."""

    def rule(scope: Scope, node: NodeProto) -> Outcome:
        for k in range(inputs):
            filled(scope, node, k, neutral(scope.types[node.input[k]].dtype))
        return Next(node)

    return first_alone(rule) if inputs == 1 else rule


def of_products(scope: Scope, node: NodeProto) -> Outcome:
    """The rule of MatMul and Gemm: batches broadcast, and a bias broadcasts to the product."""
    stretched(scope, node, keep=2)
    if len(node.input) > 2 and node.input[2]:
        attrs = attributes(node)
        columns = _extent(scope, node.input[1], 2 if attrs.get("transB") else 1)
        rows = _extent(scope, node.input[0], 1 if attrs.get("transA") else 2)
        for axis, (extent, bound) in enumerate((columns, rows), 1):
            own, _ = _extent(scope, node.input[2], axis)
            if isinstance(own, str) and own != extent:
                symbol = extent if isinstance(extent, str) else ""
                node.input[2] = _stretched(scope, node.input[2], axis, bound, symbol)
    return filling(lambda row: 0, 2)(scope, node)


ZEROS = filling(lambda row: 0)
ALONE = first_alone(as_it_is)


def each_alone(
    free: Callable[[NodeProto, int], Collection[int]],
    together: Collection[int] = (0,),
    then: Rule = as_it_is,
) -> Rule:
    """The rule of operators that compute by itself what has one place along the axes that are
    `free` of the inputs `together`: of a node and of a rank. `then`: what applies to them."""

    def rule(scope: Scope, node: NodeProto) -> Outcome:
        boxes: dict[int, str] = {}  # per axis the first input that has it
        for k, name in enumerate(node.input):
            extents = scope.extents_of(name) if name else ()
            allowed = free(node, len(extents)) if k in together else ()
            if any(symbol for a, symbol in enumerate(extents) if a not in allowed):
                text = f"an extent of '{name}' along which it computes is known only at run time"
                return Refuse("MLF0302", text, EXTENTS)
            for a in allowed if len(together) > 1 else ():
                first = boxes.setdefault(a, name)
                if (n := scope.types[name].shape[a]) != (most := scope.types[first].shape[a]):
                    text = f"'{first}' and '{name}' have up to {most} and {n} places on axis {a}"
                    return Refuse("MLF0302", f"{text}; expected as many", EXTENTS)
        return then(scope, node)

    return rule


def of_batches(*together: int, then: Rule = as_it_is) -> Rule:
    """The rule of operators that take one element of a batch after the other, on axis 0 of the
    inputs `together`."""
    return each_alone(lambda node, rank: range(min(rank, 1)), together, then)


OF_BATCHES = of_batches(0)


def _before_axis(node: NodeProto, rank: int) -> Sequence[int]:
    return range(attributes(node).get("axis", -1) % max(rank, 1))


OF_ROWS = each_alone(_before_axis)
OF_MATRICES = each_alone(lambda node, rank: range(rank - 2))
OF_MATRIX_ROWS = each_alone(lambda node, rank: range(rank - 1))


def of_integer_products(scope: Scope, node: NodeProto) -> Outcome:
    """The rule of quantised products: as MatMul's, but no element is beyond a depth."""
    stretched(scope, node, keep=2)
    return OF_MATRIX_ROWS(scope, node)


def of_all(scope: Scope, node: NodeProto) -> Outcome:
    """The rule of sums of products of elements of all inputs."""
    return filling(lambda row: 0, len(node.input))(scope, node)


def least(row: DType) -> float:
    return -math.inf if row.is_float else row.range[0]


def greatest(row: DType) -> float:
    return math.inf if row.is_float else row.range[1]


def keep_shape(scope: Scope, name: str, out: str, row: DType, part: slice = slice(None)) -> None:
    """A node that makes a vector of the true extents of `name`."""
    symbols = scope.extents_of(name)[part]
    static = [-1 if s else n for s, n in zip(symbols, scope.types[name].shape[part], strict=True)]
    scope.types[out] = TensorType(row, (len(static),))
    inputs = tuple(s for s in symbols if s)
    attrs = {"static": static, "of": name}
    scope.nodes.append(Node("mlf.Extents", inputs, (out,), attrs, f"shape of {name}"))


def counted(scope: Scope, out: str, symbols: Symbols, shape: Sequence[int], row: DType) -> None:
    """A node that multiplies extents."""
    factor = math.prod(n for s, n in zip(symbols, shape, strict=True) if not s)
    scope.types[out] = TensorType(row, ())
    inputs = tuple(s for s in symbols if s)
    scope.nodes.append(Node("mlf.Count", inputs, (out,), {"factor": factor}, out))


@frozen
class Made:
    """What a node makes whose extents depend on values: of each output, by its place, the element
    type, the bounds and the axis that has the extent, -1 if none has. The extent itself is the
    output after them, or output `extent`, whatever is left out."""

    outputs: Mapping[int, tuple[DType, tuple[int, ...], int]]
    extent: int | None = None


Maker = Callable[[Scope, NodeProto, Mapping[str, Any]], Made | Replace | None]


def static_input(scope: Scope, node: NodeProto) -> TensorType:
    """The first input's type. Raises Refuse if it has extents known only at run time."""
    if scope.symbols_of(node.input[0]):
        raise Refuse("MLF0302", "of a tensor whose extents are known only at run time", EXTENTS)
    return scope.types[node.input[0]]
