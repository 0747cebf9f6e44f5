"""Builds the entries of a manifest, several at a time; one entry's failure stops no other."""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from mlftool.errors import BAD_INPUT, CHECK_FAILED, ENVIRONMENT, MlfError, Problem
from mlftool.files import read_plain
from mlftool.frozen import frozen, replace
from mlftool.manifest import Limits, Manifest, UserTarget
from mlftool.manifest.entries import Entry, executor_options, has_budget, ram_goal
from mlftool.progress import step
from mlftool.quantized import (
    Accuracy,
    accuracies,
    has_reports,
    in_manifest,
    named_by_file,
    quantized_model,
)
from mlftool.signals import never_ignored, outside_imports
from mlftool.stamps import Stamp, compiler_digest

if TYPE_CHECKING:
    from onnx import ModelProto

    from mlftool.compile import Module, ModuleSpec
    from mlftool.mlf import Bundle


@frozen
class Memory:
    """What a module needs on a device, as far as that is known without linking."""

    module: str
    workspace_bytes: int
    input_bytes: int
    output_bytes: int
    constants_bytes: int
    state_bytes: int  # kept from one run to the next
    workspace_io: bool = False  # inputs and outputs are in the workspace
    in_bands: tuple[str, ...] = ()  # runs of layers that are computed in bands of rows

    @property
    def ram_bytes(self) -> int:
        ends = 0 if self.workspace_io else self.input_bytes + self.output_bytes
        return self.workspace_bytes + ends + self.state_bytes


@frozen
class Over:
    """A limit in the manifest that an entry exceeds."""

    bytes: int
    problem: Problem


@frozen
class Result:
    """The outcome of one entry. `exit_code` is 0 on success."""

    entry: Entry
    seconds: float
    compiled: bool = False  # False: it was there, and as it would become
    changed: bool = False
    memory: tuple[Memory, ...] = ()
    quantised: tuple[Accuracy, ...] = ()  # of models that are quantised before they are compiled
    over: tuple[Over, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()  # of models, where nothing is written
    exit_code: int = 0


def build(
    manifest: Manifest,
    wanted: Sequence[Entry],
    folder: Path | None,
    jobs: int,
    on_done: Callable[[Result], None] = lambda result: None,
) -> tuple[Result, ...]:
    """Builds `wanted` into `folder`, or with None only finds out what would go wrong.

    Results come in the order of `wanted`; `on_done` sees each one as it is ready. An interrupt
    leaves whole files only: those that were written before it.
    """
    results: dict[Entry, Result] = {}
    for result in _run(manifest, wanted, folder, min(jobs, len(wanted))):
        on_done(result)
        results[result.entry] = result
    return tuple(results[entry] for entry in wanted)


def raise_problems(results: Sequence[Result], more: Sequence[Problem] = ()) -> None:
    """Raises one MlfError with every problem, if there are any; a limit shows its worst entry."""
    worst: dict[str, Over] = {}
    for over in (over for result in results for over in result.over):
        path = over.problem.path
        if path not in worst or over.bytes > worst[path].bytes:
            worst[path] = over
    limits = sorted((o.problem for o in worst.values()), key=lambda p: (p.line, p.column))
    problems = dict.fromkeys([*more, *limits, *(p for r in results for p in r.problems)])
    if problems:
        codes = [r.exit_code for r in results] + ([BAD_INPUT] if more else [])
        raise MlfError(problems, max(codes))


def _run(
    manifest: Manifest, wanted: Sequence[Entry], folder: Path | None, jobs: int
) -> Iterator[Result]:
    compiler = "" if folder is None else compiler_digest()
    if jobs <= 1:
        yield from (_build_one(manifest, entry, folder, compiler) for entry in wanted)
        return
    # Forked workers start at once, and safely: this process has no threads and no numpy.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else methods[0])
    work = partial(_build_one, manifest, folder=folder, compiler=compiler)
    pool = ProcessPoolExecutor(jobs, context, _as_worker, (work,))
    try:
        # An interrupt in concurrent.futures.wait would leave locks behind that the pool needs.
        done: SimpleQueue[Future[Result]] = SimpleQueue()
        with _whole():  # a worker that is not known yet could not be ended
            left = {pool.submit(_task, entry): entry for entry in wanted}
            for future in left:
                future.add_done_callback(done.put)
        while left:
            with step(f"compiling {_named(list(left.values())[:jobs])}"):
                future = done.get()
            yield _result(future, left.pop(future))
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_ENDS = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}


@contextmanager
def _whole() -> Iterator[None]:
    """What asks for the end waits until this is done."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def _named(entries: Sequence[Entry]) -> str:
    return ", ".join(entry.output.removesuffix(".tar") for entry in entries)


def _result(future: Future[Result], entry: Entry) -> Result:
    try:
        return future.result()
    except BrokenProcessPool:  # every future that was left gets this
        problem = Problem(
            "MLF0701",
            "the compiling process was killed; got no result, expected an archive",
            path=entry.output,
            help="perhaps memory ran out: try fewer jobs, -j 1",
        )
        return Result(entry, 0, problems=(problem,), exit_code=ENVIRONMENT)


class _EndedError(BaseException):
    """The process that gave this one its work was interrupted."""


# A worker's own: what it does with an entry. A manifest in each task would fill the pipe, and the
# pool of Python 3.11.2 waits for ever where no process is left to empty it (gh-94777).
_work: Callable[[Entry], Result]


def _as_worker(work: Callable[[Entry], Result]) -> None:
    global _work
    _work = work
    # Ctrl-C and the end of a terminal reach the whole process group. The parent alone answers
    # them, and ends the others.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is begun
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)


def _task(entry: Entry) -> Result:
    """`_build_one` in a worker, which the parent may end: temporary files go first."""
    try:
        with never_ignored(_EndedError):
            signal.signal(signal.SIGTERM, outside_imports(_end))
            try:
                return _work(entry)
            finally:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except _EndedError:
        os._exit(128 + signal.SIGTERM)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise _EndedError


def _build_one(manifest: Manifest, entry: Entry, folder: Path | None, compiler: str) -> Result:
    start = time.monotonic()
    result = Result(entry, 0)
    try:
        if folder is None:
            bundle, warnings = _tried(manifest, entry)
            _check_vectors(manifest, entry, bundle)
            result = replace(result, warnings=warnings)
        else:
            bundle, result = _up_to_date(manifest, entry, folder, compiler)
        parts = zip(entry.models, entry.executors, strict=True)
        memory = tuple(_memory(manifest, bundle, *part) for part in parts)
        over = tuple(_over_limits(manifest, entry, memory))
        result = replace(result, memory=memory, over=over, exit_code=CHECK_FAILED if over else 0)
        if folder is not None:
            found = tuple(accuracies(manifest, entry.models, folder))
            result = replace(result, quantised=found)
    except MlfError as error:
        problems = tuple(_in_manifest(manifest, entry, p) for p in error.problems)
        result = replace(result, problems=problems, exit_code=error.exit_code)
    except ModuleNotFoundError:
        raise  # a package that this machine lacks, which is one problem for all entries
    except Exception as error:
        from mlftool.crash import as_ours

        ours = as_ours(error, entry.output)
        result = replace(result, problems=ours.problems, exit_code=ours.exit_code)
    return replace(result, seconds=time.monotonic() - start)


def _compile(manifest: Manifest, entry: Entry, folder: Path, compiler: str) -> Bundle:
    from mlftool.describe import bundle

    return bundle(_modules(manifest, entry, folder, compiler))


def _tried(manifest: Manifest, entry: Entry) -> tuple[Bundle, tuple[Problem, ...]]:
    """What would be written, and warnings about the models."""
    from mlftool.advice import advice
    from mlftool.describe import bundle

    modules = _modules(manifest, entry)
    files = [str(manifest.locate(manifest.models[name].model)) for name in entry.models]
    found = [w for m, file in zip(modules, files, strict=True) for w in advice(m, file)]
    return bundle(modules), tuple(found)


def _modules(
    manifest: Manifest, entry: Entry, folder: Path | None = None, compiler: str = ""
) -> list[Module]:
    from mlftool.compile import compile_specs
    from mlftool.limits import bounded

    models = [manifest.models[name] for name in entry.models]
    (first, data), *others = (
        (manifest.locate(m.model), [manifest.locate(file) for file in m.data_files]) for m in models
    )
    more = (
        "if the model is correct, compile it alone: mlftool compile --max-seconds N --max-memory M"
    )
    specs = [
        spec_of(manifest, entry, name, executor, folder, compiler)
        for name, executor in zip(entry.models, entry.executors, strict=True)
    ]
    sources = {manifest.locate(m.model): s.model for m, s in zip(models, specs, strict=True)}
    with bounded(first, data, others=others, help_=more), named_by_file(sources):
        return compile_specs(specs)


def _up_to_date(
    manifest: Manifest, entry: Entry, folder: Path, compiler: str
) -> tuple[Bundle, Result]:
    """The archive, compiled unless it is there and nothing that goes into it has changed."""
    from mlftool.mlf import read_tar

    models = [manifest.models[name] for name in entry.models]
    # Everything the manifest says about the entry, so that no key can be forgotten.
    settings = [compiler, repr(entry), *map(repr, models), repr(manifest.targets.get(entry.target))]
    files = [
        (manifest.locate(m.model), [manifest.locate(file) for file in m.data_files]) for m in models
    ]
    read = [f for m in models for f in (m.tuning, *m.backend_files) if f]
    read += [m.quantize.data for m in models if m.quantize]
    records = [manifest.locate(f) for f in read]
    stamp = Stamp(folder, entry.output, settings, files, records)
    # MLF_DEBUG always compiles, so that its output is complete.
    done = stamp.holds() and has_reports(manifest, entry.models, folder)
    if done and not os.environ.get("MLF_DEBUG"):
        return read_tar(stamp.archive), Result(entry, 0)
    before = stamp.before()
    bundle = _compile(manifest, entry, folder, compiler)
    changed = _write(bundle, folder / entry.output)
    stamp.write(before)
    return bundle, Result(entry, 0, compiled=True, changed=changed)


def spec_of(
    manifest: Manifest,
    entry: Entry,
    name: str,
    executor: str,
    folder: Path | None = None,
    compiler: str = "",
) -> ModuleSpec:
    """How one model of an entry is compiled, as the manifest says. What is quantised is kept in
    `folder` (see mlftool.quantized)."""
    from mlftool.compile import ModuleSpec

    model = manifest.models[name]
    board = manifest.targets.get(entry.target)
    source: Path | ModelProto = manifest.locate(model.model)
    if model.quantize:
        source = quantized_model(manifest, model, folder, compiler)
    return ModuleSpec(
        model=source,
        module_name=model.module_name,
        target=board.base if board else entry.target,
        input_shapes={} if model.quantize else model.input_shapes,
        input_values={} if model.quantize else model.input_values,
        data_files=tuple(map(manifest.locate, model.data_files)),
        tuning=manifest.locate(model.tuning) if model.tuning else None,
        backend_files=tuple(manifest.locate(f) for f in model.backend_files),
        ram_goal=ram_goal(manifest, model, entry.target),
        **executor_options(model, executor),
    )


def _in_manifest(manifest: Manifest, entry: Entry, problem: Problem) -> Problem:
    """A given shape, value, state or stream that does not fit is the manifest's mistake, so its
    place is there, and so is what is wrong with an archive as a whole, such as its version."""
    if not problem.file:
        path = f"archives.{entry.name}" if entry.name in manifest.archives else ""
        path = path or f"models.{entry.name}"
        line, column = manifest.place(path) if path in manifest.places else (0, 0)
        path = problem.path or path
        return replace(problem, file=str(manifest.file), line=line, column=column, path=path)
    key = _key_of(problem)
    for name in entry.models if key else ():
        path = f"models.{name}.{key}"
        file = manifest.locate(manifest.models[name].model)
        if problem.file == str(file) and path in manifest.places:
            line, column = manifest.place(path)
            where = f"{file.name}: {problem.path}" if problem.path else file.name
            message = f"{problem.message} (in {where})"
            place = replace(problem, file=str(manifest.file), line=line, column=column)
            return replace(place, path=path, message=message)
    return in_manifest(manifest, entry.models, problem)


def _key_of(problem: Problem) -> str:
    """The key of a model that such a problem is about; "" for those of the model itself."""
    if problem.code == "MLF0400":
        word = problem.path.partition(" ")[0]
        return word if word in ("state", "stream") else ""
    return {"MLF0208": "input_shapes", "MLF0209": "input_values"}.get(problem.code, "")


def _memory(manifest: Manifest, bundle: Bundle, name: str, executor: str) -> Memory:
    from mlftool.describe import bands_of

    module = manifest.models[name].module_name
    file = next(
        n
        for n in bundle.files
        if n.endswith(f"-config/{executor}/{module}.json")  # in 1 to 4
    )
    facts: dict[str, Any] = json.loads(bundle.text(file))
    return Memory(
        module,
        facts["workspace_bytes"],
        sum(tensor["size_bytes"] for tensor in facts["inputs"]),
        sum(tensor["size_bytes"] for tensor in facts["outputs"]),
        facts["constants_bytes"],
        facts.get("state_bytes", 0),
        bool(facts["workspace_io"]),
        bands_of(facts),
    )


def _check_vectors(manifest: Manifest, entry: Entry, bundle: Bundle) -> None:
    """Raises MlfError with all reasons why test vectors cannot be those of their model."""
    from mlftool.runtime.interface import read_interface
    from mlftool.runtime.vectors import labels_of, load_vectors, samples_of

    problems: list[Problem] = []
    for model in (manifest.models[name] for name in entry.models):
        if model.test is None:
            continue
        file = manifest.locate(model.test.vectors)
        interface = read_interface(bundle, model.module_name, entry.output)
        try:
            arrays = load_vectors(file)
            samples = samples_of(arrays, interface.inputs + interface.results, str(file))
            labels_of(arrays, interface, len(samples), str(file))
        except MlfError as error:
            problems += error.problems
    if problems:
        raise MlfError(problems)


def _over_limits(manifest: Manifest, entry: Entry, memory: Sequence[Memory]) -> Iterator[Over]:
    """On a board each model against its budget, and all of them together against the board."""
    models = [manifest.models[name] for name in entry.models]
    searched = any(ram_goal(manifest, m, entry.target) is not None for m in models)
    limits: list[tuple[dict[str, str], Limits | UserTarget, Sequence[Memory]]] = [
        (*_budget(manifest, name, entry.target), (needed,))
        for name, needed in zip(entry.models, memory, strict=True)
        if manifest.models[name].budget and has_budget(manifest, entry.target)
    ]
    if own := manifest.targets.get(entry.target):
        at = f"targets.{entry.target}"
        limits.append(({n: f"{at}.{n}" for n in ("flash", "ram")}, own, tuple(memory)))
    for paths, limit, modules in limits:
        ram, constants = sum(m.ram_bytes for m in modules), sum(m.constants_bytes for m in modules)
        work = sum(m.workspace_bytes for m in modules)
        if limit.ram is not None and ram > limit.ram:
            least = ", the least found" if searched and len(modules) == 1 else ""
            kept = sum(m.state_bytes for m in modules)
            parts = f"{work} working memory, {ram - work - kept} inputs and outputs"
            parts += f", {kept} state" if kept else ""
            got = f"{ram} bytes{least} ({parts})"
            yield Over(ram, _over(manifest, entry, paths["ram"], got, limit.ram, "memmap"))
        if limit.flash is not None and constants > limit.flash:
            got = f"{constants} bytes of constants, before any code"
            yield Over(constants, _over(manifest, entry, paths["flash"], got, limit.flash, "size"))


def _budget(manifest: Manifest, name: str, target: str) -> tuple[dict[str, str], Limits]:
    """A model's limits on a target, and the keys that say them, its own or those of `defaults`."""
    budget = manifest.models[name].budget
    assert budget is not None
    own = f"models.{name}.budget"
    at = own if own in manifest.places else "defaults.budget"
    (flash, flash_key), (ram, ram_key) = (budget.limit(target, n) for n in ("flash", "ram"))
    return {"flash": f"{at}.{flash_key}", "ram": f"{at}.{ram_key}"}, Limits(flash=flash, ram=ram)


def _over(
    manifest: Manifest, entry: Entry, path: str, got: str, limit: int, command: str
) -> Problem:
    """`command` shows what takes the memory."""
    line, column = manifest.place(path)
    message = f"{entry.output} is over this limit; got {got}, expected at most {limit} bytes"
    words = ["mlftool", command, str(manifest.file), "--entry", entry.output.removesuffix(".tar")]
    hint = f"{shlex.join(words)} shows what takes it"
    return Problem("MLF0119", message, str(manifest.file), line, column, path, hint)


def _write(bundle: Bundle, path: Path) -> bool:
    """Writes the archive, unless that very file is there already. Whether it was written."""
    from mlftool.mlf import make_folder, tar_bytes, write_atomically

    data = tar_bytes(bundle)
    try:
        if read_plain(path) == data:
            return False
    except OSError:
        pass  # absent or unreadable: writing it will tell
    make_folder(path.parent)
    write_atomically(path, data)
    return True
