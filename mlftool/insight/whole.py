"""A whole inference as it is delivered, of which the layers' costs are parts."""

from __future__ import annotations

from mlftool.frozen import frozen
from mlftool.insight.cycles import of_inference
from mlftool.insight.subject import Subject
from mlftool.runtime.boards import Board
from mlftool.tune.marks import Sample, whole


@frozen
class Whole:
    """What `mlftool bench` says of one inference. `cycles` are estimated; None where no table has
    the core's prices."""

    instructions: int
    cycles: int | None = None


NOTHING = Whole(0, 0)


def inference(subject: Subject, board: Board, flags: str, sample: Sample, estimate: bool) -> Whole:
    """Counts the module with its own executor and without marks between layers. Raises MlfError."""
    interface = subject.interface
    elf, count = whole(subject.bundle, interface, board, sample, flags)
    cycles = of_inference(elf, board, interface, sample, count) if estimate else None
    return Whole(count, cycles)
