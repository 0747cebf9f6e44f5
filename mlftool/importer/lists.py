"""What the rules of sequences.py are made of, and what of sequences depends on values at run time:
elements that are chosen among several, parts of computed sizes, lengths.

Elements lie in boxes with symbols (extents.py). A sequence whose length is known at run time only
has the elements of the longest that it can be; `Scope.lengths` names the int32 that holds how
many there are, -1 if it is an optional that holds nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from mlftool.importer.functions import renamed_copy
from mlftool.importer.graphs import add_initializer, ordered
from mlftool.importer.structure import free_names, unread_names
from mlftool.ir.dtype import int32
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.scope import EXTENTS, Refuse, Replace, Scope, Symbols, Work
from mlftool.onnx_rules.steps import Steps, standing_for

INDEX = TensorType(int32, ())
LONGEST_PREFIX = 120  # of names in a subgraph


def same(scope: Scope, source: str, out: str) -> None:
    """`out` is what `source` is."""
    if source in scope.sequences:
        scope.sequences[out] = scope.sequences[source]
        if source in scope.lengths:
            scope.lengths[out] = scope.lengths[source]
    elif source in scope.absent:
        scope.absent.add(out)
    elif source in scope.consts:
        scope.add_const(out, scope.consts[source])
    elif source in scope.types:  # else its producer had a problem, which is listed already
        scope.types[out] = scope.types[source]
        if symbols := scope.symbols_of(source):
            scope.symbols[out] = symbols
        scope.nodes.append(Node("Identity", (source,), (out,), {}, out))


def joined(scope: Scope, held: Sequence[str], out: str, axis: int, new: bool) -> Replace:
    """Concat along an axis of the elements, or along a new one."""
    parts = list(held)
    if new:
        for k, name in enumerate(held):
            type_ = scope.types[name]
            at = axis % (len(type_.shape) + 1)
            grown = TensorType(type_.dtype, (*type_.shape[:at], 1, *type_.shape[at:]))
            symbols = scope.extents_of(name)
            parts[k] = reshaped(scope, name, grown, (*symbols[:at], "", *symbols[at:]))
    return Replace([helper.make_node("Concat", parts, [out], axis=axis)])


def reshaped(scope: Scope, name: str, type_: TensorType, symbols: Symbols) -> str:
    """A tensor with an axis of extent 1 more or less."""
    made = scope.fresh(f"{name}.view")
    if name in scope.consts:
        scope.add_const(made, scope.consts[name].reshape(type_.shape))
    else:
        scope.types[made] = type_
        scope.symbols.update({made: symbols} if any(symbols) else {})
        scope.nodes.append(Node("Reshape", (name,), (made,), {}, made))
    return made


def spliced(
    scope: Scope, body: GraphProto, inputs: Sequence[str], prefix: str, where: str
) -> Work[list[str] | None]:
    """Import the nodes of a subgraph as if they stood here; the names of its outputs, None after a
    problem. Messages say `where` the subgraph is."""
    if len(body.input) != len(inputs):
        raise Refuse("MLF0303", f"its body takes {len(body.input)} values; expected {len(inputs)}")
    names = dict(zip((i.name for i in body.input), inputs, strict=True))
    stored = [t.name for t in body.initializer]
    given = {*names, *stored, *free_names(body)}
    own = stored + [n for node in body.node for n in node.output]
    prefix = _brief(prefix)
    while not scope.names.isdisjoint(f"{prefix}{name}" for name in own):
        prefix += "_"
    names |= {name: f"{prefix}{name}" for name in own if name}
    before, scope = len(scope.problems), replace(scope, where=f"{scope.where}{where}: ")
    order = ordered(scope, body, given, before)
    if order is None:
        return None
    for tensor in body.initializer:
        add_initializer(scope, names.get(tensor.name, ""), tensor)
    infos = (*body.value_info, *body.output)
    scope.declared.update((names[i.name], i.type) for i in infos if i.name in names)
    scope.unread.update(names[n] for n in unread_names(body))
    yield Replace([renamed_copy(inner, lambda n: names.get(n, n)) for inner in order], scope)
    outputs = [names.get(o.name, o.name) for o in body.output]
    return None if len(scope.problems) > before else outputs


def _brief(prefix: str) -> str:
    """Itself, or what stands for it if it is long: in nested subgraphs the names that it goes
    before begin with the prefix around them, as it does, and would double at each level."""
    if len(prefix) <= LONGEST_PREFIX:
        return prefix
    digest = hashlib.sha256(prefix.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{prefix[: LONGEST_PREFIX // 2]}{digest[:16]}."


def chosen(scope: Scope, index: str, names: Sequence[str], hint: str) -> str:
    """The tensor that is number `index`, an int32, of `names`, in a box with room for each."""
    if len(set(names)) == 1:
        return names[0]
    types = [scope.types[name] for name in names]
    if len({(t.dtype, len(t.shape)) for t in types}) > 1:
        kinds = ", ".join(dict.fromkeys(map(str, types)))
        raise Refuse("MLF0302", f"chooses at run time among {kinds}; supported: one type and rank")
    rank = len(types[0].shape)
    symbols = [scope.extents_of(name) for name in names]
    axes = [
        a
        for a in range(rank)
        if any(row[a] for row in symbols) or len({t.shape[a] for t in types}) > 1
    ]
    made = scope.fresh(hint)
    box = tuple(max(extents) for extents in zip(*(t.shape for t in types), strict=True))
    scope.types[made] = TensorType(types[0].dtype, box)
    true = []
    for axis in axes:
        true.append(scope.fresh(f"{made}.extent{axis}"))
        scope.types[true[-1]] = INDEX
    if axes:
        by_axis = dict(zip(axes, true, strict=True))
        scope.symbols[made] = tuple(by_axis.get(a, "") for a in range(rank))
    extents = [-1 if s else n for row, t in zip(symbols, types, strict=True)
               for s, n in zip(row, t.shape, strict=True)]  # fmt: skip
    given = [s for row in symbols for s in row if s]
    attrs = {"count": len(names), "axes": axes, "extents": extents}
    inputs = (index, *names, *given)
    scope.nodes.append(Node("mlf.Choose", inputs, (made, *true), attrs, made))
    return made


def listed(scope: Scope, index: str, lists: Sequence[Sequence[str]], hint: str) -> list[str]:
    """The elements of the sequence that is number `index` of `lists`, as many as any has."""
    made = []
    for k in range(max(map(len, lists))):
        some = next(held[k] for held in lists if len(held) > k)
        names = [held[k] if len(held) > k else some for held in lists]
        made.append(chosen(scope, index, names, f"{hint}.item{k}"))
    return made


def inserted(
    scope: Scope, node: NodeProto, held: Sequence[str], tensor: str, position: str
) -> Work[list[str]]:
    """`held` with `tensor` at a computed position: each element is the one that stood there, the
    new one, or the one before."""
    count = len(held)
    s = _steps(scope, node)
    p = _scalar(s, position, count)
    indexes = []
    for k in range(count + 1):
        sign = s("Sign", s("Sub", s.const(k, np.int64), p))
        indexes.append(s("Cast", s("Add", sign, s.const(1, np.int64)), to=TensorProto.INT32))
    yield standing_for(scope, s.made)
    made = []
    for k, index in enumerate(indexes):
        stood = held[k] if k < count else tensor
        before = held[k - 1] if k else tensor
        made.append(chosen(scope, index, (stood, tensor, before), f"{node.output[0]}.item{k}"))
    return made


def erased(scope: Scope, node: NodeProto, held: Sequence[str], position: str) -> Work[list[str]]:
    """`held` without the element at a computed position."""
    s = _steps(scope, node)
    p = _scalar(s, position, len(held))
    indexes = []
    for k in range(len(held) - 1):
        late = s("GreaterOrEqual", s.const(k, np.int64), p)
        indexes.append(s("Cast", late, to=TensorProto.INT32))
    yield standing_for(scope, s.made)
    return [
        chosen(scope, index, held[k : k + 2], f"{node.output[0]}.item{k}")
        for k, index in enumerate(indexes)
    ]


def taken(scope: Scope, node: NodeProto, held: Sequence[str], position: str) -> Work[str]:
    """The element at a computed position."""
    s = _steps(scope, node)
    index = s("Cast", _scalar(s, position, len(held)), to=TensorProto.INT32)
    yield standing_for(scope, s.made)
    return chosen(scope, index, held, f"{node.output[0]}.item")


def _steps(scope: Scope, node: NodeProto) -> Steps:
    """For values on the way to `node`'s, whose elements will have its name and a number."""
    at = helper.make_node(node.op_type, (), [f"{node.output[0]}.at"], node.name)
    return Steps(at, [], taken=scope.names)


def _scalar(s: Steps, position: str, count: int) -> str:
    """A position, counted from the front."""
    p = s("Cast", s("Reshape", position, s.const([], np.int64)), to=TensorProto.INT64)
    below = s("Less", p, s.const(0, np.int64))
    return s("Where", below, s("Add", p, s.const(count, np.int64)), p)


def split(scope: Scope, x: str, sizes: str, axis: int, hint: str) -> tuple[list[str], str]:
    """Parts of `x` by computed sizes, and the name of how many they are, "" if that is known."""
    type_, given = scope.types[x], scope.types[sizes]
    if scope.symbols_of(x):
        raise Refuse("MLF0302", "splits a tensor whose extents are known only at run time", EXTENTS)
    n, single = type_.shape[axis], not given.shape
    # If all parts but the last are equal, part k stands after k others as long as itself.
    bounds = [n // (k + 1) for k in range(n)] if single else [n] * given.elements
    names, true = [], []
    for k, bound in enumerate(bounds):
        names.append(scope.fresh(f"{hint}.item{k}"))
        true.append(scope.fresh(f"{names[-1]}.extent"))
        shape = (*type_.shape[:axis], bound, *type_.shape[axis + 1 :])
        scope.types[names[-1]], scope.types[true[-1]] = TensorType(type_.dtype, shape), INDEX
        scope.symbols[names[-1]] = tuple(true[-1] if a == axis else "" for a in range(len(shape)))
    count = scope.fresh(f"{hint}.count") if single else ""
    if count:
        scope.types[count] = INDEX
    outputs = (*names, *true, *filter(None, [count]))
    attrs = {"axis": axis, "parts": len(names)}
    scope.nodes.append(Node("mlf.SplitAt", (x, sizes), outputs, attrs, hint))
    return names, count
