"""A module of an archive on a board, driven over a line: outputs, times, and times of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.micro.executors import (
    AotModule,
    LayerTime,
    LocalDebugModule,
    LocalGraphModule,
    create_aot_executor,
    create_local_debug_executor,
    create_local_graph_executor,
)
from mlftool.micro.session import Session
from mlftool.micro.transport import ProcessTransport, QemuTransport, TransportTimeouts
from mlftool.mlf import params
from mlftool.mlf.interface import Interface
from mlftool.mlf.records import Archive, ModuleRecord
from mlftool.runtime import toolchain
from mlftool.runtime.boards import Board
from mlftool.runtime.driven import driven_program
from mlftool.runtime.link import Footprint, footprint
from mlftool.runtime.runner import RunResult
from mlftool.runtime.vectors import Array

if TYPE_CHECKING:
    from mlftool.micro.project import GeneratedProject

_PATIENT = TransportTimeouts(5, 60, 600)  # a simulator, and an inference that it takes minutes for


@frozen
class Driven:
    """What a host learned. `layers` is empty unless they were asked for."""

    result: RunResult
    layers: tuple[LayerTime, ...] = ()
    sizes: Footprint | None = None


def drive(
    archive: Archive,
    interface: Interface,
    board: Board | None,
    samples: Sequence[Mapping[str, Array]],
    repetitions: int = 1,
    with_layers: bool = False,
    program: Path | None = None,
) -> Driven:
    """Runs all samples on `board`, or in a program of this computer, with `program` if it is built
    already. Raises MlfError."""
    record = archive.module(interface.module)
    _check_layers(record, with_layers)
    elf = program or driven_program(archive, interface, board)
    with Session(transport_of(board, elf), timeout_override=_PATIENT) as session:
        seconds, done = _driven(session, interface, record, samples, repetitions, with_layers)
    sizes = footprint(elf) if board and not board.hosted else None
    result = RunResult(done.result.outputs, _figures(seconds, board))
    return Driven(result, done.layers, sizes)


def drive_project(
    project: GeneratedProject,
    archive: Archive,
    interface: Interface,
    samples: Sequence[Mapping[str, Array]],
    repetitions: int = 1,
    with_layers: bool = False,
) -> Driven:
    """The same over the line of a project that has been built and flashed."""
    record = archive.module(interface.module)
    _check_layers(record, with_layers)
    with Session(project.transport()) as session:
        seconds, done = _driven(session, interface, record, samples, repetitions, with_layers)
    return Driven(RunResult(done.result.outputs, _figures(seconds, None)), done.layers)


def _check_layers(record: ModuleRecord, with_layers: bool) -> None:
    if with_layers and record.graph is None:
        text = f"module '{record.name}' has no graph, by which layers are called one by one"
        hint = "compile it with --executor graph"
        raise MlfError(Problem("MLF0405", text, help=hint))


def _driven(
    session: Session,
    interface: Interface,
    record: ModuleRecord,
    samples: Sequence[Mapping[str, Array]],
    repetitions: int,
    with_layers: bool,
) -> tuple[float | None, Driven]:
    """The mean seconds of an inference, if an executor on the board can tell, and the rest."""
    module = executor_of(session, record, with_layers)
    outputs = tuple(infer(module, interface, sample) for sample in samples)
    seconds = None
    if isinstance(module, AotModule):
        seconds = module.benchmark(number=repetitions, repeat=1).mean
    layers = module.layer_times(repetitions) if isinstance(module, LocalDebugModule) else ()
    return seconds, Driven(RunResult(outputs, {}), layers)


def transport_of(board: Board | None, program: Path) -> ProcessTransport:
    """The line to a program of `driven_program`."""
    if board is None:
        return ProcessTransport([program])
    simulator = [
        *toolchain.find(toolchain.simulator_of(board.simulator)),
        *board.simulator[1:],
    ]
    if board.hosted:
        return ProcessTransport([*simulator, program])
    return QemuTransport(simulator, program)


def executor_of(
    session: Session, record: ModuleRecord, with_layers: bool = False
) -> AotModule | LocalGraphModule:
    """What TVM's clients take: the AOT executor of the board, the graph executor of this host,
    with the module's parameters."""
    if record.graph is None:
        return create_aot_executor(session, record.name)
    create = create_local_debug_executor if with_layers else create_local_graph_executor
    module = create(record.graph.decode(), session.get_system_lib(), session.device)
    for name, value in params.decode(record.params).items() if record.params else ():
        module.set_input(name, value)
    return module


def infer(
    module: AotModule | LocalGraphModule, interface: Interface, sample: Mapping[str, Array]
) -> dict[str, Any]:
    """One inference. Inputs are found by position: a board has names as C writes them."""
    by_name = isinstance(module, LocalGraphModule)
    for index, tensor in enumerate(interface.inputs):
        module.set_input(tensor.name if by_name else index, sample[tensor.name])
    module.run()
    made = {t.name: module.get_output(i).numpy() for i, t in enumerate(interface.outputs)}
    return interface.cut(made)


def _figures(seconds: float | None, board: Board | None) -> dict[str, float]:
    """On a simulated board an instruction takes a nanosecond."""
    if seconds is None:
        return {}
    if board is not None and not board.hosted:
        return {"instructions": seconds * 1e9}
    return {"microseconds": seconds * 1e6, "microseconds_min": seconds * 1e6}
