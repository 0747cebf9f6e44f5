"""What integers computed from extents are at most, element by element: boxes take bounds of it."""

from __future__ import annotations

import math

from mlftool.ir.graph import Node
from mlftool.onnx_rules.scope import Scope
from mlftool.onnx_rules.shaping import Element, largest_of, least_of

AS_IT_IS = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")


def elements(scope: Scope, name: str) -> list[Element]:
    """What is known of each element of an integer tensor: of constants, extents, and what picks,
    joins and compares those."""
    if name in scope.consts:
        return [Element(int(n)) for n in scope.consts[name].reshape(-1)]
    if name in scope.bounds:
        return [Element(scope.bounds[name], name)]
    node = next((n for n in reversed(scope.nodes) if name in n.outputs), None)
    unknown = [Element()] * scope.types[name].elements
    if node is None or name != node.result:
        return unknown
    found = _of_node(scope, node)
    return found if found is not None and len(found) == len(unknown) else unknown


def _of_node(scope: Scope, node: Node) -> list[Element] | None:
    if node.op == "mlf.Extents":
        symbols, bounds = iter(node.inputs), scope.bounds
        each = [next(symbols) if n < 0 else n for n in node.attrs["static"]]
        return [Element(n) if isinstance(n, int) else Element(bounds.get(n), n) for n in each]
    if node.op == "mlf.Count":
        counts = [scope.bounds.get(s) for s in node.inputs]
        known = [n for n in counts if n is not None]
        whole = len(known) == len(counts)
        return [Element(math.prod([node.attrs["factor"], *known]) if whole else None)]
    parts = [elements(scope, i) for i in node.inputs if i]
    if node.op in AS_IT_IS:
        return parts[0]
    if node.op == "Concat":
        flat = len(scope.types[node.result].shape) == 1
        return [element for part in parts for element in part] if flat else None
    if node.op == "ReduceMin" and scope.types[node.result].elements == 1:
        return [least_of(parts[0])]
    if node.op in ("Min", "Max"):
        pick = least_of if node.op == "Min" else largest_of
        count = scope.types[node.result].elements
        rows = [p * count if len(p) == 1 else p for p in parts]
        equal = len({len(row) for row in rows}) == 1
        return [pick(each) for each in zip(*rows, strict=True)] if equal else None
    if node.op in ("Gather", "Slice"):
        return _picked(scope, node, parts[0])
    return None


def _picked(scope: Scope, node: Node, whole: list[Element]) -> list[Element]:
    """By constant indices the very elements, else whichever is the largest."""
    flat = len(scope.types[node.inputs[0]].shape) == 1
    known = [scope.consts.get(i) for i in node.inputs[1:]]
    if node.op == "Gather" and flat and known[0] is not None:
        at = known[0].reshape(-1)
        return [whole[int(k)] for k in at if -len(whole) <= k < len(whole)]
    if node.op == "Slice" and flat and len(known) >= 2 and not any(k is None for k in known):
        start, end, *rest = (int(k.item()) for k in known if k is not None)
        return whole[slice(start, end, rest[1] if len(rest) > 1 else 1)]
    return [largest_of(whole)] * scope.types[node.result].elements
