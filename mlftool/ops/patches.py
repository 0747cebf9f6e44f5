"""`mlf.Patches`: layers computed band by band, which plan/patches.py makes.

    Patches(x) -> y   graphs: a layer for so many rows, `runs`: what bands call and move

Each graph is one layer for one number of rows, so it is planned on its own. Between the layers are
buffers in the scratch area `rows`, each with the rows that some layer still has to read. A step
calls the layers one after the other and moves the rows that it keeps.
Consecutive steps that differ in where they read and write only are one loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.frozen import frozen
from mlftool.ir.graph import View
from mlftool.ir.operations import copies
from mlftool.ops.base import Kernel, Operand, op
from mlftool.ops.scalar import tensor_operand

NAME = "mlf.Patches"
INPUT, OUTPUT, ROWS = "x", "y", "rows"


@frozen
class Move:
    """Rows that are kept: `size` bytes of `rows`, from one offset to another."""

    to: int
    start: int
    size: int


@frozen
class Layer:
    """A call of graph `key`; its arguments are offsets in bytes, each from a base."""

    key: str
    arguments: tuple[tuple[str, int], ...]


Step = tuple[Move | Layer, ...]
Run = tuple[int, Step, Step]  # how many steps are one loop, its first step and its next


def key(k: int) -> str:
    """The name of layer `k` among the node's graphs."""
    return f"band{k}"


@op(NAME)
def patches(v: View) -> Kernel:
    (read,), (made,) = v.node.inputs, v.node.outputs
    x, y = v.type(read), v.type(made)
    sizes = {INPUT: x.dtype.bytes, OUTPUT: y.dtype.bytes, ROWS: 1}
    runs: Sequence[Run] = v.attr("runs")
    turns: dict[str, int] = {}
    for n, layer in ((n, s) for n, first, _ in runs for s in first if isinstance(s, Layer)):
        assert len(layer.arguments) == len(v.node.graphs[layer.key].inputs) + 1, layer.key
        turns[layer.key] = turns.get(layer.key, 0) + n
    moved = sum(n * s.size for n, first, _ in runs for s in first if isinstance(s, Move))
    return Kernel(
        "patches",
        "patches.c.j2",
        {"runs": [(n, list(_lines(first, then, sizes))) for n, first, then in runs]},
        (
            tensor_operand(v.graph, INPUT, read),
            Operand(OUTPUT, y.dtype.c, "out", made),
            *([Operand(ROWS, "uint8_t", "scratch", bytes=v.attr("bytes"))] * bool(v.attr("bytes"))),
        ),
        operations=copies(moved),
        overlap={} if v.attr("ahead") is None else {read: v.attr("ahead")},
        turns=turns,
    )


def _lines(first: Step, then: Step, sizes: dict[str, int]) -> Iterator[tuple[str, str]]:
    """The name of the graph that a line calls, or "" for a move, and its arguments."""
    for a, b in zip(first, then, strict=True):
        if isinstance(a, Move) or isinstance(b, Move):
            assert isinstance(a, Move)
            to = f"{ROWS} + {a.to}" if a.to else ROWS
            start = f"{ROWS} + {a.start}" if a.start else ROWS
            yield "", f"{to}, {start}, {a.size}"
        else:
            pairs = zip(a.arguments, b.arguments, strict=True)
            yield a.key, ", ".join(_place(*m, n - m[1], sizes) for m, (_, n) in pairs)


def _place(base: str, offset: int, distance: int, sizes: dict[str, int]) -> str:
    text = f"{base} + {offset // sizes[base]}" if offset else base
    return f"{text} + k * {distance // sizes[base]}" if distance else text
