"""What is alive while a node runs, and what its result may take over."""

from __future__ import annotations

from test_edit import graph, node

from mlftool.ir.liveness import Live, live

SIZE = 8  # bytes of each value of these graphs


def test_a_chain_holds_two_values_or_one() -> None:
    found = live(
        graph(node("Abs", "x", "a"), node("Neg", "a", "b"), node("Exp", "b", "y"), outputs="y")
    )
    assert found == (
        Live(SIZE, 0, 0),  # its input is the caller's
        Live(2 * SIZE, SIZE, 0),
        Live(SIZE, 0, 0),  # so is the result
    )


def test_what_is_read_again_stays() -> None:
    found = live(
        graph(
            node("Abs", "x", "a"),
            node("Neg", "a", "b"),  # beside a, which is added below
            node("Exp", "b", "c"),
            node("Add", "ca", "d"),
            node("Neg", "d", "y"),
            outputs="y",
        )
    )
    assert [n.total for n in found] == [SIZE, 2 * SIZE, 3 * SIZE, 3 * SIZE, SIZE]
    assert [n.over for n in found] == [0, 0, SIZE, SIZE, 0]


def test_a_value_that_nobody_reads_is_alive_while_it_is_made() -> None:
    found = live(graph(node("Abs", "x", "a"), node("Neg", "x", "y"), outputs="y"))
    assert [n.total for n in found] == [SIZE, 0]
