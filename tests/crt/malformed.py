"""54 malformed graphs and parameter files, each a small change to a pair that is accepted.

They are the cases on which TVM's C runtime was measured: it read out of bounds or crashed on 39,
stopped in an assertion or an abort on 6, took 2 for valid and refused 7.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

LIST_MAGIC = 0xF7E58D4F05049CB7
ARRAY_MAGIC = 0xDD5E40F096B4A13F


class Case(NamedTuple):
    graph: bytes
    params: bytes


def control_graph() -> dict[str, Any]:
    """Three nodes of float32: sum = x + p0."""
    attrs = {"func_name": "add", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0"}
    return {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "null", "name": "p0", "inputs": []},
            {"op": "tvm_op", "name": "sum", "attrs": attrs, "inputs": [[0, 0, 0], [1, 0, 0]]},
        ],
        "arg_nodes": [0, 1],
        "heads": [[2, 0, 0]],
        "attrs": {
            "dltype": ["list_str", ["float32"] * 3],
            "storage_id": ["list_int", [0, 1, 2]],
            "shape": ["list_shape", [[1, 8], [1, 8], [1, 8]]],
        },
        "node_row_ptr": [0, 1, 2, 3],
    }


def array(
    *,
    magic: int = ARRAY_MAGIC,
    ndim: int = 2,
    shape: tuple[int, ...] = (1, 8),
    size: int = 32,
    data: bytes = bytes(range(32)),
) -> bytes:
    head = struct.pack("<QQiiiBBH", magic, 0, 1, 0, ndim, 2, 32, 1)
    return head + struct.pack(f"<{len(shape)}qq", *shape, size) + data


def params(
    record: bytes,
    *,
    magic: int = LIST_MAGIC,
    count: int = 1,
    name: bytes = b"p0",
    length: int | None = None,
) -> bytes:
    names = struct.pack("<Q", len(name) if length is None else length) + name
    return struct.pack("<QQQ", magic, 0, count) + names + struct.pack("<Q", count) + record


GRAPH = json.dumps(control_graph()).encode()
PARAMS = params(array())
CONTROL = Case(GRAPH, PARAMS)

Change = Callable[[dict[str, Any]], object]


def changed(change: Change) -> Case:
    graph = copy.deepcopy(control_graph())
    change(graph)
    return Case(json.dumps(graph).encode(), PARAMS)


def replaced(old: str, new: str) -> Case:
    assert old.encode() in GRAPH
    return Case(GRAPH.replace(old.encode(), new.encode(), 1), PARAMS)


def with_metadata(value: str) -> Case:
    return Case(GRAPH[:-1] + b', "metadata": ' + value.encode() + b"}", PARAMS)


def _graphs() -> dict[str, Case]:
    return {
        "storage id 1e6": changed(lambda g: g["attrs"]["storage_id"][1].__setitem__(2, 10**6)),
        "storage id -1": changed(lambda g: g["attrs"]["storage_id"][1].__setitem__(2, -1)),
        "node_row_ptr last 1e6": changed(lambda g: g["node_row_ptr"].__setitem__(3, 10**6)),
        "node_row_ptr empty": changed(lambda g: g["node_row_ptr"].clear()),
        "arg node 999": changed(lambda g: g["arg_nodes"].__setitem__(1, 999)),
        "dtypes fewer than shapes": changed(lambda g: g["attrs"]["dltype"][1].pop()),
        "nodes empty": changed(lambda g: g["nodes"].clear()),
        "number for array": changed(lambda g: g.__setitem__("arg_nodes", 5)),
        "nesting 12": with_metadata("[" * 12),
        "nesting 300": with_metadata("[" * 300 + "]" * 300),
        "escape in a skipped string": with_metadata('"\\q"'),
        "unterminated string": Case(b'{"nodes', PARAMS),
        "65536 x 65536": changed(lambda g: g["attrs"]["shape"][1].__setitem__(2, [65536, 65536])),
        "0-bit dtype": changed(lambda g: g["attrs"]["dltype"][1].__setitem__(2, "float0")),
        "negative shape": changed(lambda g: g["attrs"]["shape"][1].__setitem__(2, [1, -8])),
        "short shape list": changed(lambda g: g["attrs"]["shape"][1].pop()),
        "200-char func_name": changed(
            lambda g: g["nodes"][2]["attrs"].__setitem__("func_name", "f" * 200)
        ),
        "7 dims": changed(lambda g: g["attrs"]["shape"][1].__setitem__(2, [1] * 6 + [8])),
        "long node name": changed(lambda g: g["nodes"][0].__setitem__("name", "x" * 5000)),
        "long dtype": changed(lambda g: g["attrs"]["dltype"][1].__setitem__(2, "float32" * 30)),
        "unknown key": changed(lambda g: g.__setitem__("surprise", [])),
        "words for numbers": replaced("[0, 1, 2, 3]", "[zero, one, two, three]"),
    }


def _texts() -> dict[str, Case]:
    whole = {
        "empty file": b"",
        "{": b"{",
        "[": b"[",
        "null": b"null",
        "plain text": b"hello, world",
    }
    cases = {name: Case(text, PARAMS) for name, text in whole.items()}
    for twelfth in range(1, 12):
        cut = len(GRAPH) * twelfth // 12
        cases[f"truncated to {twelfth}/12"] = Case(GRAPH[:cut], PARAMS)
    return cases


def _params() -> dict[str, Case]:
    files = {
        "params empty": b"",
        "params 8 bytes": PARAMS[:8],
        "params half": PARAMS[: len(PARAMS) // 2],
        "params minus 1 byte": PARAMS[:-1],
        "name length 5000": params(array(), length=5000),
        "count 1e6": params(array(), count=10**6),
        "array ndim 100": params(array(ndim=100)),
        "array size > data": params(array(size=10**6)),
        "array size -1": params(array(size=-1)),
        "array dims 2^31 x 2^31": params(array(shape=(2**31, 2**31))),
        "array larger shape, short data": params(array(shape=(64, 64), size=4 * 64 * 64)),
        "200-byte param name": params(array(), name=b"p" * 200),
        "unknown param name": params(array(), name=b"p9"),
        "bad array magic": params(array(magic=ARRAY_MAGIC + 1)),
        "bad list magic": params(array(), magic=LIST_MAGIC + 1),
        "array ndim -1": params(array(ndim=-1)),
    }
    return {name: Case(GRAPH, data) for name, data in files.items()}


CASES: dict[str, Case] = {**_graphs(), **_texts(), **_params()}
