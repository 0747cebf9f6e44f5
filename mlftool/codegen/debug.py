"""The steps of a Program as separate C functions, for the debug executor.

The kernels are those of every executor; only their caller differs.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.codegen.kernels import Step, write_kernels
from mlftool.codegen.templates import render
from mlftool.codegen.weights import place
from mlftool.frozen import frozen
from mlftool.ir.graph import Node
from mlftool.plan.program import Program


@frozen
class DebugStep:
    """One call. `storages` are what its pointers point to, in order: name, offset in it, and how
    many bytes it has if it is scratch."""

    name: str
    node: Node
    kernel: str
    storages: tuple[tuple[str, int, int], ...]


def debug_c(
    program: Program, module: str
) -> tuple[str, Mapping[str, bytes], tuple[DebugStep, ...]]:
    """One C file, the files that it needs, and its functions in the order in which they must be
    called."""
    kernels = write_kernels(program, module)
    steps = tuple(_step(k, step) for k, step in enumerate(kernels.steps))
    weights = place(kernels.constants, module, "auto")
    text = render(
        "debug.c.j2",
        module=module,
        target=program.target.tvm,
        includes=kernels.includes,
        weights=weights,
        functions=kernels.functions,
        steps=[
            {
                "name": d.name,
                "symbol": s.function.symbol,
                "arguments": _arguments(s),
                "uses": d.storages,
                "comment": s.comment,
            }
            for d, s in zip(steps, kernels.steps, strict=True)
        ],
    )
    return text, weights.files, steps


def _step(k: int, step: Step) -> DebugStep:
    given = [a for a in step.arguments if a.constant is None]
    scratch = [a for a in given if a.operand.role == "scratch"]
    size = max((a.offset + a.operand.bytes for a in scratch), default=0)
    storages = tuple((a.storage, a.offset, size if a in scratch else 0) for a in given)
    return DebugStep(f"mlf_debug_step_{k}", step.call.node, step.call.kernel.name, storages)


def _arguments(step: Step) -> list[str]:
    result, at = [], 0
    for a in step.arguments:
        if a.constant is not None:
            result.append(a.constant.name)
        else:
            result.append(f"({a.pointer})at[{at}]")
            at += 1
    return result
