"""How the nodes of an ONNX graph hang together: values, order, operators. Nothing is typed yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, NodeProto

from mlftool.importer.functions import has_body
from mlftool.importer.protos import place
from mlftool.importer.remedies import FOREIGN, in_place_of, like
from mlftool.importer.schema import is_own, misfit, opset_of
from mlftool.ir.edit import toposort
from mlftool.ir.graph import Node
from mlftool.onnx_rules.protos import called_name, domain_of, op_name, subgraphs
from mlftool.onnx_rules.scope import CUT, Report, Scope
from mlftool.ops import OPS
from mlftool.ops.base import known as record_of

CONTROL = [name for name, op in OPS.items() if op.graphs]
RANDOM = {f"Random{kind}{like}" for kind in ("Normal", "Uniform") for like in ("", "Like")}
RANDOM |= {"Bernoulli", "Multinomial"}


def check_values(graph: GraphProto, given: Collection[str], report: Report) -> None:
    """Every value is defined once: by a node, or `given` as an input or initialiser."""
    defined = set(given)
    for index, node in enumerate(graph.node):
        for out in filter(None, node.output):
            if out in defined:
                report("MLF0207", f"output '{out}' is defined twice", place(node, index))
            defined.add(out)
    for index, node in enumerate(graph.node):
        for name in filter(None, reads(node)):
            if name not in defined:
                text = f"input '{name}' is not defined by any node, initialiser or graph input"
                report("MLF0207", text, place(node, index))
    for output in graph.output:
        if output.name and output.name not in defined:
            report("MLF0207", f"output '{output.name}' is not defined by any node")


def execution_order(graph: GraphProto, report: Report) -> list[NodeProto]:
    """The nodes that the outputs need, each after those it reads; none if they go in a circle."""
    nodes = list(graph.node)
    shells = [Node(str(i), reads(n), tuple(n.output)) for i, n in enumerate(nodes)]
    try:
        order = toposort(shells, [o.name for o in graph.output])
    except ValueError as error:
        report("MLF0207", f"value '{error}' depends on itself")
        return []
    return [nodes[int(shell.op)] for shell in order]


def reads(node: NodeProto) -> tuple[str, ...]:
    """A node's inputs, and what its subgraphs read of the graph it stands in."""
    graphs = [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]
    return (*node.input, *(name for graph in graphs for name in free_names(graph)))


def free_names(graph: GraphProto) -> list[str]:
    """What a subgraph reads and does not define, in order of first use."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    read = [name for node in graph.node for name in reads(node)]
    read += [o.name for o in graph.output]
    return list(dict.fromkeys(n for n in read if n and n not in own))


def captures(node: NodeProto) -> list[str]:
    """What a node's subgraphs read of the graph around it."""
    return [name for graph in subgraphs(node) for name in free_names(graph)]


def unknown_operators(order: list[NodeProto], scope: Scope, given: Collection[str] | None) -> None:
    """Name every operator that cannot work, before anything else is tried."""
    report = scope.problem
    bad = [k for k, node in enumerate(order) if not _fine(node, place(node, k), scope, given)]
    if not bad:
        return
    # The model fails anyway: name what no kernel would take, too, so that one run tells all.
    known = set(scope.consts)
    for index, node in enumerate(order):
        if all(not name or name in known for name in node.input):
            known.update(node.output)
        elif index not in bad and not _is_taken(node, scope):
            help = like(node) or CUT
            report("MLF0301", "this operator is not supported yet", place(node, index), help)


def _is_taken(node: NodeProto, scope: Scope) -> bool:
    """Whether a rule, a definition or a kernel may take the node."""
    about_lists = any(word in node.op_type for word in ("Sequence", "Optional"))
    own = record_of(op_name(node)) or called_name(node) in scope.functions
    return bool(about_lists or own) or has_body(node, scope.opsets[domain_of(node)])


def _fine(node: NodeProto, where: str, scope: Scope, given: Collection[str] | None) -> bool:
    domain, opsets, report = domain_of(node), scope.opsets, scope.problem
    graphs = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
    refer = (a for a in node.attribute if a.ref_attr_name)
    foreign = next((a for a in refer if a.ref_attr_name not in (given or ())), None)
    function = scope.functions.get(called_name(node))
    if foreign is not None:
        text = "refers to a function, but is in none"
        if given is not None:
            text = f"is '{foreign.ref_attr_name}', which its function lacks"
        report("MLF0303", f"attribute '{foreign.name}' {text}", where)
    elif function is not None:
        fits = len(node.input) <= len(function.input) and len(node.output) <= len(function.output)
        if fits and any(node.output):
            return True
        have = f"{len(node.input)} inputs and {len(node.output)} outputs"
        most = f"{len(function.input)} and {len(function.output)}"
        report("MLF0303", f"has {have}; its function has {most}", where)
    elif own := _own_name(node):
        code = "MLF0301" if own == op_name(node) else "MLF0303"
        report(code, f"'{own}' is a name of the compiler's own", where)
    elif domain not in opsets:
        text = f"the model imports no opset of domain '{domain}'"
        report("MLF0301", text, where, FOREIGN.get(domain, ""))
    elif not (
        _is_others(op_name(node))
        or is_own(node)
        or onnx.defs.has(node.op_type, opset_of(node, opsets), domain)
    ):
        text = f"opset {opsets[domain]} has no such operator"
        if domain == "com.microsoft":  # which the onnx package has no list of
            text = "this operator is not supported yet"
        report("MLF0301", text, where, in_place_of(node))
    elif (
        any(a.type in graphs for a in node.attribute)
        and op_name(node) not in CONTROL
        and not has_body(node, opsets[domain])
    ):
        text = f"has a subgraph; supported: {', '.join(CONTROL)}"
        report("MLF0302", text, where)
    elif op_name(node) in RANDOM:
        report("MLF0302", "draws random numbers, so no two builds would agree", where)
    elif text := misfit(node, opset_of(node, opsets)):
        report("MLF0303", text, where)
    else:
        return True
    return False


# Marks a Scan without batches, whatever the model's opset: in bodies that are imported as graphs.
SINGLE = "mlf.single"


def _own_name(node: NodeProto) -> str:
    """A name that only the compiler gives, to what it makes of nodes; "" if there is none."""
    if domain_of(node) == "mlf" or (not domain_of(node) and "." in node.op_type):
        return op_name(node)
    names = (a.name for a in node.attribute if a.name.startswith("mlf."))
    return next((name for name in names if name != SINGLE), "")


def _is_others(name: str) -> bool:
    return (record := record_of(name)) is not None and record.expansion is not None


def unread_names(graph: GraphProto) -> set[str]:
    """The names of what nodes compute and neither nodes, subgraphs nor the graph's outputs read."""
    read = {name for node in graph.node for name in reads(node)} | {o.name for o in graph.output}
    return {name for node in graph.node for name in node.output if name} - read


def without_unread(node: NodeProto, found: Mapping[str, Any], unread: set[str]) -> NodeProto:
    """`node` without optional outputs that have no shape and no reader: an old Dropout's mask."""
    dropped = [
        k
        for k, name in enumerate(node.output)
        if k and name in unread and not has_shape(found.get(name))
    ]
    if not dropped:
        return node
    changed = NodeProto()
    changed.CopyFrom(node)
    for k in dropped:
        changed.output[k] = ""
    return changed


def has_shape(proto: Any) -> bool:
    if proto is None:
        return False
    return not proto.HasField("tensor_type") or bool(proto.tensor_type.HasField("shape"))


def all_results(graph: GraphProto) -> set[str]:
    """The names of all that is computed, in subgraphs too."""
    found = {name for node in graph.node for name in node.output if name}
    bodies = [a.g for n in graph.node for a in n.attribute if a.type == AttributeProto.GRAPH]
    return found.union(*map(all_results, bodies))
