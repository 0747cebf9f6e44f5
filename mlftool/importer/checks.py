"""What the standard demands of a node and its own shape inference does not check.

The checks stand in operators' records, and run before old spellings are modernised.
"""

from __future__ import annotations

from onnx import NodeProto

from mlftool.importer.ranks import unfit
from mlftool.onnx_rules.protos import op_name, plain_attributes
from mlftool.onnx_rules.scope import Next, Outcome, Refuse, Scope
from mlftool.ops import Trait, has
from mlftool.ops.base import Facts, known


def facts(scope: Scope, node: NodeProto) -> Facts:
    attrs = plain_attributes(node)
    types = [scope.types.get(n) for n in node.input]
    values = [scope.consts.get(n) for n in node.input]
    first = next(filter(None, node.output))
    return Facts(op_name(node), attrs, types, values, scope.types[first])


def checked(scope: Scope, node: NodeProto) -> Outcome:
    """Refuse a typed node that the standard does not allow."""
    f = facts(scope, node)
    if has(f.op, Trait.VIEW) and f.inputs[0] is not None:
        have, want = f.inputs[0].elements, f.output.elements
        if have != want:
            text = f"{have} elements do not fill its output {f.output}, which has {want}"
            return Refuse("MLF0303", text)
    if found := unfit(f.op, f.attrs, f.inputs, f.output):
        return Refuse("MLF0303", found)
    record = known(f.op)
    found = next(filter(None, (check(f) for check in record.checks)), "") if record else ""
    return Refuse("MLF0303", found) if found else Next(node)
