"""The graph executor's JSON: what is read of it, and what is wrong with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from mlftool.errors import MlfError
from mlftool.mlf import graph as graph_json

# x + p0, given twice: the second output is the first under another shape.
GRAPH: dict[str, Any] = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "null", "name": "p0", "inputs": []},
        {
            "op": "tvm_op",
            "name": "add",
            "attrs": {
                "func_name": "tvmgen_m_add",
                "num_inputs": "2",
                "num_outputs": "2",
                "flatten_data": "0",
                "hash": "12",
            },
            "inputs": [[0, 0, 0], [1, 0, 0]],
        },
        {
            "op": "tvm_op",
            "name": "view",
            "attr": {
                "func_name": "__nop",
                "num_inputs": "1",
                "num_outputs": "1",
                "flatten_data": "0",
            },
            "inputs": [[2, 1, 0]],
        },
    ],
    "arg_nodes": [0, 1],
    "heads": [[2, 0, 0], [3, 0, 0]],
    "attrs": {
        "dltype": ["list_str", ["float32", "float32", "float32", "int8", "int8"]],
        "storage_id": ["list_int", [0, 1, 2, 3, 3]],
        "shape": ["list_shape", [[1, 8], [], [1, 8], [2, 3], [6]]],
    },
    "node_row_ptr": [0, 1, 2, 4, 5],
    "metadata": {"anything": 1},
}


def test_a_graph() -> None:
    graph, data = graph_json.decode(json.dumps(GRAPH).encode())
    assert data == GRAPH
    assert [(n.name, n.function, n.inputs, n.outputs) for n in graph.nodes] == [
        ("x", "", (), (0,)),
        ("p0", "", (), (1,)),
        ("add", "tvmgen_m_add", (0, 1), (2, 3)),
        ("view", "__nop", (3,), (4,)),
    ]
    assert (graph.arguments, graph.heads) == ((0, 1), (2, 4))
    assert graph.entries[4] == graph_json.Entry("int8", (6,), 3)
    assert graph.functions == ("tvmgen_m_add",)
    assert graph_json.beyond_defaults(graph) == ()
    assert graph_json.refusals(graph, data) == ()


def test_what_the_c_runtime_must_allow() -> None:
    data = copy.deepcopy(GRAPH)
    data["attrs"]["shape"][1][0] = [1] * 7
    data["nodes"][2]["name"] = "n" * 119
    data["nodes"][0]["name"] = "x" * 80
    data["attrs"]["dltype"][1][1] = "customtype"
    data["nodes"][2]["inputs"] = [[0, 0, 0]] * 8
    data["nodes"][2]["attrs"]["num_inputs"] = "8"
    graph, _ = graph_json.decode(json.dumps(data).encode())
    assert graph_json.beyond_defaults(graph) == (
        "TVM_CRT_MAX_ARGS 11",
        "TVM_CRT_MAX_NDIM 7",
        "TVM_CRT_MAX_STRLEN_DLTYPE 12",
        "TVM_CRT_MAX_STRLEN_FUNCTION_NAME 121",
        "TVM_CRT_MAX_STRLEN_PARAM_NAME 81",
    )


def test_what_no_c_runtime_can_do() -> None:
    data = copy.deepcopy(GRAPH)
    data["nodes"][3]["attr"]["func_name"] = "__copy"
    data["nodes"][2]["attrs"]["flatten_data"] = "1"
    data["nodes"][2]["control_deps"] = [0]
    data["attrs"]["storage_scope"] = ["list_str", [""] * 5]
    graph, found = graph_json.decode(json.dumps(data).encode())
    assert graph_json.refusals(graph, found) == (
        "it copies between devices (__copy)",
        "it has a storage_scope: memory of other devices",
        "'add' uses flatten_data",
        "'add' has control_deps",
    )


def put(*path: Any) -> Callable[[Any], None]:
    """Replaces the value at a path; the last of `path` is the value."""

    def change(data: Any) -> None:
        *parents, key, value = path
        for k in parents:
            data = data[k]
        data[key] = value

    return change


def drop(*path: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for k in path[:-1]:
            data = data[k]
        del data[path[-1]]

    return change


HOSTILE: dict[str, tuple[Callable[[Any], None], str, str]] = {
    "no_nodes": (drop("nodes"), "nodes", "is missing"),
    "nodes_object": (put("nodes", {}), "nodes", "got an object, expected a list"),
    "no_attrs": (drop("attrs"), "attrs", "is missing"),
    "no_heads": (put("heads", []), "heads", "is empty"),
    "row_ptr_short": (put("node_row_ptr", [0, 1, 2, 4]), "node_row_ptr", "does not count"),
    "row_ptr_down": (put("node_row_ptr", [0, 2, 1, 4, 5]), "node_row_ptr", "does not count"),
    "row_ptr_start": (put("node_row_ptr", 0, 1), "node_row_ptr", "does not count"),
    "row_ptr_negative": (put("node_row_ptr", 1, -1), "node_row_ptr[1]", "got -1"),
    "row_ptr_huge": (put("node_row_ptr", 4, 2**40), "node_row_ptr[4]", "got 1099511627776"),
    "row_ptr_many": (
        put("node_row_ptr", 4, 2**31 - 1),
        "attrs.shape",
        "5 values for 2147483647",
    ),
    "later_input": (put("nodes", 2, "inputs", 0, [3, 0, 0]), "nodes[2].inputs[0]", "node 3, which"),
    "own_input": (
        put("nodes", 2, "inputs", 0, [2, 0, 0]),
        "nodes[2].inputs[0]",
        "does not precede it",
    ),
    "negative": (put("nodes", 2, "inputs", 0, [-1, 0, 0]), "nodes[2].inputs[0]", "node -1"),
    "no_such_output": (put("nodes", 3, "inputs", 0, [2, 2, 0]), "nodes[3].inputs[0]", "output 2"),
    "no_entry": (put("nodes", 3, "inputs", 0, [2]), "nodes[3].inputs[0]", "is not [node, output"),
    "true_entry": (
        put("nodes", 3, "inputs", 0, [2, True, 0]),
        "nodes[3].inputs[0]",
        "is not [node",
    ),
    "head": (put("heads", 0, [4, 0, 0]), "heads[0]", "output 0 of node 4"),
    "op": (put("nodes", 2, "op", "rm -rf"), "nodes[2].op", "expected null or tvm_op"),
    "op_number": (put("nodes", 2, "op", 1), "nodes[2].op", "got 1, expected text"),
    "no_function": (drop("nodes", 2, "attrs", "func_name"), "nodes[2].attrs.func_name", "missing"),
    "no_node_attrs": (drop("nodes", 2, "attrs"), "nodes[2].attrs", "is missing"),
    "num_inputs": (
        put("nodes", 2, "attrs", "num_inputs", "9"),
        "nodes[2].attrs.num_inputs",
        "got '9', expected the number in the graph, '2'",
    ),
    "num_outputs": (
        put("nodes", 3, "attr", "num_outputs", 1),
        "nodes[3].attr.num_outputs",
        "got 1, expected text",
    ),
    "input_with_inputs": (put("nodes", 1, "inputs", [[0, 0, 0]]), "nodes[1]", "inputs of its own"),
    "arg_nodes": (put("arg_nodes", [0, 2]), "arg_nodes", "are not the nodes without an operator"),
    "arg_twice": (put("arg_nodes", [0, 0]), "arg_nodes", "are not the nodes without an operator"),
    "arg_range": (put("arg_nodes", 1, 4), "arg_nodes[1]", "got 4, expected an integer from 0 to 3"),
    "shape_negative": (put("attrs", "shape", 1, 0, [-1]), "attrs.shape[1][0][0]", "got -1"),
    "shape_huge": (put("attrs", "shape", 1, 0, [2**31]), "attrs.shape[1][0][0]", "2147483648"),
    "shape_float": (put("attrs", "shape", 1, 0, [1.5]), "attrs.shape[1][0][0]", "got 1.5"),
    "shape_flat": (put("attrs", "shape", 1, 0, 8), "attrs.shape[1][0]", "got 8, expected a list"),
    "shape_tag": (put("attrs", "shape", 0, "list_int"), "attrs.shape", "is not ['list_shape'"),
    "storage_id": (put("attrs", "storage_id", 1, 0, 4), "attrs.storage_id[1][0]", "got 4"),
    "storage_count": (put("attrs", "storage_id", 1, []), "attrs.storage_id", "0 values for 5"),
    "dtype": (put("attrs", "dltype", 1, 0, None), "attrs.dltype[1][0]", "got null, expected text"),
    "rank": (put("attrs", "shape", 1, 0, [0] * 100), "attrs.shape[1][0]", "has rank 100"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_graphs(name: str) -> None:
    change, place, message = HOSTILE[name]
    data = copy.deepcopy(GRAPH)
    change(data)
    with pytest.raises(MlfError) as caught:
        graph_json.decode(json.dumps(data).encode(), "a.tar", "m.graph")
    found = [(p.path, p.message) for p in caught.value.problems]
    assert any(p == f"m.graph: {place}" and message in m for p, m in found), found
    assert {(p.code, p.file) for p in caught.value.problems} == {("MLF0509", "a.tar")}


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"nodes": [', b"[" * 10**5, json.dumps(GRAPH).encode()[:-1]],
    ids=range(7),
)
def test_what_is_no_graph(data: bytes) -> None:
    with pytest.raises(MlfError, match="MLF0509"):
        graph_json.decode(data)


def test_bits_flipped_anywhere_never_crash() -> None:
    data = json.dumps(GRAPH).encode()
    codes = set()
    for at in range(len(data)):
        for byte in (data[at] ^ 1, data[at] ^ 0x80, ord("9"), ord("]")):
            try:
                graph_json.decode(data[:at] + bytes([byte]) + data[at + 1 :])
            except MlfError as error:
                codes |= {p.code for p in error.problems}
    assert codes == {"MLF0509"}
