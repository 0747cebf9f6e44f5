"""The page to read first: how a model becomes an archive.

.onnx, .tflite --import--> Graph --PIPELINE--> Graph --lower--> Program --emit--> Bundle --> .tar
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from onnx import ModelProto

from mlftool.backends import Backend, Library, Report, backends, partition
from mlftool.backends import wanted as wanted_backends
from mlftool.codegen.executors import EXECUTORS
from mlftool.codegen.names import check_module_name, parameter
from mlftool.codegen.options import Options
from mlftool.codegen.share import share
from mlftool.codegen.sources import Sources
from mlftool.codegen.tuned import chooser
from mlftool.crash import as_ours, signature
from mlftool.describe import bundle
from mlftool.errors import BAD_INPUT, MlfError, Problem, did_you_mean
from mlftool.frontends.load import load_model
from mlftool.frontends.models import TFLite, imported, model_name, opened
from mlftool.frontends.states import with_states
from mlftool.frontends.streaming.rewrite import streamed
from mlftool.frozen import frozen, replace
from mlftool.ir.graph import Graph
from mlftool.ir.verify import verify
from mlftool.limits import is_exhausted
from mlftool.minimise import minimise
from mlftool.mlf import Bundle
from mlftool.module import Module, ModuleSpec, Planned
from mlftool.options import FILES, OPTIONS, Choice, Option, unmet
from mlftool.passes import PIPELINE, outputs
from mlftool.passes.order import Pass, Rewrite, ordered, wanted
from mlftool.plan.budget import (
    NONE,
    Lower,
    Plans,
    budget_bytes,
    fitted,
    frontier,
    in_budget,
    in_patches,
    outside_bytes,
)
from mlftool.plan.flash import in_flash
from mlftool.plan.lower import lower
from mlftool.plan.patches import OFF, check_patches
from mlftool.plan.program import Program
from mlftool.plan.select import Choose, lean
from mlftool.progress import step
from mlftool.proof.certificate import Proof
from mlftool.proof.modules import Emitted, prove
from mlftool.targets import Target, debug_level
from mlftool.targets.pools import parse_pools
from mlftool.targets.strings import parse, without_backends

__all__ = ["Module", "ModuleSpec", "compile_module", "compile_modules", "plan_module"]


def compile_modules(specs: Sequence[ModuleSpec]) -> Bundle:
    """One archive with a module per spec. Raises MlfError with every problem of every model."""
    return bundle(compile_specs(specs))


def compile_specs(specs: Sequence[ModuleSpec]) -> list[Module]:
    """A module per spec, of different names. Raises MlfError with every problem of every model."""
    modules: list[Module] = []
    problems: list[Problem] = []
    code, cause = BAD_INPUT, None
    for spec in specs:
        try:
            modules.append(compile_module(spec))
        except MlfError as error:
            problems += error.problems
            code, cause = max(code, error.exit_code), cause or error.__cause__
    if len({s.module_name for s in specs}) != len(specs):
        problems.append(
            Problem(
                "MLF0503",
                "Multiple modules should have unique names; got "
                + ", ".join(s.module_name for s in specs),
            )
        )
    if problems:
        raise MlfError(problems, code) from cause
    return modules


def compile_module(spec: ModuleSpec, choose: Choose | None = None) -> Module:
    """Import, rewrite, plan and emit one model; `choose` takes the kernels instead of a record.

    Raises MlfError and nothing else: a bug of ours is MLF0900, with the model in its report.
    """
    with _guarded(spec, choose, "compiling"):
        return _compile(spec, choose)


def plan_module(spec: ModuleSpec, choose: Choose | None = None) -> Planned:
    """What `compile_module` decides: its kernels, their order, their constants and memory. It takes
    half as long, since no C is written and proven. Raises MlfError as `compile_module`."""
    with _guarded(spec, choose, "planning"):
        clock = _Clock(spec.module_name)
        found = _lowered(spec, choose, clock)
        return _planned(found.spec, found, _in_memory(found), clock)


def compile_frontier(spec: ModuleSpec, goals: int) -> list[Module]:
    """Modules that take less RAM at the price of more instructions, by the compiler's estimate: the
    least RAM first, the usual plan last. Each is what its spec, which has a `ram_budget`, compiles
    to; `goals` plans are tried between the first and the last. Raises MlfError as `compile_module`.
    """
    spec = replace(spec, ram_budget=NONE, ram_goal=None, patches=OFF, tuning=None)
    with _guarded(spec, None, "looking for plans of less RAM for"):
        clock = _Clock(spec.module_name)
        found = _lowered(spec, None, clock)
        made = []
        for program in frontier(found.program, found.again, goals):
            ram = program.memory.size_bytes + found.outside(program)
            usual = program is found.program
            own = found.spec if usual else replace(found.spec, ram_budget=str(ram))
            made.append(_emitted(own, found, program, clock))
        return made


@contextmanager
def _guarded(spec: ModuleSpec, choose: Choose | None, what: str) -> Iterator[None]:
    """Says what is being done; an exception that is no MlfError becomes one, MLF0900. A model's own
    infinities are no reason for numpy to warn."""
    target = spec.target if isinstance(spec.target, str) else spec.target.name
    try:
        with np.errstate(all="ignore"), step(f"{what} {spec.module_name} for {target}"):
            yield
    except MlfError:
        raise
    except Exception as error:
        raise _crashed(spec, choose, error) from error


def _crashed(spec: ModuleSpec, choose: Choose | None, error: Exception) -> MlfError:
    """The error to raise instead of an exception that our code did not raise on purpose."""
    kind = signature(error)

    def fails(model: ModelProto) -> bool:
        names = {i.name for i in model.graph.input}
        shapes = {k: v for k, v in spec.input_shapes.items() if k in names}
        values = {k: v for k, v in spec.input_values.items() if k in names}
        part = replace(spec, model=model, input_shapes=shapes, input_values=values)
        try:
            _compile(replace(part, output_names=()), choose)
        except Exception as again:
            return signature(again) == kind
        return False

    files: dict[str, bytes] = {}
    about = f"module {spec.module_name}, {spec.target}, {spec.executor}"
    source = opened(spec.model)
    if isinstance(source, TFLite):
        files["model.tflite"] = source.data
    elif not isinstance(error, MemoryError) and not is_exhausted():
        try:
            model = load_model(source, spec.data_files, spec.only_declared)
            files["model.onnx"] = minimise(model, fails).SerializeToString()
        except Exception as second:
            about += f"; no model: {signature(second)}"
    return as_ours(error, files=files, about=about)


@frozen
class _Lowered:
    """A model's usual plan, what else its module is emitted from, and how to plan it again."""

    spec: ModuleSpec  # with the backends that its target names
    options: Options
    imported: Graph
    program: Program
    again: Lower
    file: str
    libraries: tuple[Library, ...]
    reports: tuple[Report, ...]

    def outside(self, program: Program) -> int:
        """Bytes of the module's RAM besides the working memory of one of its programs."""
        return outside_bytes(program, self.imported, EXECUTORS[self.spec.executor].jumps)


def _compile(spec: ModuleSpec, choose: Choose | None) -> Module:
    clock = _Clock(spec.module_name)
    found = _lowered(spec, choose, clock)
    return _emitted(found.spec, found, _in_memory(found), clock)


def _lowered(spec: ModuleSpec, choose: Choose | None, clock: _Clock) -> _Lowered:
    check_module_name(spec.module_name)
    spec, found = _backends(spec)
    target, pools = _target(spec), parse_pools(spec.pools)
    if found and target.kind != "c":
        text = f"backends with a target of kind {target.kind}: their code needs other headers"
        raise MlfError(Problem("MLF0405", text, help="use a target of kind c"))
    options = _options(spec, target)
    options = replace(options, backends=tuple((b.name, b.hooks) for b in found))
    if choose is None and spec.tuning is not None:
        choose = chooser(spec.tuning, target.name, spec.float_mode)
    given, sha256 = imported(
        *(spec.model, spec.module_name, spec.input_shapes, spec.data_files, spec.only_declared),
        spec.input_values,
    )
    file = str(model_name(spec.model))
    given = with_states(outputs.rename_outputs(given, spec.output_names, file), spec.state, file)
    given = streamed(given, spec.stream, spec.model, file)
    options = replace(options, model_sha256=sha256)
    graph = verify(given, "import")
    clock.stage("import", graph)
    reports: list[Report] = []
    pipeline = _with_backends(found, spec, target, reports)
    for p in wanted(pipeline, spec.opt_level, spec.disabled_pass):
        graph = verify(everywhere(p.run, graph) if p.inside else p.run(graph), p.name)
        clock.stage(p.name, graph)
    check_patches(spec.patches)
    program = lower(graph, target, file, spec.workspace_io, pools, choose)

    def lowered(changed: Graph, spare: bool) -> Program:
        graph, inside = verify(changed, "patches"), lean if spare else None
        return lower(graph, target, file, spec.workspace_io, pools, choose, inside)

    libraries = tuple(dict.fromkeys(x for b in found for x in b.libraries))
    return _Lowered(spec, options, given, program, lowered, file, libraries, tuple(reports))


def _in_memory(found: _Lowered) -> Program:
    """The plan that the spec's patches and budgets ask for. Raises MlfError if none fits."""
    spec = found.spec
    program = in_patches(found.program, spec.patches, found.again)
    if (most := budget_bytes(spec.ram_budget)) is not None:
        hint = "`mlftool memmap` shows what takes the RAM"
        if not spec.workspace_io and OPTIONS["workspace_io"].understood_by(spec.executor):
            hint += "; workspace_io lets inputs and outputs share it"
        return in_budget(program, most, found.outside, found.again, found.file, hint)
    if spec.ram_goal is not None:
        return fitted(program, spec.ram_goal - found.outside(program), Plans(found.again))
    return program


def _packed(spec: ModuleSpec, found: _Lowered, program: Program) -> Program:
    """With constants that fit the spec's budget. Raises MlfError if they can't be made to."""
    most, ram = budget_bytes(spec.weights_budget), budget_bytes(spec.ram_budget)
    if most is None:
        return program
    arena = None if ram is None else ram - found.outside(program)
    return in_flash(program, most, arena, parse_pools(spec.pools), found.file)


def _planned(spec: ModuleSpec, found: _Lowered, program: Program, clock: _Clock) -> Planned:
    program = _packed(spec, found, program)
    if spec.optimize == "size":
        program = share(program)
    name = program.target.name
    clock.stage(f"lower for {name}: {program.memory.size_bytes} bytes of workspace", program.graph)
    _judge(spec, program, found.file)
    return Planned(spec, found.options, found.imported, program)


def _emitted(spec: ModuleSpec, found: _Lowered, program: Program, clock: _Clock) -> Module:
    planned = _planned(spec, found, program, clock)
    options, given, program = planned.options, planned.imported, planned.program
    sources = EXECUTORS[spec.executor].emit(program, options, given)
    clock.stage("emit", program.graph)
    proof = _proof(program, options, given, sources, spec)
    clock.stage("proof", program.graph)
    return Module(*(spec, options, given, program, sources, proof, found.libraries), *found.reports)


def _with_backends(
    found: Sequence[Backend], spec: ModuleSpec, target: Target, reports: list[Report]
) -> Sequence[Pass]:
    """The pipeline, in which these backends get their part before anything is fused; what they
    were given is added to `reports`."""
    if not found:
        return PIPELINE

    def offload(graph: Graph) -> Graph:
        made, report = partition(graph, found, spec.module_name, target)
        reports.append(report)
        return made

    own = Pass(offload, after="drop_constant_channels", before="fuse_chains", inside=False)
    return ordered((*PIPELINE, own))


def _backends(spec: ModuleSpec) -> tuple[ModuleSpec, tuple[Backend, ...]]:
    """The backends that are asked for, in the target's list among them, and the spec that says so
    in `backends` alone."""
    names = spec.backends
    if isinstance(spec.target, str):
        text, listed = without_backends(spec.target, {*backends(), *names})
        names = (*listed, *names)
        spec = replace(spec, target=text, backends=tuple(dict.fromkeys(names)))
    return spec, wanted_backends(spec.backends, spec.backend_files)


def _proof(
    program: Program, options: Options, interface: Graph, sources: Sources, spec: ModuleSpec
) -> Proof:
    """Raises AssertionError if the plan or the C is wrong; calls of backends are not read."""
    offloaded = any(c.kernel.external for c in program.calls)
    executor = EXECUTORS[spec.executor]
    jumps = executor.jumps and any(c.parts for c in program.calls)
    emitted = Emitted(
        {**{name: text.encode() for name, text in sources.files.items()}, **sources.data},
        [parameter(sources.members[n]) for n in interface.inputs],
        [parameter(sources.members[n]) for n in interface.outputs],
        sources.symbols,
        "" if offloaded or jumps else executor.caller(options.module),
    )
    return prove(program, emitted)


def everywhere(rewrite: Rewrite, graph: Graph) -> Graph:
    """The graph rewritten, its subgraphs first."""
    nodes = tuple(
        replace(n, graphs={k: everywhere(rewrite, g) for k, g in n.graphs.items()})
        if n.graphs
        else n
        for n in graph.nodes
    )
    return rewrite(graph.replace(nodes=nodes))


def _options(spec: ModuleSpec, target: Target) -> Options:
    """Raises MlfError for an unsupported executor or runtime, or options it lacks."""
    if spec.executor not in EXECUTORS:
        text = f"no such executor; got '{spec.executor}'"
        raise MlfError(Problem("MLF0405", text, help=did_you_mean(spec.executor, EXECUTORS)))
    if spec.runtime != "crt":
        text = f"no such runtime; got '{spec.runtime}', expected crt: the code is C"
        raise MlfError(Problem("MLF0405", text))
    _check_together(spec)
    options = EXECUTORS[spec.executor].options(spec.module_name, spec)
    return replace(options, weights="text" if target.big_endian else spec.weights)


def _check_together(spec: ModuleSpec) -> None:
    """Raises MlfError for options that the executor does not have, or that lack another. What TVM
    has too is the executor's to judge, since TVM takes some that have no effect."""
    given = vars(spec)
    for name in [*(n for n, option in OPTIONS.items() if not option.of_tvm), *FILES]:
        about = OPTIONS.get(name)
        words, value = name.replace("_", "-"), given[name]
        if about and about.is_set(value) and not about.understood_by(spec.executor):
            text = (
                f"{words} with executor '{spec.executor}'; expected {' or '.join(about.executors)}"
            )
            raise MlfError(Problem("MLF0405", text))
        for need in unmet(name, given, spec.executor):
            other = need.option.replace("_", "-")
            text = f"{words} with {other} '{given[need.option]}'; expected {need.value}"
            raise MlfError(Problem("MLF0405", text))


def _judge(spec: ModuleSpec, program: Program, file: str) -> None:
    """Raises MlfError for a program that an option refuses, with what each of them says."""
    found = (o.judge(getattr(spec, n), program) for n, o in OPTIONS.items() if o.judge)
    if problems := [replace(p, file=file) for p in found if p]:
        raise MlfError(problems)


def _target(spec: ModuleSpec) -> Target:
    target = spec.target if isinstance(spec.target, Target) else parse(spec.target)
    if spec.cc and target.kind != "llvm":
        text = f"compiler '{spec.cc}' for target kind {target.kind}, whose archives hold sources"
        help = "leave it out, or use a target of kind llvm"
        raise MlfError(Problem("MLF0405", text, help=help))
    added = (_added(option, getattr(spec, name)) for name, option in OPTIONS.items())
    features = target.features.union(*added)
    opt_level = "s" if spec.optimize == "size" and target.opt_level == "3" else target.opt_level
    return replace(target, features=features, opt_level=opt_level)


def _added(option: Option, value: object) -> tuple[str, ...]:
    """What an option adds to the target's features. Raises MlfError for a word that it lacks."""
    kind = option.kind
    if isinstance(kind, Choice) and not option.of_tvm and value not in kind.values:
        text = f"{option.name.replace('_', ' ')} '{value}', expected {' or '.join(kind.values)}"
        raise MlfError(Problem("MLF0400", text))
    return option.features.get(value, ()) if isinstance(value, str | bool) else ()


class _Clock:
    """Tells on stderr what each stage did and how long it took, when MLF_DEBUG asks for it."""

    def __init__(self, module: str) -> None:
        self.module, self.at = module, time.perf_counter()

    def stage(self, name: str, graph: Graph) -> None:
        now = time.perf_counter()
        if debug_level() >= 1:
            print(
                f"mlftool: {self.module}: {name}: {len(graph.nodes)} nodes, {now - self.at:.3f} s",
                file=sys.stderr,
            )
        if debug_level() >= 3:
            print(graph, file=sys.stderr)
        self.at = now
