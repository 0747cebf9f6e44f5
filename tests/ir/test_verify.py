"""The verifier refuses every kind of broken graph, and says after which pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from mlftool.ir import dtype
from mlftool.ir.edit import Editor, toposort
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.ir.verify import verify

F = TensorType(dtype.float32, (2,))


def graph() -> Graph:
    """x -> Add(x, c) = y -> Relu(y) = z"""
    return Graph(
        "g",
        ("x",),
        ("z",),
        (Node("Add", ("x", "c"), ("y",), name="a"), Node("Relu", ("y",), ("z",), name="r")),
        dict.fromkeys("xcyz", F),
        {"c": np.zeros(2, np.float32)},
    )


def fused(**changes: object) -> Graph:
    g = graph()
    node = Node("Relu", ("x", "c"), ("z",), {}, "f", g.nodes)
    return g.replace(nodes=(replace(node, **changes),))


BROKEN: dict[str, tuple[Callable[[], Graph], str]] = {
    "order": (lambda: graph().replace(nodes=graph().nodes[::-1]), "reads undefined 'y'"),
    "undefined": (lambda: graph().replace(inputs=()), "reads undefined 'x'"),
    "twice": (lambda: graph().replace(nodes=graph().nodes * 2), "'y' is defined twice"),
    "untyped": (lambda: graph().replace(types=dict.fromkeys("xcz", F)), "'y' has no type"),
    "output": (lambda: graph().replace(outputs=("q",)), "output 'q' is never computed"),
    "const_shape": (lambda: graph().replace(consts={"c": np.zeros(3, np.float32)}), "shape of"),
    "const_dtype": (lambda: graph().replace(consts={"c": np.zeros(2, np.int8)}), "dtype of"),
    "body_inputs": (lambda: fused(inputs=("x",)), "inputs differ from its body's"),
    "body_output": (lambda: fused(body=graph().nodes[:1]), "output not last"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_graphs_are_caught(case: str) -> None:
    make, message = BROKEN[case]
    with pytest.raises(AssertionError, match="after a pass: ") as caught:
        verify(make(), "a pass")
    assert message in str(caught.value)


def test_sound_graphs_pass() -> None:
    for sound in (graph(), fused()):
        assert verify(sound, "a pass") is sound


def test_text_form() -> None:
    assert str(graph()).splitlines() == [
        "graph g(%x: float32[2]) {",
        "  %y: float32[2] = Add(%x, <float32[2]>)",
        "  %z: float32[2] = Relu(%y)",
        "  return %z",
        "}",
    ]


def test_editor_drops_what_nobody_needs() -> None:
    e = Editor(graph())
    e.rename("y", "x")
    done = verify(e.finish(), "edit")
    assert [n.op for n in done.nodes] == ["Relu"]
    assert set(done.types) == {"x", "z"}
    assert not done.consts


def test_toposort_names_a_value_on_a_cycle() -> None:
    a, b = Node("A", ("q",), ("p",)), Node("B", ("p",), ("q",))
    with pytest.raises(ValueError, match=r"^[pq]$"):
        toposort([a, b], ["p"])


def test_every_element_type_is_known_by_all_its_names() -> None:
    import onnx

    for row in dtype.DTYPES:
        spoken = np.dtype(object) if row.kind == "s" else row.numpy
        assert onnx.helper.tensor_dtype_to_np_dtype(row.onnx) == spoken
        assert row.numpy.itemsize == row.bytes  # numpy keeps a packed element in a byte
        assert dtype.of(np.zeros(1, row.numpy)) is row
        if row.kind in "iu":
            info = ml_dtypes.iinfo(row.numpy)
            assert row.range == (info.min, info.max)


@pytest.mark.parametrize("row", dtype.DTYPES, ids=str)
def test_stored_elements_can_be_restored(row: dtype.DType) -> None:
    for count in range(10):
        values = np.arange(count) % 2 if row.kind == "b" else np.arange(count) % 5 - 2
        array = values.astype(row.numpy)
        data = dtype.stored(array).tobytes()
        assert len(data) == row.size(count)
        again = dtype.restored(data, row, array.shape)
        assert again.dtype == array.dtype
        assert again.tobytes() == array.tobytes()


def test_packed_elements_start_in_the_lowest_bits() -> None:
    assert dtype.stored(np.array([1, -1, 2], ml_dtypes.int4)).tolist() == [0xF1, 0x02]
    assert dtype.stored(np.array([3, 0, 1, 2, 1], ml_dtypes.uint2)).tolist() == [0x93, 0x01]


def test_strings_become_slots_and_again_strings() -> None:
    words = np.array([["", "a b", "grün"], ["x" * 63, "的中", "\t"]], object)
    slots = dtype.slots(words)
    assert slots.dtype == dtype.string.numpy
    assert slots.tobytes()[64 * 3 : 64 * 4] == b"x" * 63 + b"\0"
    assert dtype.texts(slots).tolist() == words.tolist()
    numbers = np.arange(3)
    assert dtype.slots(numbers) is numbers
    assert dtype.texts(numbers) is numbers


@pytest.mark.parametrize("text", ["x" * 64, "ü" * 32, "a\0b"])
def test_a_string_that_does_not_fit_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="expected at most 63"):
        dtype.slots(np.array([text], object))
