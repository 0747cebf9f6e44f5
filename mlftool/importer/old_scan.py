"""Scan as opset 8 had it, with a batch axis: a Scan over the batches, of a Scan over the sequences.

%y, %z = Scan("", %a[B, ...], %x[B, T, ...])   =>   Scan(%a, %x) { Scan(%a_b[...], %x_b[T, ...]) }
"""

from __future__ import annotations

from typing import Any

from onnx import NodeProto, TensorProto, helper

SINGLE = "mlf.single"  # marks a Scan without batches, whatever the model's opset


def over_batches(node: NodeProto) -> NodeProto:
    """`node`, whose first input, the lengths of the sequences, is left out, in terms of newer ones.

    Types of the outer body are left open: a subgraph gets them from what it is given."""
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    body = attrs["body"]
    prefix = f"{next(filter(None, node.output))}.batch."
    inputs = [f"{prefix}{k}" for k in range(len(body.input))]
    outputs = [f"{prefix}y{k}" for k in range(len(body.output))]
    single: dict[str, Any] = {SINGLE: 1}
    turned: dict[str, Any] = (
        {"scan_input_directions": attrs["directions"]} if "directions" in attrs else {}
    )
    inner = helper.make_node(
        "Scan", inputs, outputs, node.name, body=body, num_scan_inputs=attrs["num_scan_inputs"],
        **turned, **single
    )  # fmt: skip
    graph = helper.make_graph(
        [inner],
        f"{prefix}body",
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in inputs],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs],
    )
    return helper.make_node(
        "Scan", list(node.input[1:]), list(node.output), node.name, body=graph,
        num_scan_inputs=len(inputs), **single
    )  # fmt: skip
