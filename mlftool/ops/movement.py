"""Operators that move elements without looking at them; those that only rename are views."""

from __future__ import annotations

import math

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, Operand, Trait, op
from mlftool.ops.scalar import conversions, fetch, put, tensor_operand


def _run(v: View, name: str, loops: list[tuple[str, int]], x_index: str, y_index: str) -> Kernel:
    """A copy under `loops`, of stored elements: only packed ones are taken apart."""
    raw = v.y.dtype.raw
    store = put(raw, "y", y_index, fetch(raw, "x", x_index))
    return Kernel(
        name,
        "elementwise.c.j2",
        {
            "loops": loops,
            "statements": [],
            "store": store,
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("y", v.y.dtype.c, "out", v.node.outputs[0]),
        ),
        cost=v.y.elements * 6.0,
        includes=("mlf/kernel.h", *conversions(raw)),
    )


@op("mlf.Copy", Trait.MOVES_DATA)
def copy(v: View) -> Kernel:
    """The input's bytes in the output's buffer, for outputs that are views of something else."""
    return _run(v, "portable.copy", [("i0", v.y.elements)], "i0", "i0")


for _name in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"):
    op(_name, Trait.VIEW, Trait.MOVES_DATA)(copy)


@op("Transpose", Trait.MOVES_DATA)
def transpose(v: View) -> Kernel:
    """y[i_perm] = x[i], with axes that stay together merged into one."""
    perm = tuple(v.attr("perm", tuple(reversed(range(len(v.x(0).shape))))))
    shape, perm = merged_axes(v.x(0).shape, perm)
    steps = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    out = [shape[p] for p in perm]
    loops = [(f"i{k}", n) for k, n in enumerate(out)]
    x_index = (
        " + ".join(f"i{k} * {steps[p]}" if steps[p] != 1 else f"i{k}" for k, p in enumerate(perm))
        or "0"
    )
    y_index = (
        " + ".join(
            f"i{k} * {math.prod(out[k + 1 :])}" if math.prod(out[k + 1 :]) != 1 else f"i{k}"
            for k in range(len(out))
        )
        or "0"
    )
    return _run(v, "portable.transpose", loops, x_index, y_index)


def merged_axes(
    shape: tuple[int, ...],
    perm: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same transpose with extents of 1 dropped and axes that move together merged."""
    kept = [p for p in perm if shape[p] != 1]
    groups: list[list[int]] = []
    order = sorted(kept)
    for p in kept:
        if groups and order.index(p) == order.index(groups[-1][-1]) + 1:
            groups[-1].append(p)
        else:
            groups.append([p])
    ranked = sorted(range(len(groups)), key=lambda g: groups[g][0])
    new_shape = tuple(math.prod(shape[p] for p in groups[g]) for g in ranked)
    return new_shape, tuple(ranked.index(g) for g in range(len(groups)))


@op("Concat", Trait.MOVES_DATA, Trait.ORDER_PRESERVING)
def concat(v: View) -> Kernel:
    """Inputs one after the other along `axis`."""
    axis = v.attr("axis") % len(v.y.shape)
    inner = math.prod(v.y.shape[axis + 1 :])
    outer = math.prod(v.y.shape[:axis])
    operands, parts, offset = [], [], 0
    for k, name in enumerate(v.core.inputs):
        type_ = v.type(name)
        run = type_.shape[axis] * inner
        operands.append(tensor_operand(v.graph, f"x{k}", name))
        parts.append({"k": k, "run": run, "offset": offset})
        offset += run
    return Kernel(
        "portable.concat",
        "concat.c.j2",
        {"outer": outer, "row": offset, "parts": parts},
        (*operands, Operand("y", v.y.dtype.c, "out", v.node.outputs[0])),
        cost=v.y.elements * 5.0,
    )
