"""How a planned model is run: one emitter per executor, all over the same kernels.

An executor that cannot run a model raises MlfError that says why, and which one can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlftool.codegen.executors import aot, graph, vm
from mlftool.codegen.options import Options, aot_options, graph_options, vm_options
from mlftool.codegen.sources import Sources
from mlftool.ir.graph import Graph
from mlftool.plan.program import Program


@dataclass(frozen=True)
class Executor:
    """`options` turns the given options (None: not given) into Options, or raises MlfError.

    `emit` gets the program, its calling options, and the imported graph, whose inputs and outputs
    are in call order.
    """

    options: Callable[[str, str | None, bool | None, bool | None, bool], Options]
    emit: Callable[[Program, Options, Graph], Sources]


EXECUTORS: Mapping[str, Executor] = {
    "aot": Executor(aot_options, aot.emit),
    "graph": Executor(graph_options, graph.emit),
    "vm": Executor(vm_options, vm.emit),
}
