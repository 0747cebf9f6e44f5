"""What an executor is: one file of `codegen/executors`, which the others find by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlftool.codegen.options import Options
from mlftool.codegen.sources import Sources
from mlftool.frozen import frozen
from mlftool.ir.graph import Graph
from mlftool.options import CompilerOptions
from mlftool.plan.program import Program


@frozen
class Executor:
    """A way to run a planned model; each calls the same kernels.

    `options` says what was asked of the module of this name, or raises MlfError. `emit` gets the
    program, those options, and the imported graph, whose inputs and outputs are in call order. It
    raises MlfError, which says why and which executor can, for a model that it cannot run.
    """

    doc: str  # what it makes, as part of a sentence
    sources: Mapping[str, tuple[str, ...]]  # interface -> how its C files end: <module>_<end>.c
    options: Callable[[str, CompilerOptions], Options]
    emit: Callable[[Program, Options, Graph], Sources]
    # What makes a module's calls: a function of its C, or a file of its archive.
    caller: Callable[[str], str] = "tvmgen_{}___tvm_main__".format
    jumps: bool = False  # control flow is jumps between those calls, not C
