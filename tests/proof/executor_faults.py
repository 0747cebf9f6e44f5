"""Faults in what other executors than `aot` with C calls say: graphs, bytecode, packed C.

Each changes files of a module so that it computes something else, or keeps nothing apart.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

Files = dict[str, bytes]
Fault = Callable[[random.Random, Files], None]


def _graph(change: Callable[[random.Random, Any], None]) -> Fault:
    def fault(rng: random.Random, files: Files) -> None:
        name = next(n for n in files if n.endswith(".graph"))
        data = json.loads(files[name])
        change(rng, data)
        files[name] = json.dumps(data).encode()

    fault.__name__ = change.__name__
    return fault


def _calls(data: Any) -> list[Any]:
    return [n for n in data["nodes"] if n["op"] == "tvm_op"]


@_graph
def output_over_a_parameter(rng: random.Random, data: Any) -> None:
    ids, rows = data["attrs"]["storage_id"][1], data["node_row_ptr"]
    parameter = next(k for k, n in enumerate(data["nodes"]) if n["name"].startswith("p"))
    call = rng.choice([k for k, n in enumerate(data["nodes"]) if n["op"] == "tvm_op"])
    ids[rows[call]] = ids[rows[parameter]]


@_graph
def function_of_another(rng: random.Random, data: Any) -> None:
    a, b = rng.sample(_calls(data), 2)
    a["attrs"]["func_name"] = b["attrs"]["func_name"] + "_"


@_graph
def read_of_an_earlier_tensor(rng: random.Random, data: Any) -> None:
    node = rng.choice(_calls(data)[1:])
    node["inputs"][0] = [0, 0, 0]


@_graph
def smaller_tensor(rng: random.Random, data: Any) -> None:
    shapes = data["attrs"]["shape"][1]
    k = rng.choice([i for i, s in enumerate(shapes) if s and max(s) > 1])
    axis = shapes[k].index(max(shapes[k]))
    shapes[k][axis] -= 1


@_graph
def wider_elements(rng: random.Random, data: Any) -> None:
    kinds = data["attrs"]["dltype"][1]
    first = next(k for k, n in enumerate(data["nodes"]) if n["op"] == "tvm_op")
    kinds[data["node_row_ptr"][first]] = "float64"


@_graph
def output_that_is_an_input(rng: random.Random, data: Any) -> None:
    data["heads"][0] = [0, 0, 0]


@_graph
def all_in_one_storage(rng: random.Random, data: Any) -> None:
    ids = data["attrs"]["storage_id"][1]
    data["attrs"]["storage_id"][1] = [0] * len(ids)


def _vm(change: Callable[[random.Random, list[int]], None]) -> Fault:
    """In the words of the file and of the C alike."""

    def fault(rng: random.Random, files: Files) -> None:
        name = next(n for n in files if n.endswith(".vm"))
        words = np.frombuffer(files[name], "<u4").tolist()
        change(rng, words)
        files[name] = np.array(words, "<u4").tobytes()
        source = next(n for n in files if n.endswith("lib1.c"))
        listed = ", ".join(f"{w}U" for w in words)
        text = files[source].decode()
        head, _, rest = text.partition("static const uint32_t code[] = {")
        tail = rest[rest.index("};") :]
        files[source] = f"{head}static const uint32_t code[] = {{{listed}{tail}".encode()

    fault.__name__ = change.__name__
    return fault


@_vm
def other_offset(rng: random.Random, words: list[int]) -> None:
    words[-2] ^= 16  # of the last call's last argument


@_vm
def other_function(rng: random.Random, words: list[int]) -> None:
    words[2] = words[2] + 1  # of the first call


@_vm
def no_end(rng: random.Random, words: list[int]) -> None:
    del words[-1]


@_vm
def one_more_call(rng: random.Random, words: list[int]) -> None:
    words[1:1] = words[1:5]  # of the first kernel, which takes two tensors


def words_of_the_file_alone(rng: random.Random, files: Files) -> None:
    name = next(n for n in files if n.endswith(".vm"))
    words = np.frombuffer(files[name], "<u4").copy()
    words[-2] ^= 16
    files[name] = words.tobytes()


def wrapper_out_of_order(rng: random.Random, files: Files) -> None:
    name = next(n for n in files if n.endswith("lib1.c"))
    text = files[name].decode().replace(")a[0]", ")a[9]").replace(")a[1]", ")a[0]")
    files[name] = text.replace(")a[9]", ")a[1]").encode()


def other_table(rng: random.Random, files: Files) -> None:
    name = next(n for n in files if n.endswith("lib1.c"))
    text = files[name].decode()
    files[name] = text.replace("{call_0, 2,", "{call_2, 2,", 1).encode()


def _packed(change: Callable[[random.Random, str], str]) -> Fault:
    def fault(rng: random.Random, files: Files) -> None:
        name = next(n for n in files if b"mlf_packed_data(args" in files[n])
        before = files[name].decode()
        after = change(rng, before)
        assert after != before
        files[name] = after.encode()

    fault.__name__ = change.__name__
    return fault


@_packed
def tensor_moved(rng: random.Random, text: str) -> str:
    found = [m for m in re.finditer(r"workspace \+ (\d+), \d", text)]
    at = rng.choice(found)
    return text[: at.start(1)] + str(int(at[1]) + 16) + text[at.end(1) :]


@_packed
def scratch_moved(rng: random.Random, text: str) -> str:
    return re.sub(r"(mlf_packed_memory\(values, codes, 2, workspace \+ )\d+", r"\g<1>64", text)


@_packed
def step_left_out(rng: random.Random, text: str) -> str:
    steps = list(re.finditer(r"  if \(tvmgen_m_\w+\(values.*?\n  }\n", text, re.DOTALL))
    at = rng.choice(steps)
    return text[: at.start()] + text[at.end() :]


@_packed
def another_function(rng: random.Random, text: str) -> str:
    return text.replace("if (tvmgen_m_maxpool(", "if (tvmgen_m_transpose(")


@_packed
def kernel_given_the_wrong_way_round(rng: random.Random, text: str) -> str:
    return text.replace("(x_data, y_data);", "(y_data, x_data);")


@_packed
def taken_from_another_place(rng: random.Random, text: str) -> str:
    head, mark, tail = text.partition("int tvmgen_m_maxpool(TVMValue *args")
    body = tail[tail.index("{") :] if "{" in tail else tail
    wrong = body.replace("num_args, 0)", "num_args, 1)", 1)
    return head + mark + tail[: len(tail) - len(body)] + wrong


@_packed
def kernel_called_twice(rng: random.Random, text: str) -> str:
    return text.replace("  kernel_m_maxpool(x_data, y_data);\n", "", 1)


@_packed
def weights_as_input(rng: random.Random, text: str) -> str:
    return re.sub(r"(kernel_m_qgemm\(x_data), step\d+_weights", r"\1, x_data", text, count=1)


GRAPH_FAULTS = (
    output_over_a_parameter,
    function_of_another,
    read_of_an_earlier_tensor,
    smaller_tensor,
    wider_elements,
    output_that_is_an_input,
    all_in_one_storage,
)
VM_FAULTS = (
    other_offset,
    other_function,
    no_end,
    one_more_call,
    words_of_the_file_alone,
    wrapper_out_of_order,
    other_table,
)
PACKED_FAULTS = (
    tensor_moved,
    scratch_moved,
    step_left_out,
    another_function,
    kernel_given_the_wrong_way_round,
    taken_from_another_place,
    kernel_called_twice,
    weights_as_input,
)
