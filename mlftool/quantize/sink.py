"""What recurrent layers compute in the steps that need it: the sums of the input and the rounding
of the state, which the simulation has of all steps.

    %g = Reshape(Gemm(DQ(%x), ..));  %y = Scan(%g) { .. };  %q = Q(%y)
                    =>  %q = Scan(%x) { Gemm(DQ(%x), ..), .., Q(%y) }

The numbers are the same. Of all steps, floats would take four times the RAM of the integers, and
the sums of a GRU twelve times that of its states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper

from mlftool.ir.graph import Array

PARTS = frozenset(("Gather", "GatherElements", "GatherND", "Slice", "Split"))
WHOLE = frozenset(
    ("Concat", "DequantizeLinear", "QuantizeLinear", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
)
STORED = {"int8": TensorProto.INT8, "int16": TensorProto.INT16}


def sunk(
    nodes: Iterable[NodeProto], scans: Iterable[str], constants: Mapping[str, Array]
) -> tuple[list[NodeProto], dict[str, Array]]:
    """The nodes with the products of integers in the Scans of these names that read their sums, and
    further constants."""
    found = list(nodes)
    makers = {name: n for n in found for name in n.output}
    gone: set[str] = set()
    added: dict[str, Array] = {}
    names = set(scans)
    for scan in [n for n in found if n.name in names and n.op_type == "Scan"]:
        gone |= _leave(scan, found)
        apart = makers[scan.input[-1]]
        product = makers[apart.input[0]]
        reads = [makers.get(i) for i in product.input]
        if any(r is None or r.op_type != "DequantizeLinear" for r in reads):
            continue
        x, *weights = (r for r in reads if r is not None)
        steps, width = constants[apart.input[1]][1], constants[weights[0].input[0]].shape[0]
        rows, shape = f"{scan.name}_read", f"{scan.name}_read_shape"
        added[shape] = np.array([-1, steps, width], np.int64)
        apart.input[:] = [x.input[0], shape]
        apart.output[0] = scan.input[-1] = rows
        _enter(scan, x, product, weights, STORED[constants[x.input[2]].dtype.name])
        gone |= {product.name, *(w.name for w in weights)}
    kept = [n for n in found if n.name not in gone]
    read = {i for n in kept for i in n.input}
    return [n for n in kept if n.op_type != "DequantizeLinear" or n.output[0] in read], added


def _leave(scan: NodeProto, nodes: Sequence[NodeProto]) -> set[str]:
    """Rounds the state inside of the Scan if all that reads it in all steps is one QuantizeLinear,
    of which the result is the Scan's then; the names of nodes that are gone. Where only some steps
    are read, or none, the compiler rounds those alone."""
    readers = [n for n in nodes if scan.output[-1] in n.input]
    if [n.op_type for n in readers] != ["QuantizeLinear"]:
        return set()
    ends = _ends(readers[0], nodes)
    if not ends or ends & PARTS:
        return set()
    (body,), (rounding,) = (a.g for a in scan.attribute if a.HasField("g")), readers
    inner = NodeProto()
    inner.CopyFrom(rounding)
    inner.input[0], inner.output[0] = body.output[-1].name, f"{scan.name}_rounded"
    body.node.append(inner)
    body.output[-1].CopyFrom(helper.make_empty_tensor_value_info(inner.output[0]))
    scan.output[-1] = rounding.output[0]
    return {rounding.name}


def _ends(node: NodeProto, nodes: Sequence[NodeProto]) -> set[str]:
    """The operators that read what a node makes, as it is or moved as a whole."""
    found: set[str] = set()
    for reader in (n for n in nodes if node.output[0] in n.input):
        found |= _ends(reader, nodes) if reader.op_type in WHOLE else {reader.op_type}
    return found


def _enter(
    scan: NodeProto, x: NodeProto, product: NodeProto, weights: list[NodeProto], kind: int
) -> None:
    """Puts a product with its operands before the other nodes of the Scan's body."""
    (body,) = (a.g for a in scan.attribute if a.HasField("g"))
    sums, step = body.input[-1].name, f"{scan.name}_row"
    body.input[-1].CopyFrom(helper.make_tensor_value_info(step, kind, None))
    real = f"{step}_dequantized"
    given = helper.make_node("DequantizeLinear", [step, *x.input[1:]], [real], f"{real}_node")
    given.domain = x.domain
    inner = NodeProto()
    inner.CopyFrom(product)
    inner.input[0], inner.output[0] = real, sums
    copies = [NodeProto.FromString(n.SerializeToString()) for n in body.node]
    del body.node[:]
    body.node.extend([given, *weights, inner, *copies])
