"""`executor-config/graph/<module>.graph`: the graph executor's JSON, checked, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlftool.frozen import frozen
from mlftool.mlf.params import MAX_NDIM
from mlftool.mlf.strict import MAX_SIZE, Checked, decoded

# The defaults of crt_config.h. Strings count their closing NUL and, in TVM's
# reader, one character more.
CRT_DEFAULTS = {
    "TVM_CRT_MAX_ARGS": 10,
    "TVM_CRT_MAX_NDIM": 6,
    "TVM_CRT_MAX_STRLEN_DLTYPE": 10,
    "TVM_CRT_MAX_STRLEN_FUNCTION_NAME": 120,
    "TVM_CRT_MAX_STRLEN_PARAM_NAME": 80,
}
COPY = "__copy"  # between devices, which the C runtime cannot
NOP = "__nop"  # the input under another shape
_NODE_KEYS = {"op", "name", "inputs", "attrs", "attr"}


@frozen
class Entry:
    """An output of a node: a tensor, and the buffer it lives in."""

    dtype: str
    shape: tuple[int, ...]
    storage_id: int


@frozen
class Node:
    """`function` is "" for an input or parameter. `inputs` and `outputs` count entries."""

    name: str
    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@frozen
class Graph:
    """Nodes in the order of their calls; `arguments` are nodes, `heads` are entries."""

    nodes: tuple[Node, ...]
    arguments: tuple[int, ...]
    heads: tuple[int, ...]
    entries: tuple[Entry, ...]

    @property
    def functions(self) -> tuple[str, ...]:
        """The packed functions it calls, each once, in the order of their first calls."""
        names = (n.function for n in self.nodes if n.function not in ("", NOP, COPY))
        return tuple(dict.fromkeys(names))


def decode(data: bytes, file: str = "", member: str = "") -> tuple[Graph, dict[str, Any]]:
    """The graph, and its JSON unchanged. Raises MlfError with every problem."""
    graph, value = decoded(data, _graph, "MLF0509", file, member)
    return graph, dict(value)


def _graph(top: Checked) -> Graph:
    rows = top.at("node_row_ptr").list(lambda n: n.number(most=2**31 - 1))
    nodes_at = top.at("nodes")
    count = len(tuple(nodes_at.each()))
    if len(rows) != count + 1 or rows[:1] != (0,) or list(rows) != sorted(rows):
        top.at("node_row_ptr").note(f"does not count from 0 up over {count} nodes")
        return Graph((), (), (), ())
    entries = _entries(top.at("attrs"), rows[-1], count)
    if len(entries) != rows[-1]:  # an untrusted size that must not become a table
        return Graph((), (), (), ())
    nodes = tuple(_node(at, i, rows) for i, at in enumerate(nodes_at.each()))
    arguments = top.at("arg_nodes").list(lambda n: n.number(most=max(count - 1, 0)))
    inputs = tuple(i for i, n in enumerate(nodes) if not n.function)
    if sorted(arguments) != list(inputs):
        top.at("arg_nodes").note(f"are not the nodes without an operator, {list(inputs)[:20]}")
    heads = top.at("heads").list(lambda at: _entry_id(at, count, rows))
    if not heads:
        top.at("heads").note("is empty: the graph would have no outputs")
    return Graph(nodes, arguments, heads, entries)


def _node(at: Checked, index: int, rows: tuple[int, ...]) -> Node:
    outputs = tuple(range(rows[index], rows[index + 1]))
    inputs = at.at("inputs").list(lambda entry: _entry_id(entry, index, rows))
    name, op = at.at("name").text(MAX_SIZE), at.at("op").text()
    if op == "null":
        if inputs or len(outputs) != 1:
            at.note("is an input, but has inputs of its own or not one output")
        return Node(name, "", inputs, outputs)
    if op and op != "tvm_op":
        at.at("op").note(f"got '{op[:40]}', expected null or tvm_op")
    attrs = at.at("attr" if "attr" in at else "attrs")
    function = attrs.at("func_name").text(MAX_SIZE)
    for key, wanted in (("num_inputs", len(inputs)), ("num_outputs", len(outputs))):
        text = attrs.at(key).text()
        if text and text != str(wanted):
            attrs.at(key).note(f"got '{text[:20]}', expected the number in the graph, '{wanted}'")
    return Node(name, function or "?", inputs, outputs)


def _entry_id(at: Checked, before: int, rows: tuple[int, ...]) -> int:
    """The entry that [node, output, version] names, of one of the first `before` nodes."""
    value = at.value
    whole = isinstance(value, list) and len(value) in (2, 3) and all(type(v) is int for v in value)
    if not whole:
        at.note("is not [node, output, version]")
        return 0
    node, output = value[:2]
    if not 0 <= node < before or not 0 <= output < rows[node + 1] - rows[node]:
        at.note(f"names output {output} of node {node}, which does not precede it")
        return 0
    return int(rows[node] + output)


def _entries(attrs: Checked, count: int, nodes: int) -> tuple[Entry, ...]:
    """`count` entries, or none after a note."""

    def column(key: str, tag: str) -> tuple[Checked, ...]:
        at = attrs.at(key)
        value = at.value
        if not isinstance(value, list) or len(value) != 2 or value[0] != tag:
            at.note(f"is not ['{tag}', values]")
            return ()
        found = tuple(Checked(value[1], f"{at.place}[1]", at.notes).each())
        if len(found) != count:
            at.note(f"has {len(found)} values for {count} tensors")
        return found if len(found) == count else ()

    dtypes = [at.text() for at in column("dltype", "list_str")]
    ids = [at.number(most=max(nodes - 1, 0)) for at in column("storage_id", "list_int")]
    shapes = [_shape(at) for at in column("shape", "list_shape")]
    if not len(dtypes) == len(ids) == len(shapes) == count:
        return ()
    return tuple(Entry(d, s, i) for d, s, i in zip(dtypes, shapes, ids, strict=True))


def _shape(at: Checked) -> tuple[int, ...]:
    shape = at.list(lambda extent: extent.number(most=2**31 - 1))
    if len(shape) > MAX_NDIM:
        at.note(f"has rank {len(shape)}, expected at most {MAX_NDIM}")
    return shape


def needs(graph: Graph) -> Mapping[str, int]:
    """What crt_config.h must allow at least for this graph."""
    calls = [n for n in graph.nodes if n.function]
    return {
        "TVM_CRT_MAX_ARGS": 1 + max((len(n.inputs) + len(n.outputs) for n in calls), default=0),
        "TVM_CRT_MAX_NDIM": max((len(e.shape) for e in graph.entries), default=0),
        "TVM_CRT_MAX_STRLEN_DLTYPE": 2 + max((len(e.dtype) for e in graph.entries), default=0),
        "TVM_CRT_MAX_STRLEN_FUNCTION_NAME": 2
        + max((len(t.encode()) for n in graph.nodes for t in (n.name, n.function)), default=0),
        "TVM_CRT_MAX_STRLEN_PARAM_NAME": 1
        + max((len(graph.nodes[i].name.encode()) for i in graph.arguments), default=0),
    }


def beyond_defaults(graph: Graph) -> tuple[str, ...]:
    """The macros of crt_config.h that this graph needs larger than they are by default."""
    found = needs(graph)
    return tuple(f"{k} {found[k]}" for k in sorted(found) if found[k] > CRT_DEFAULTS[k])


def refusals(graph: Graph, data: Mapping[str, Any]) -> tuple[str, ...]:
    """Features of this graph that no C runtime supports, whatever its crt_config.h."""
    found = []
    if any(n.function == COPY for n in graph.nodes):
        found.append(f"it copies between devices ({COPY})")
    if "storage_scope" in data["attrs"]:
        found.append("it has a storage_scope: memory of other devices")
    for node in data["nodes"]:
        attrs = node.get("attrs", node.get("attr", {}))
        if attrs.get("flatten_data", "0") != "0":
            found.append(f"'{node['name'][:100]}' uses flatten_data")
        if extra := sorted(set(node) - _NODE_KEYS):
            found.append(f"'{node['name'][:100]}' has {', '.join(extra)[:100]}")
    return tuple(found)
