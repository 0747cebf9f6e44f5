"""Beyond the 54: a refused file for each check of the readers, and odd ones that are accepted."""

from __future__ import annotations

import json
import struct
from typing import Any

from malformed import GRAPH, PARAMS, Case, array, changed, params, with_metadata


def _op(**attrs: str) -> dict[str, Any]:
    standard = {"func_name": "add", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0"}
    return {"attrs": standard | attrs}


def _set(*path: Any, value: Any) -> Case:
    """The control with one value of its graph replaced (or added)."""

    def change(graph: dict[str, Any]) -> None:
        at: Any = graph
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return changed(change)


def _nop(storage: list[int], shape: list[int], inputs: list[list[int]]) -> Case:
    """The control with its call made a __nop."""
    attrs = _op(func_name="__nop", num_inputs=str(len(inputs)))["attrs"]

    def change(graph: dict[str, Any]) -> None:
        graph["nodes"][2] |= {"attrs": attrs, "inputs": inputs}
        graph["attrs"]["storage_id"][1] = storage
        graph["attrs"]["shape"][1][2] = shape

    return changed(change)


def _text(old: str, new: str) -> Case:
    assert GRAPH.count(old.encode()) >= 1
    return Case(GRAPH.replace(old.encode(), new.encode(), 1), PARAMS)


def _many_outputs(graph: dict[str, Any]) -> None:
    graph["nodes"][2]["attrs"]["num_outputs"] = "2147483639"
    graph["nodes"].append(graph["nodes"][2])


def _scalar(dtype: str) -> Case:
    def change(graph: dict[str, Any]) -> None:
        graph["attrs"]["shape"][1] = [[], [1, 8], []]
        graph["attrs"]["dltype"][1][0] = dtype

    return changed(change)


TWICE = params(array(), count=2, name=b"p0\2\0\0\0\0\0\0\0p0", length=2)  # one array
NODE = ("nodes", 2)
ATTRS = (*NODE, "attrs")

REFUSED_GRAPHS = {
    "33 brackets": with_metadata("[" * 33 + "]" * 33),
    "a brace closed by a bracket": with_metadata('{"a": 1]'),
    "a list closed by a brace": with_metadata("[1}"),
    "no comma in a list": with_metadata("[1 2]"),
    "no colon in an object": with_metadata('{"a" 1}'),
    "no value": with_metadata("[,]"),
    "half a surrogate pair": with_metadata('"\\ud800"'),
    "two first halves": with_metadata('"\\ud800\\ud800"'),
    "a second half alone": with_metadata('"\\udc00"'),
    "a surrogate pair broken off": with_metadata('"\\ud800\\n"'),
    "not four hexadecimal digits": with_metadata('"\\u12g4"'),
    "NUL in a name": _text('"p0"', '"p\\u00000"'),
    "a line end in a string": with_metadata('"a\nb"'),
    "a string that does not end": with_metadata('"a'),
    "text after the end": Case(GRAPH + b"x", PARAMS),
    "a key twice": Case(GRAPH[:-1] + b', "heads": [[2,0,0]]}', PARAMS),
    "a key of a node twice": _text('"inputs": []', '"inputs": [], "inputs": []'),
    "no heads": changed(lambda g: g.pop("heads")),
    "empty heads": _set("heads", value=[]),
    "no shapes": changed(lambda g: g["attrs"].pop("shape")),
    "a node without a name": changed(lambda g: g["nodes"][0].pop("name")),
    "an unknown key of a node": _set(*NODE, "surprise", value=1),
    "an unknown key of the attributes": _set("attrs", "surprise", value=["list_int", []]),
    "an unknown op": _set(*NODE, "op", value="call"),
    "an input node with inputs": _set("nodes", 1, "inputs", value=[[0, 0, 0]]),
    "no func_name": changed(lambda g: g["nodes"][2]["attrs"].pop("func_name")),
    "a function nobody has": _set(*ATTRS, "func_name", value="subtract"),
    "another number of inputs": _set(*ATTRS, "num_inputs", value="3"),
    "flatten_data": _set(*ATTRS, "flatten_data", value="1"),
    "a number of inputs that is none": _set(*ATTRS, "num_inputs", value="2x"),
    "an empty number of inputs": _set(*ATTRS, "num_inputs", value=""),
    "2^31 outputs": _set(*ATTRS, "num_outputs", value="2147483648"),
    "2^31 - 9 outputs": _set(*ATTRS, "num_outputs", value="2147483639"),
    "2^32 outputs of two nodes": changed(_many_outputs),
    "an input of 1 number": _set(*NODE, "inputs", value=[[0], [1, 0, 0]]),
    "an input of 4 numbers": _set(*NODE, "inputs", value=[[0, 0, 0, 0], [1, 0, 0]]),
    "an input of another version": _set(*NODE, "inputs", value=[[0, 0, 1], [1, 0, 0]]),
    "an input of a later node": _set(*NODE, "inputs", value=[[0, 0, 0], [2, 0, 0]]),
    "an input beyond the outputs": _set(*NODE, "inputs", value=[[0, 0, 0], [1, 1, 0]]),
    "a head beyond the nodes": _set("heads", value=[[3, 0, 0]]),
    "a head beyond the outputs": _set("heads", value=[[2, 1, 0]]),
    "an arg node that is a call": _set("arg_nodes", value=[0, 2]),
    "arg nodes out of order": _set("arg_nodes", value=[1, 0]),
    "an arg node twice": _set("arg_nodes", value=[0, 0]),
    "node_row_ptr too short": _set("node_row_ptr", value=[0, 1, 2]),
    "node_row_ptr that does not add up": _set("node_row_ptr", value=[0, 2, 2, 3]),
    "node_row_ptr with another end": _set("node_row_ptr", value=[0, 1, 2, 4]),
    "fewer storage ids": _set("attrs", "storage_id", value=["list_int", [0, 1]]),
    "a list of another kind": _set("attrs", "storage_id", value=["list_str", [0, 1, 2]]),
    "an attribute without a list": _set("attrs", "storage_id", value=["list_int"]),
    "an attribute of three": _set("attrs", "storage_id", value=["list_int", [0, 1, 2], 0]),
    "vectors": _set("attrs", "dltype", value=["list_str", ["float32", "float32", "float32x4"]]),
    "a fraction": _set("arg_nodes", value=[0.5, 1]),
    "an exponent": _text('"arg_nodes": [0, 1]', '"arg_nodes": [0, 1e0]'),
    "a number too large": _set("arg_nodes", value=[0, 2**31]),
    "a number much too large": _set("arg_nodes", value=[0, 2**64 + 1]),
    "tensors larger than memory": changed(
        lambda g: g["attrs"].__setitem__("shape", ["list_shape", [[2**29 - 1]] * 3])
    ),
    "__nop of two": _nop([0, 1, 0], [1, 8], [[0, 0, 0], [1, 0, 0]]),
    "__nop to other storage": _nop([0, 1, 2], [8], [[0, 0, 0]]),
    "__nop of another size": _nop([0, 1, 0], [9], [[0, 0, 0]]),
}

REFUSED_PARAMS = {
    "7 bytes of magic": b"\xb7\x9c\x04\x05\x4f\x8d\xe5",
    "no number of names": PARAMS[:20],
    "another number of arrays": params(array())[:34] + struct.pack("<Q", 2) + array(),
    "no number of arrays": PARAMS[:36],
    "an array without a shape": params(array()[:33]),
    "an array without a type": params(array()[:29]),
    "an array without a rank": params(array()[:25]),
    "an array without a device": params(array()[:18]),
    "an array without a size": params(array()[:50]),
    "lanes": params(array().replace(b"\x02\x20\x01\x00", b"\x02\x20\x02\x00")),
    "72 bits": params(array().replace(b"\x02\x20\x01\x00", b"\x02\x48\x01\x00")),
    "0 bits": params(array().replace(b"\x02\x20\x01\x00", b"\x02\x00\x01\x00")),
    "another type": params(array().replace(b"\x02\x20\x01\x00", b"\x00\x20\x01\x00")),
    "another shape": params(array(shape=(8, 1))),
    "another rank": params(array(ndim=1, shape=(8,))),
    "a negative extent": params(array(shape=(-1, -8))),
    "a second array missing": TWICE,
}

ACCEPTED = {
    "32 brackets": with_metadata("[" * 32 + "]" * 32),
    "every kind of value": with_metadata('[-1.5e+3, true, null, {"a": {}, "b": []}, "\\u00E9"]'),
    "every escape": with_metadata('"\\"\\\\\\/\\b\\f\\n\\r\\t\\ud83d\\ude00"'),
    "a name in escapes": _text('"p0"', '"\\u0070\\u0030"'),
    "names of 1 to 4 bytes per character": _text('"x"', '"x\\u00e9\\u20ac\\ud83d\\ude00"'),
    "control_deps": _set(*NODE, "control_deps", value=[0, 1]),
    "storage_scope": _set("attrs", "storage_scope", value=["list_str", ["", "", ""]]),
    "device_index": _set("attrs", "device_index", value=["list_int", [1, 1, 1]]),
    "attr for attrs": _text('"attrs": {"func_name"', '"attr": {"func_name"'),
    "more attributes": _set(*ATTRS, "kernel_layout", value="OIHW" * 100),
    "entries of two numbers": _set(*NODE, "inputs", value=[[0, 0], [1, 0]]),
    "no white space": Case(json.dumps(json.loads(GRAPH), separators=(",", ":")).encode(), PARAMS),
    "much white space": Case(GRAPH.replace(b" ", b" \t\r\n "), PARAMS),
    "a scalar": _scalar("int8"),
    "a scalar bool": _scalar("bool"),
    "storage shared": _set("attrs", "storage_id", value=["list_int", [0, 1, 0]]),
    "__nop": _nop([0, 1, 0], [8], [[0, 0, 0]]),
    "no params": Case(GRAPH, struct.pack("<QQQQ", 0xF7E58D4F05049CB7, 0, 0, 0)),
    "bytes after the params": Case(GRAPH, PARAMS + b"\0"),
    "a param twice": Case(GRAPH, TWICE + array()),
}

REFUSED = REFUSED_GRAPHS | {name: Case(GRAPH, data) for name, data in REFUSED_PARAMS.items()}
