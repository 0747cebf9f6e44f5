"""Channels last: every spatial operator works on [N, H, W, C], and the transposes that buys vanish.

    %y = Conv(%x)    =>    %x' = Transpose(%x, NCHW to NHWC);  %y' = Conv(%x');  %y = Transpose(%y')

Then transposes sink through elementwise operators, meet their inverses and cancel; one that meets a
Gemm's constant weights disappears into them, one that moves no data becomes a Reshape, a view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.ops.base import Layout, Trait, contracts, is_a, record
from mlftool.passes.order import rewrite


@rewrite(after="average_to_integer")
def channels_last(graph: Graph) -> Graph:
    """All spatial operators on channels-last data, between transposes: kernels know no other."""
    e = Editor(graph)
    for node in list(e.nodes):
        if is_a(node, Trait.SPATIAL) and len(node.outputs) == 1:
            _wrap(e, node)
    return e.finish()


@rewrite(after="channels_last", level=3, tvm="AlterOpLayout ConvertLayout")
def cancel_transposes(graph: Graph) -> Graph:
    """As few transposes as these rules find."""
    e = Editor(graph)
    sinks = (_sink_through_elementwise, _sink_through_axes)
    _to_fixpoint(e, (_compose, _merge, *sinks, _into_gemm_weights))
    _to_fixpoint(e, (_renaming, _compose_reshapes, _sink_reshape))
    _to_fixpoint(e, (_move_quantised,))
    return e.finish()


_Made = tuple[str, list[Node]]  # a tensor, and the nodes that make it and have no place yet
_EACH = (Trait.ELEMENTWISE, Trait.TABLE, Trait.TOP_BIT)  # of each element alone


def _to_fixpoint(e: Editor, rules: tuple[Callable[[Editor, Node], bool], ...]) -> None:
    changed = True
    while changed:
        changed = False
        for node in list(e.nodes):
            if e.holds(node):
                changed = any(rule(e, node) for rule in rules) or changed


def _last(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _first(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _permuted(type_: TensorType, perm: list[int]) -> TensorType:
    return TensorType(type_.dtype, tuple(type_.shape[p] for p in perm))


def _transposed(e: Editor, name: str, perm: list[int], like: Node) -> tuple[str, list[Node]]:
    """A value holding `name` transposed, and the node that makes it unless it is a constant."""
    if name in e.consts:
        return e.const(name + ".t", np.ascontiguousarray(e.consts[name].transpose(perm))), []
    out = e.fresh(name + ".t", _permuted(e.types[name], perm))
    return out, [e.add("Transpose", (name,), like, out, {"perm": perm})]


def _wrap(e: Editor, node: Node) -> None:
    rank = len(e.types[node.inputs[0]].shape)
    x, before = _transposed(e, node.inputs[0], _last(rank), node)
    y = e.fresh(node.outputs[0] + ".nhwc", _permuted(e.types[node.outputs[0]], _last(rank)))
    inner = replace(node, inputs=(x, *node.inputs[1:]), outputs=(y,))
    after = e.add("Transpose", (y,), node, node.outputs[0], {"perm": _first(rank)})
    e.substitute([node], [*before, inner, after])


def _compose(e: Editor, node: Node) -> bool:
    """Transpose(Transpose(x, p), q) -> Transpose(x, p[q]), or x."""
    source = e.producer(node.inputs[0]) if is_a(node, Trait.TRANSPOSITION) else None
    if not is_a(source, Trait.TRANSPOSITION):
        return False
    perm = [source.attrs["perm"][q] for q in node.attrs["perm"]]
    if perm == sorted(perm) and node.outputs[0] not in e.outputs:
        e.remove(node)
        e.rename(node.outputs[0], source.inputs[0])
    else:
        e.substitute([node], [replace(node, inputs=source.inputs, attrs={"perm": perm})])
    return True


def _merge(e: Editor, node: Node) -> bool:
    """Of two equal transposes of a tensor the later one is the earlier one."""
    if not is_a(node, Trait.TRANSPOSITION) or node.outputs[0] in e.outputs:
        return False
    twins = _turns(e, node.inputs[0], list(node.attrs["perm"]))
    first = min(twins, key=e.position, default=node)
    if first is node or node not in twins:
        return False
    e.remove(node)
    e.rename(node.outputs[0], first.outputs[0])
    return True


def _turns(e: Editor, name: str, perm: list[int]) -> list[Node]:
    """The transposes of a tensor by this permutation that anything reads."""
    turns = (user for user in e.users(name) if is_a(user, Trait.TRANSPOSITION))
    read = (t for t in turns if e.users(t.outputs[0]) or t.outputs[0] in e.outputs)
    return [turn for turn in read if list(turn.attrs["perm"]) == perm]


def _unturned(e: Editor, name: str, perm: list[int]) -> str | None:
    """The tensor of which `name` is the transpose by `perm`, if a node makes it so."""
    producer = e.producer(name)
    if is_a(producer, Trait.TRANSPOSITION) and list(producer.attrs["perm"]) == perm:
        return producer.inputs[0]
    return None


def _turned_by_others(e: Editor, node: Node, name: str, perm: list[int]) -> _Made | None:
    """A tensor of which `name` is the transpose by `perm`, which others than `node` read already;
    where they read its integers, with the node that dequantises those."""
    back = [perm.index(k) for k in range(len(perm))]
    if made := _for_others(e, node, name, back):
        return made, []
    source = e.producer(name)
    if not is_a(source, Trait.DEQUANTISER) or any(
        e.types[i].elements != 1 for i in source.inputs[1:]
    ):
        return None
    if not (made := _for_others(e, node, source.inputs[0], back)):
        return None
    out = e.fresh(name + ".t", _permuted(e.types[name], back))
    return out, [replace(source, inputs=(made, *source.inputs[1:]), outputs=(out,))]


def _for_others(e: Editor, node: Node, name: str, perm: list[int]) -> str | None:
    """A transpose of the tensor by `perm` that not only `node` reads."""
    made = (turn.outputs[0] for turn in _turns(e, name, perm))
    return next((out for out in made if any(u is not node for u in e.users(out))), None)


def _is_for_windows(e: Editor, turn: Node) -> bool:
    """Whether a spatial operator reads the transpose, which then stays where it is."""
    return any(is_a(user, Trait.SPATIAL) for user in e.users(turn.outputs[0]))


def _meets_inverse(e: Editor, name: str, perm: list[int], steps: int = 4) -> bool:
    """Whether a transpose of the tensor by `perm` cancels behind some elementwise operators."""
    back = [perm.index(k) for k in range(len(perm))]
    if _turns(e, name, back):
        return True
    users = (u for u in e.users(name) if any(is_a(u, t) for t in _EACH) and steps)
    return any(_meets_inverse(e, user.outputs[0], perm, steps - 1) for user in users)


def _sink_through_elementwise(e: Editor, node: Node) -> bool:
    """f(T(a), T(b), const) -> T(f(a, b, const')), when every full-rank operand can follow."""
    if not any(is_a(node, t) for t in _EACH):
        return False
    out = e.types[node.outputs[0]]
    rank = len(out.shape)
    made = (e.producer(i) for i in node.inputs)
    first = next((p for p in made if is_a(p, Trait.TRANSPOSITION)), None)
    if first is None or len(e.types[first.outputs[0]].shape) != rank:
        return False
    if is_a(node, Trait.DEQUANTISER) and _is_for_windows(e, first):
        return False
    perm = list(first.attrs["perm"])
    back = [perm.index(k) for k in range(rank)]
    # What others made is no reason to go the same way back: the transposes before it must leave.
    leaves = all(
        e.only_user(i) is node for i in node.inputs if is_a(e.producer(i), Trait.TRANSPOSITION)
    )
    meets = leaves and _meets_inverse(e, node.outputs[0], perm)
    inputs, more = [], []
    for name in node.inputs:
        if not name or (e.types[name].elements == 1 and name in e.consts):
            inputs.append(name)
        elif source := _unturned(e, name, perm):
            inputs.append(source)
        elif name in e.consts:
            value = e.consts[name]
            value = value.reshape((1,) * (rank - value.ndim) + value.shape).transpose(back)
            inputs.append(e.const(name + ".t", np.ascontiguousarray(value)))
        elif meets and (found := _turned_by_others(e, node, name, perm)):
            inputs.append(found[0])
            more += found[1]
        else:
            return False
    inner = e.fresh(node.outputs[0] + ".t", _permuted(out, back))
    e.substitute(
        [node],
        [
            *more,
            replace(node, inputs=tuple(inputs), outputs=(inner,)),
            e.add("Transpose", (inner,), node, node.outputs[0], {"perm": perm}),
        ],
    )
    return True


def _sink_through_axes(e: Editor, node: Node) -> bool:
    """Concat(T(a), T(b)) -> T(Concat(a, b)), Resize(T(x)) -> T(Resize(x)), of the axes that they
    were of."""
    turned, places = record(node).turned, record(node).moved.read(node)
    if turned is None:
        return False
    sources = [e.producer(node.inputs[i]) for i in places]
    turns = [s for s in sources if is_a(s, Trait.TRANSPOSITION)]
    perms = {tuple(s.attrs["perm"]) for s in turns}
    if len(turns) < len(sources) or len(perms) != 1:
        return False
    perm, out = list(perms.pop()), e.types[node.outputs[0]]
    back = [perm.index(k) for k in range(len(perm))]
    inner = e.fresh(node.outputs[0] + ".t", _permuted(out, back))
    inputs = list(node.inputs)
    for i, turn in zip(places, turns, strict=True):
        inputs[i] = turn.inputs[0]
    attrs = turned(node.attrs, perm)
    core = replace(node, inputs=tuple(inputs), outputs=(inner,), attrs=attrs)
    e.substitute(
        [node], [core, e.add("Transpose", (inner,), node, node.outputs[0], {"perm": perm})]
    )
    return True


def _into_gemm_weights(e: Editor, node: Node) -> bool:
    """Gemm(Reshape(T(x)), w) -> Gemm(Reshape(x), w with its rows permuted)."""
    c = contracts(node)
    if c is None or c.layout is not Layout.MATRIX or node.inputs[c.weights] not in e.consts:
        return False
    reshape = e.producer(node.inputs[0])
    if not is_a(reshape, Trait.VIEW):
        return False
    turn = e.producer(reshape.inputs[0])
    if not is_a(turn, Trait.TRANSPOSITION) or turn.attrs["perm"][0] != 0:
        return False
    source, flat = e.types[turn.inputs[0]], e.types[node.inputs[0]]
    if flat.shape[0] != source.shape[0]:
        return False
    perm = turn.attrs["perm"]
    # Where each element of the transposed row came from: weights must follow it there.
    origin = np.arange(flat.shape[1]).reshape(source.shape[1:]).transpose([p - 1 for p in perm[1:]])
    order = np.argsort(origin.reshape(-1), kind="stable")
    w = e.consts[node.inputs[c.weights]]
    w = w[:, order] if node.attrs.get("transB", 0) else w[order]
    inputs = list(node.inputs)
    inputs[c.weights] = e.const(node.inputs[c.weights] + ".nhwc", np.ascontiguousarray(w))
    inputs[0] = e.fresh(node.inputs[0] + ".nhwc", flat)
    e.substitute(
        [node],
        [
            e.add("Reshape", (turn.inputs[0],), reshape, inputs[0]),
            replace(node, inputs=tuple(inputs)),
        ],
    )
    return True


def _renaming(e: Editor, node: Node) -> bool:
    """A transpose that keeps the order of all axes longer than 1 moves nothing: a Reshape."""
    if not is_a(node, Trait.TRANSPOSITION):
        return False
    shape = e.types[node.inputs[0]].shape
    long = [p for p in node.attrs["perm"] if shape[p] != 1]
    if long != sorted(long):
        return False
    e.substitute([node], [replace(node, op="Reshape", attrs={})])
    return True


def _compose_reshapes(e: Editor, node: Node) -> bool:
    """Reshape(Reshape(x)) -> Reshape(x); a Reshape to the same shape -> nothing."""
    if not is_a(node, Trait.VIEW):
        return False
    if e.types[node.inputs[0]] == e.types[node.outputs[0]] and node.outputs[0] not in e.outputs:
        e.remove(node)
        e.rename(node.outputs[0], node.inputs[0])
        return True
    source = e.producer(node.inputs[0])
    if not is_a(source, Trait.VIEW):
        return False
    e.substitute([node], [replace(node, inputs=source.inputs)])
    return True


def _sink_reshape(e: Editor, node: Node) -> bool:
    """f(Reshape(a), constants) -> Reshape(f(a, constants)), so that f can join what computes a.
    Constants are scalars, or one value for each element of a last axis that the Reshape keeps."""
    if not is_a(node, Trait.ELEMENTWISE):
        return False
    out = e.types[node.outputs[0]]
    channels = {i for i in node.inputs if i in e.consts and _per_channel(e.types[i], out)}
    sources = {
        i: e.producer(i)
        for i in node.inputs
        if i and e.types[i].elements != 1 and i not in channels
    }
    views = [s for s in sources.values() if is_a(s, Trait.VIEW)]
    if not views or len(views) != len(sources):
        return False
    shapes = {e.types[s.inputs[0]].shape for s in views}
    if len(shapes) != 1 or any(e.types[i].elements != out.elements for i in sources):
        return False
    shape = shapes.pop()
    if channels and shape[-1:] != out.shape[-1:]:
        return False
    # The one value of [1,1,1] would give a vector three axes.
    longer = {
        i for i in node.inputs if i and i not in sources and len(e.types[i].shape) > len(shape)
    }
    if not longer <= e.consts.keys():
        return False
    flat = sorted(channels | longer)
    new = {i: e.const(i + ".v", e.consts[i].reshape((-1,)[: len(shape)])) for i in flat}
    new |= {i: s.inputs[0] for i, s in sources.items() if s is not None}
    inner = e.fresh(node.outputs[0] + ".v", TensorType(out.dtype, shape))
    inputs = tuple(new.get(i, i) for i in node.inputs)
    e.substitute(
        [node],
        [
            replace(node, inputs=inputs, outputs=(inner,)),
            e.add("Reshape", (inner,), node, node.outputs[0]),
        ],
    )
    return True


def _move_quantised(e: Editor, node: Node) -> bool:
    """Move(DQ(q)) -> DQ(Move(q)) where the move could not go on, for a DQ joins what reads it. At
    the model's end, after a view, it joins what makes q."""
    view = is_a(node, Trait.VIEW)
    source = e.producer(node.inputs[0]) if view or is_a(node, Trait.TRANSPOSITION) else None
    if not is_a(source, Trait.DEQUANTISER) or e.only_user(node.inputs[0]) is not node:
        return False
    if any(e.types[i].elements != 1 for i in source.inputs[1:]):
        return False
    if view and node.outputs[0] in e.outputs:
        return False
    q, out = e.types[source.inputs[0]], e.types[node.outputs[0]]
    inner = e.fresh(node.outputs[0] + ".q", TensorType(q.dtype, out.shape))
    e.substitute(
        [source, node],
        [
            replace(node, inputs=(source.inputs[0], *node.inputs[1:]), outputs=(inner,)),
            replace(source, inputs=(inner, *source.inputs[1:]), outputs=node.outputs),
        ],
    )
    return True


def _per_channel(type_: TensorType, out: TensorType) -> bool:
    return 1 < type_.elements == type_.shape[-1] == out.shape[-1]
