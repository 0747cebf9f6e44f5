"""One model on its way to an archive: its options, and its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mlftool.backends.report import Report
from mlftool.codegen.options import Options
from mlftool.codegen.sources import Sources
from mlftool.frontends.models import Source
from mlftool.frozen import field, frozen
from mlftool.ir.external import Library
from mlftool.ir.graph import Graph
from mlftool.options import CompilerOptions
from mlftool.plan.flash import bytes_read, constants_bytes
from mlftool.plan.program import Call, Program
from mlftool.proof.certificate import Proof
from mlftool.targets import Target


@frozen
class ModuleSpec(CompilerOptions):
    """One model to compile, a file or a model in memory, and the compiler's options.

    `data_files` are external data the caller vouches for. With `workspace_io` inputs and outputs
    live in the workspace, where they may share memory with intermediate tensors, and the header has
    functions that say where (TVM's use_workspace_io). None leaves a choice to the executor.
    """

    model: Source
    module_name: str = "default"
    target: str | Target = "host"
    executor: str = "aot"
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    input_values: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict)  # constants
    data_files: tuple[Path, ...] = ()
    only_declared: bool = False  # no external data but `data_files`: none from its folder
    runtime: str = "crt"
    opt_level: int = 3
    tuning: Path | None = None  # a record of `mlftool tune`, which chooses kernels
    disabled_pass: tuple[str, ...] = ()
    cc: str = ""  # the compiler of a target of kind llvm; "" is the usual one
    backend_files: tuple[Path, ...] = ()  # Python files that define backends
    output_names: tuple[str, ...] = ()  # instead of the model's own
    ram_goal: int | None = None  # as ram_budget, but the least plan found is taken if none fits


@frozen
class Planned:
    """A model, and every decision that the compiler takes before it writes C."""

    spec: ModuleSpec
    options: Options
    imported: Graph
    program: Program

    @property
    def constants_bytes(self) -> int:
        """Of flash."""
        return constants_bytes(self.program)

    def flash_of(self, call: Call) -> int:
        """Bytes of constants that one step reads, those too that others read."""
        return bytes_read(call)

    def inside(self, call: Call) -> Iterator[tuple[str, tuple[float, int]]]:
        """Steps of a step's subgraphs: the node's name, its instructions in all turns and its bytes
        as of `flash_of`."""
        for graph, program in call.parts.items():
            turns = call.kernel.turns.get(graph, 1)
            for step in program.calls:
                yield step.node.name, (turns * step.kernel.cost, self.flash_of(step))


@frozen
class Module(Planned):
    """A compiled model: its graph, the compiler's decisions, and its files."""

    sources: Sources
    proof: Proof
    libraries: tuple[Library, ...] = ()  # that the code of its backends is linked with
    report: Report | None = None  # what its backends were given

    @property
    def ram_bytes(self) -> int:
        """Of working memory, inputs, outputs and states."""
        graph = self.imported
        names = () if self.program.workspace_io else (*graph.taken, *graph.given)
        ends = sum(graph.types[n].bytes for n in names)
        return self.program.memory.size_bytes + ends + self.sources.state_bytes

    @property
    def calls_runtime(self) -> bool:
        """Whether its code needs the C runtime: only our own C interface does not."""
        return self.options.interface_api != "c"
