"""What an inference takes on this computer and on simulated boards, in one table.

A board counts instructions, so one run says all. This computer's time differs from run to run: a
program is started `runs` times, and each run's mean is a figure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mlftool import table
from mlftool.frozen import frozen, replace
from mlftool.insight import cycles
from mlftool.insight.subject import Subject, board_for
from mlftool.runtime.execute import Place, check_processor, execute, place_for
from mlftool.runtime.host import build_runner
from mlftool.runtime.link import footprint, link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.table import Cell, Ratio, Table
from mlftool.tune.search import sample_of
from mlftool.width import filled, how_many

RUNS = 5
RUN_SECONDS = 0.2  # that a run on this computer shall take
MOST = 999_999  # inferences of a run, as crt/runner/runner.c takes them


@frozen
class Bench:
    """A module in one place. `microseconds` are of one inference, the mean of each run; None is
    what is not known there."""

    name: str
    module: str
    target: str
    place: str
    repetitions: int
    microseconds: tuple[float, ...] = ()
    instructions: int | None = None
    cycles: int | None = None
    flash: int | None = None
    ram: int | None = None
    stack: int | None = None


def place_of(target: str, on: str | None, file: str) -> Place:
    """The place that `on` names, or the one that fits code for `target`. Raises MlfError for boards
    with an operating system, where nothing is counted."""
    place = place_for(target, on, file)
    return Place(place.target, board_for(target, on, file)) if place.board else place


def bench(
    subject: Subject,
    place: Place,
    inputs: Path | None = None,
    runs: int = RUNS,
    repetitions: int | None = None,
) -> Bench:
    """Measures the first sample of `inputs`, or a pattern. Raises MlfError.

    Without `repetitions` a run takes about RUN_SECONDS on this computer, and one inference on a
    board.
    """
    if place.board is None:
        return _here(subject, inputs, runs, repetitions)
    check_processor(subject.interface.target, place, subject.file)
    return _on_board(subject, place, inputs, repetitions or 1)


def _here(subject: Subject, inputs: Path | None, runs: int, repetitions: int | None) -> Bench:
    interface, place = subject.interface, Place("host")
    samples = [sample_of(interface, inputs)]
    program = build_runner(subject.bundle, interface)

    def microseconds(count: int) -> float:
        ran, _ = execute(subject.bundle, interface, place, samples, program, count)
        return ran.figures["microseconds"]

    if repetitions is None:
        once = max(microseconds(1), 0.01)
        repetitions = min(MOST, max(1, round(RUN_SECONDS * 1e6 / once)))
    times = tuple(microseconds(repetitions) for _ in range(runs))
    about = (subject.name, interface.module, interface.target, place.title)
    return Bench(*about, repetitions, times)


def _on_board(subject: Subject, place: Place, inputs: Path | None, repetitions: int) -> Bench:
    board, interface = place.board, subject.interface
    assert board is not None
    sample = sample_of(interface, inputs)
    elf = link_firmware(subject.bundle, interface, board, optimise=interface.flag)
    figures = run_on_board(elf, board, interface, [sample], repetitions).figures
    about = (subject.name, interface.module, board.target, board.title, repetitions)
    count = round(figures["instructions"])
    found = Bench(*about, instructions=count)
    found = replace(found, cycles=cycles.of_inference(elf, board, interface, sample, count))
    sizes = footprint(elf)
    stack = round(figures["stack_bytes"])
    return replace(found, flash=sizes.flash, ram=sizes.ram, stack=stack)


HEADS = (
    *("target", "us", "least", "most", "instructions", "cycles", "flash", "RAM", "stack"),
    "model",
)


def tabled(found: Sequence[Bench]) -> Table:
    """A line for each module and place."""
    return Table(HEADS, tuple(_row(one) for one in found))


def _row(one: Bench) -> tuple[Cell, ...]:
    times: tuple[Cell, ...] = (None, None, None)
    if one.microseconds:
        middle = statistics.median(one.microseconds)
        times = (Ratio(middle), Ratio(min(one.microseconds)), Ratio(max(one.microseconds)))
    sizes = (one.flash, one.ram, one.stack)
    return (one.target, *times, one.instructions, one.cycles, *sizes, one.name)


def text(found: Sequence[Bench]) -> str:
    """The table for people, and what its columns mean."""
    return "\n".join([table.text(tabled(found)), "", *map(filled, _notes(found))])


def _notes(found: Sequence[Bench]) -> Iterator[str]:
    if runs := [one for one in found if one.microseconds]:
        counts = " and ".join(how_many(one.repetitions, "inference") for one in runs)
        yield (
            f"us: microseconds an inference on this computer, the median, least and most of "
            f"{how_many(len(runs[0].microseconds), 'run')} of {counts}."
        )
    if any(one.instructions is not None for one in found):
        yield "instructions: of an inference, counted by QEMU; flash, RAM and stack: bytes."
    if any(one.cycles is not None for one in found):
        yield "cycles: estimated instruction by instruction, with memory that never waits."


def to_json(one: Bench) -> dict[str, Any]:
    """The same for scripts; new versions only add keys."""
    return {
        "name": one.name,
        "module": one.module,
        "target": one.target,
        "place": one.place,
        "repetitions": one.repetitions,
        "runs_microseconds": list(one.microseconds),
        "microseconds": statistics.median(one.microseconds) if one.microseconds else None,
        "instructions": one.instructions,
        "cycles": one.cycles,
        "flash_bytes": one.flash,
        "ram_bytes": one.ram,
        "stack_bytes": one.stack,
    }
