"""Compiling and running many small models as real C: each is compiled by mlftool, and programs.py
builds and runs all of them as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import kept
import numpy as np
import onnx
from programs import SANITIZED, WARNINGS, Build, run_programs
from units import INCLUDE, Output, Program, write_headers, write_program

from mlftool.codegen.weights import SUFFIX
from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.ir.dtype import slots, stored
from mlftool.ir.graph import TensorType

__all__ = [
    "INCLUDE",
    "WARNINGS",
    "Build",
    "Job",
    "Jobs",
    "build_jobs",
    "compile_job",
    "compile_model",
    "run_jobs",
    "run_models",
    "write_headers",
    "write_sources",
]

Array = np.ndarray[Any, Any]
# Name -> the text of a model, bounds of its tensors, samples.
Cases = Mapping[str, tuple[str, Mapping[str, tuple[int, ...]], Sequence[dict[str, Array]]]]
OPTIMISED: set[tuple[str, str]] = set()  # operators with kernels that it has seen in this process


@dataclass
class Job:
    """One model on one target. After `run_jobs`, `results` or `failure` is set.

    `name` is the module's, numbered if left out; `output` is what the program wrote.
    """

    model: onnx.ModelProto | Path
    feeds: Sequence[dict[str, Array]]
    target: str = "host"
    name: str = ""
    executor: str = "aot"
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    module: Module | None = None
    results: list[dict[str, Array]] = field(default_factory=list)
    failure: str = ""
    output: bytes = b""

    @property
    def compiled(self) -> Module:
        assert self.module is not None, self.failure
        return self.module

    def program(self) -> Program:
        """The compiled module with the job's samples."""
        return program_of(self.compiled, self.feeds)


class Jobs:
    """Jobs of a table by their keys. `make` compiles the one of a key, as a module of the name that
    it gets first, when a test asks for it: a sample of the tests has few of them."""

    def __init__(self, make: Callable[..., Job], build: Build = SANITIZED) -> None:
        self._make = make
        self._build = build
        self._made: dict[tuple[Any, ...], Job] = {}

    def __call__(self, *key: Any) -> Job:
        if key not in self._made:
            self._made[key] = self._make(f"m{len(self._made)}", *key)
        return self._made[key]

    def built(self, work: Path, *keys: tuple[Any, ...]) -> list[Job]:
        """Those of some keys, built in folder `work` if they are not, with their results."""
        jobs = [self(*key) for key in keys]
        build_jobs([job for job in jobs if not job.results], work, self._build)
        for key, job in zip(keys, jobs, strict=True):
            assert not job.failure, f"{key}: {job.failure}"
        return jobs


def compile_model(
    model: onnx.ModelProto | Path,
    name: str = "m",
    target: str = "host",
    executor: str = "aot",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Module:
    """The compiler's own result for a model in memory or in a file."""
    return compile_module(ModuleSpec(model, name, target, executor, input_shapes=shapes or {}))


def run_models(head: str, cases: Cases, work: Path) -> dict[str, Job]:
    """Models in onnx's text after `head`, with bounds and samples, by their names, as they ran."""
    jobs = {
        name: Job(onnx.parser.parse_model(head + text), feeds, name=name, shapes=shapes)
        for name, (text, shapes, feeds) in cases.items()
    }
    run_jobs([*jobs.values()], work)
    return jobs


def program_of(module: Module, feeds: Sequence[dict[str, Array]]) -> Program:
    """A module's C with the samples it is to run on."""
    graph, sources = module.imported, module.sources
    types = [(name, graph.types[name]) for name in graph.outputs]
    return Program(
        name=module.spec.module_name,
        header=sources.header,
        lib0=sources.lib0,
        lib1=sources.lib1,
        input_bytes=tuple(graph.types[name].bytes for name in graph.inputs),
        outputs=tuple(Output(name, type_.dtype.name, type_.shape) for name, type_ in types),
        samples=tuple(
            b"".join(_bytes_of(graph.types[name], feed[name]) for name in graph.inputs)
            for feed in feeds
        ),
        workspace_io=module.spec.workspace_io,
        weights=tuple((n, d) for n, d in sources.data.items() if n.endswith(SUFFIX)),
    )


def write_sources(module: Module, work: Path) -> str:
    """The module's C as one file that includes both parts; returns its name."""
    return write_program(program_of(module, ()), work)


def new_kernels(module: Module) -> bool:
    """Whether the module has a kernel that none before in this process had: what gcc warns of only
    when it optimises, it says of each kernel then, and optimised C is run."""
    kernels = {(call.node.op, call.kernel.name) for call in module.program.calls}
    new = not kernels <= OPTIMISED
    OPTIMISED.update(kernels)
    return new


def every(_: Module) -> bool:
    return True


def run_jobs(jobs: Sequence[Job], work: Path, build: Build = SANITIZED) -> None:
    """Compile, link and run all jobs in folder `work`; results are left in the jobs."""
    alive: list[Job] = []
    for job in jobs:
        job.name = job.name or _name(job, {j.name for j in alive})
        try:
            compile_job(job)
            alive.append(job)
        except MlfError as error:
            job.failure = str(error)
        except Exception as error:  # a bug of the compiler: the test that owns the job fails
            job.failure = f"{type(error).__name__}: {error}"
    build_jobs(alive, work, build)


def _name(job: Job, taken: set[str]) -> str:
    """Says what the job is, wherever it is among others, so that its C is the same each time."""
    model = job.model.read_bytes() if isinstance(job.model, Path) else job.model.SerializeToString()
    base = "m" + kept.key_of((model, job.target, job.executor))[:12]
    return next(n for k in count() if (n := f"{base}_{k}" if k else base) not in taken)


def compile_job(job: Job) -> None:
    """The compiler's part. Raises what the compiler raises."""
    job.module = compile_model(job.model, job.name, job.target, job.executor, job.shapes)


def build_jobs(
    jobs: Sequence[Job],
    work: Path,
    build: Build = SANITIZED,
    optimised: Callable[[Module], bool] = new_kernels,
) -> None:
    """The C compiler's part for jobs that are compiled, then one program that runs them all. What
    sanitizers watch also runs without them, `optimised`."""
    programs = [job.program() for job in jobs]
    if build.sanitizers:
        pairs = zip(programs, jobs, strict=True)
        programs = [replace(p, optimised=optimised(job.compiled)) for p, job in pairs]
    ran = run_programs(programs, work, build)
    for job, program, done in zip(jobs, programs, ran, strict=True):
        job.output, job.failure = done.output, done.failure
        if not done.failure:
            job.results = program.results(done.output)


def _bytes_of(type_: TensorType, value: Array) -> bytes:
    array = slots(np.asarray(value))
    assert array.dtype == type_.dtype.numpy, array.dtype
    return stored(np.ascontiguousarray(array).reshape(array.shape)).tobytes()
