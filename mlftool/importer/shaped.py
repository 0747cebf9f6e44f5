"""Operators whose output has a shape that is computed: Reshape, Expand, Slice, Range ...

Their result is stored in a box (importer/extents.py) whose greatest extents are worked out from the
inputs, or given by the user: `--input-shape y:4,6` says of a tensor `y` within the model that it is
never larger. The operator itself becomes others that fill the whole box, and the true shape, an
int64 vector, is computed beside it:

%y = Slice(%x, %starts, %ends)   =>   %at = clip(%starts + [0, 1 ...]);  %y = Gather(%x, %at)
                                      %y.shape = [clip(%ends) - clip(%starts)]

A shape that turns out larger than its box is cut off: nothing is ever written beyond it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from onnx import NodeProto

from mlftool.importer.remedies import constants, integers
from mlftool.ir import dtype
from mlftool.ir.graph import Node, TensorType
from mlftool.onnx_rules.protos import attributes, op_name
from mlftool.onnx_rules.scope import KEEP, Next, Outcome, Refuse, Scope, Work, resumed
from mlftool.onnx_rules.shaping import INT64, Box, NotShapedError, Shaper, Shaping, UnboundedError
from mlftool.onnx_rules.steps import Steps, standing_for
from mlftool.ops import UnsupportedError
from mlftool.ops.base import known
from mlftool.ops.shapers import elements


def shaped(scope: Scope, node: NodeProto) -> Outcome:
    """A node of such an operator becomes a box with its true shape if its shape is not known."""
    operator = known(op_name(node))
    shaper = operator.shaped if operator else None
    is_box = any(scope.symbols_of(node.input[0]))
    if shaper is None or (_is_static(scope.inferred.get(node.output[0])) and not is_box):
        return Next(node)
    return resumed(_boxed(scope, node, shaper))


def _boxed(scope: Scope, node: NodeProto, shaper: Shaper) -> Work[Outcome]:
    limit = scope.limit(node.output[0])
    types = [scope.types.get(n) for n in node.input]
    symbols = scope.extents_of(node.input[0])
    of_value = partial(elements, scope)
    shaping = Shaping(Steps(node, types, taken=scope.names), scope.consts, limit, symbols, of_value)
    box: Box | None
    try:
        box = shaper(shaping, attributes(node))
    except UnsupportedError as error:
        return Refuse("MLF0206", str(error))
    except NotShapedError:
        return Next(node)
    except UnboundedError:
        box = None
    if box is None or (limit and len(limit) != len(box.bounds)):
        out = node.output[0]
        text = f"shape of output '{out}' is not known before run time"
        rank = len(box.bounds) if box else _rank(scope.inferred.get(out))
        if limit and rank not in (0, len(limit)):
            text += f"; {','.join(map(str, limit))} is given, but it has {rank} axes"
        elif rank:
            scope.unbounded[out] = rank
        example = ",".join(str(4 + 2 * k) for k in range(_rank(scope.inferred.get(out)) or 2))
        given = f"--input-shape {out}:{example} (input_shapes)"
        help = f"say how large it gets at most: {given}"
        help = "; or, ".join(filter(None, (help, constants(scope, integers(scope, node)))))
        return Refuse("MLF0206", text, help)
    kept = _known(scope, box)
    extents = [
        "" if known else _limited(shaping, e, n)
        for e, n, known in zip(box.extents, box.bounds, kept, strict=True)
    ]
    # What stands for the node works on boxes.
    yield standing_for(scope.hiding({node.input[0]}), shaping.steps.made)
    made = [n for n in node.output if n in scope.types]
    if made:
        fresh = (_symbol(scope, e, node) for e in extents)
        found = tuple(known or new for known, new in zip(kept, fresh, strict=True))
        scope.symbols.update(dict.fromkeys(made, found) if any(found) else {})
    return KEEP


def _known(scope: Scope, box: Box) -> tuple[str, ...]:
    """Those of the known extents that the box does not cut off."""
    bounds = scope.bounds
    known = box.known or ("",) * len(box.bounds)
    return tuple(
        s if s in bounds and bounds[s] <= n else "" for s, n in zip(known, box.bounds, strict=True)
    )


def _is_static(proto: Any) -> bool:
    dims = proto.tensor_type.shape.dim if proto is not None else ()
    has_shape = proto is not None and proto.tensor_type.HasField("shape")
    return has_shape and all(d.HasField("dim_value") for d in dims)


def _rank(proto: Any) -> int:
    """The number of axes, as far as onnx knows; 0 also if it does not."""
    return len(proto.tensor_type.shape.dim) if proto is not None else 0


def _limited(s: Shaping, extent: int | str, bound: int) -> str:
    """An extent within its box; "" for a static one."""
    if isinstance(extent, int):
        return ""
    return s("Cast", s("Clip", extent, s.number(0), s.number(bound)), to=dtype.int32.onnx)


def _symbol(scope: Scope, extent: str, node: NodeProto) -> str:
    """The int32 scalar that holds an extent, of the value that computes it."""
    if not extent:
        return ""
    symbol = scope.fresh(f"{node.output[0]}.extent")
    scope.types[symbol] = TensorType(dtype.int32, ())
    shape = scope.new_const(f"{symbol}.shape", np.zeros(0, INT64))
    scope.nodes.append(Node("Reshape", (extent, shape), (symbol,), {}, f"extent of {symbol}"))
    return symbol
