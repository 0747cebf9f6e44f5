"""An Editor does to a graph what it says, in the order it says; hypothesis tries whole sequences of
edits against a plain list."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlftool.ir import dtype
from mlftool.ir.edit import Editor, body_values, toposort
from mlftool.ir.graph import Graph, Node, TensorType
from mlftool.ir.verify import verify

F = TensorType(dtype.float32, (2,))


def node(op: str, inputs: str, out: str) -> Node:
    """A node whose values are single letters; its name is its output's."""
    return Node(op, tuple(inputs), tuple(out), name=out)


def graph(*nodes: Node, outputs: str, inputs: str = "x", consts: str = "") -> Graph:
    values = {*inputs, *consts, *(v for n in nodes for v in (*n.inputs, *n.outputs) if v)}
    zeros = {c: np.zeros(2, np.float32) for c in consts}
    return Graph("g", tuple(inputs), tuple(outputs), nodes, dict.fromkeys(values, F), zeros)


def diamond() -> Graph:
    """x -> a -> (b, c) -> d"""
    return graph(
        node("Abs", "x", "a"),
        node("Neg", "a", "b"),
        node("Exp", "a", "c"),
        node("Add", "bc", "d"),
        outputs="d",
    )


def ops(g: Graph) -> list[str]:
    return [n.op for n in g.nodes]


def test_nothing_done_changes_nothing() -> None:
    g = diamond()
    assert Editor(g).finish() == g


def test_who_makes_and_who_reads() -> None:
    g = diamond()
    e = Editor(g)
    a, b, c, d = g.nodes
    assert [e.producer(name) for name in "xabcd"] == [None, a, b, c, d]
    assert [e.users(name) for name in "xabcd"] == [[a], [b, c], [d], [d], []]
    assert e.only_user("b") is d
    assert e.only_user("a") is None  # there are two
    assert e.only_user("d") is None  # nobody; the graph's own reader does not count
    assert e.users("unheard") == []
    assert e.producer("unheard") is None


def test_an_output_has_no_only_user() -> None:
    """It could not be taken away with its user."""
    g = graph(node("Abs", "x", "a"), node("Neg", "a", "b"), outputs="ab")
    assert Editor(g).users("a") == [g.nodes[1]]
    assert Editor(g).only_user("a") is None


def test_a_node_that_reads_a_value_twice_is_one_user() -> None:
    g = graph(node("Abs", "x", "a"), node("Mul", "aa", "b"), outputs="b")
    e = Editor(g)
    assert e.only_user("a") is g.nodes[1]
    e.remove(g.nodes[1])
    assert e.users("a") == []


def test_holds_this_very_node() -> None:
    g = diamond()
    e = Editor(g)
    assert e.holds(g.nodes[0])
    assert not e.holds(replace(g.nodes[0]))  # equal, but another
    e.remove(g.nodes[0])
    assert not e.holds(g.nodes[0])


def test_substitutes_stand_where_the_last_stood() -> None:
    g = diamond()
    e = Editor(g)
    b, d = g.nodes[1], g.nodes[3]
    first, second = node("Sin", "a", "p"), node("Mul", "pc", "d")
    e.types["p"] = F
    e.substitute([d, b], [first, second])
    assert [n.op for n in e.nodes] == ["Abs", "Exp", "Sin", "Mul"]
    assert (e.producer("p"), e.producer("d"), e.producer("b")) == (first, second, None)
    assert e.users("a") == [g.nodes[2], first]
    assert e.position(first) < e.position(second)
    assert e.position(g.nodes[2]) < e.position(first)
    done = verify(e.finish(), "edit")
    assert ops(done) == ["Abs", "Exp", "Sin", "Mul"]
    assert "b" not in done.types


def test_a_substitute_may_make_the_same_value() -> None:
    g = diamond()
    e = Editor(g)
    new = node("Cos", "a", "b")
    e.substitute([g.nodes[1]], [new])
    assert e.producer("b") is new
    assert ops(verify(e.finish(), "edit")) == ["Abs", "Cos", "Exp", "Add"]


def test_rename_reaches_every_reader() -> None:
    g = graph(node("Abs", "x", "a"), node("Mul", "aa", "b"), node("Neg", "a", "c"), outputs="abc")
    e = Editor(g)
    e.rename("a", "x")
    done = verify(e.finish(), "edit")
    assert [(n.op, n.inputs) for n in done.nodes] == [("Mul", ("x", "x")), ("Neg", ("x",))]
    assert done.outputs == ("x", "b", "c")
    assert g.outputs == ("a", "b", "c")  # the old graph is as it was


def test_fresh_names_are_free() -> None:
    e = Editor(diamond())
    assert [e.fresh(hint, F) for hint in ("q", "q", "a", "q")] == ["q", "q__1", "a__1", "q__2"]
    name = e.const("c", np.zeros((3, 1), np.int8))
    assert name == "c__1"
    assert e.types[name] == TensorType(dtype.int8, (3, 1))


def test_add_makes_but_does_not_place() -> None:
    g = diamond()
    e = Editor(g)
    made = e.add("Sin", ["a"], g.nodes[1], "b", {"k": 1})
    assert (made.op, made.inputs, made.outputs, made.name) == ("Sin", ("a",), ("b",), "b")
    assert made.attrs == {"k": 1}
    assert not e.holds(made)


def test_finish_drops_nodes_values_and_constants_that_nothing_needs() -> None:
    g = graph(
        node("Abs", "x", "a"), node("Add", "ac", "b"), node("Mul", "xk", "d"),
        outputs="b", consts="ck",
    )  # fmt: skip
    done = Editor(g).finish()
    assert ops(done) == ["Abs", "Add"]
    assert (set(done.consts), set(done.types)) == ({"c"}, set("xabc"))


def test_finish_keeps_inputs_that_nothing_reads_and_what_a_body_names() -> None:
    body = (node("Abs", "x", "a"), node("Neg", "a", "b"))
    fused = Node("Neg", ("x",), ("b",), {}, "f", body)
    g = graph(fused, outputs="b", inputs="xy").replace(types=dict.fromkeys("xyab", F))
    done = verify(Editor(g).finish(), "edit")
    assert done.inputs == ("x", "y")
    assert set(done.types) == set("xyab")
    assert body_values(fused) == set("xab")


def test_an_empty_name_is_no_value() -> None:
    """As ONNX spells an operand or a result that is left out."""
    g = graph(Node("Split", ("x",), ("a", ""), name="s"), Node("Clip", ("a", "", "x"), ("b",)),
              outputs="b")  # fmt: skip
    e = Editor(g)
    assert e.producer("") is None
    assert ops(e.finish()) == ["Split", "Clip"]


def test_a_cycle_is_named() -> None:
    with pytest.raises(ValueError, match=r"^[ab]$"):
        toposort([node("Neg", "b", "a"), node("Neg", "a", "b")], ["b"])


@given(st.data())
def test_toposort_puts_producers_first_and_keeps_what_is_right(data: st.DataObject) -> None:
    """Random graphs in a random order: all that is needed, each after its producers; an order that
    is right already stays."""
    count = data.draw(st.integers(1, 12))
    names = [f"v{k}" for k in range(count)]
    nodes = [
        Node("F", tuple(data.draw(st.lists(st.sampled_from(["x", *names[:k]]), max_size=3))),
             (names[k],), name=names[k])
        for k in range(count)
    ]  # fmt: skip
    wanted = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    needed, todo = set(), list(wanted)
    while todo:
        if (name := todo.pop()) not in needed and name != "x":
            needed.add(name)
            todo += nodes[names.index(name)].inputs
    order = toposort(data.draw(st.permutations(nodes)), wanted)
    assert {n.name for n in order} == needed
    seen = {"x"}
    for n in order:
        assert set(n.inputs) <= seen
        seen |= set(n.outputs)
    assert toposort(nodes, wanted) == [n for n in nodes if n.name in needed]


@given(st.data())
def test_any_sequence_of_edits(data: st.DataObject) -> None:
    """Chains of unary nodes: after each edit the Editor says what a plain list of nodes says."""
    count = data.draw(st.integers(2, 6))
    values = ["x", *(f"v{k}" for k in range(count))]
    chain = [Node("F", (values[k],), (values[k + 1],), name=f"n{k}") for k in range(count)]
    g = Graph("g", ("x",), (values[-1],), tuple(chain), dict.fromkeys(values, F), {})
    e, plain = Editor(g), list(chain)
    for step in range(data.draw(st.integers(1, 8))):
        k = data.draw(st.integers(0, len(plain) - 1))
        old = plain[k]
        if data.draw(st.booleans()):  # two for one
            between = e.fresh(old.outputs[0], F)
            news = [Node("G", old.inputs, (between,), name=f"s{step}"),
                    Node("G", (between,), old.outputs, name=f"t{step}")]  # fmt: skip
        else:  # another for one
            news = [Node("H", old.inputs, old.outputs, name=f"u{step}")]
        e.substitute([old], news)
        plain[k : k + 1] = news
        assert e.nodes == plain
        for name in e.types:
            assert e.producer(name) is next((n for n in plain if name in n.outputs), None)
            assert e.users(name) == [n for n in plain if name in n.inputs]
        assert sorted(plain, key=e.position) == plain
    assert list(verify(e.finish(), "edits").nodes) == plain
