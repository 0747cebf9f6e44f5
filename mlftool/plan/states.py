"""The memory of what a module keeps from one run to the next.

A state has one place if nothing reads it any more when its next value is written, or if the kernel
that writes it changes it where it stands. Else it has two, and the second is copied to the first
after each run.
"""

from __future__ import annotations

from mlftool.frozen import frozen
from mlftool.ir.graph import Graph, State
from mlftool.plan.blocks import aligned
from mlftool.plan.program import Program


@frozen
class Slot:
    """Where a state is in the module's memory, in bytes: what a run reads, and what it writes."""

    state: State
    bytes: int
    read_at: int
    write_at: int

    @property
    def in_place(self) -> bool:
        return self.read_at == self.write_at


def slots(
    program: Program, interface: Graph, straight: bool = True
) -> tuple[tuple[Slot, ...], int]:
    """The states' places, and the bytes of all. What is not `straight` has jumps between its calls,
    so that their order tells no last reader: each state has two places."""
    found, end = [], 0
    for state in interface.kept:
        size = interface.types[state.input].bytes
        # A pass may have renamed an input; positions stay.
        source = program.graph.inputs[interface.inputs.index(state.input)]
        read_at, end = end, end + aligned(size)
        write_at = read_at
        if not (straight and in_place(program, source, state.output)):
            write_at, end = end, end + aligned(size)
        found.append(Slot(state, size, read_at, write_at))
    return tuple(found), end


def in_place(program: Program, source: str, output: str) -> bool:
    """Whether `output` may be written to the memory of the input `source`."""
    reads, writes = [], []
    for step, call in enumerate(program.calls):
        if any(n and program.storage(n) == source for n in call.node.inputs):
            reads.append(step)
        if any(n and program.storage(n) == output for n in call.node.outputs):
            writes.append(step)
    if not reads or not writes or reads[-1] < writes[0]:
        return True
    if len(writes) > 1 or reads[-1] > writes[0]:
        return False
    call = program.calls[writes[0]]
    names = {n for n in call.node.inputs if n and program.storage(n) == source}
    if len([n for n in call.node.outputs if n]) == 1:
        return names <= set(call.kernel.inplace)
    updates = call.kernel.updates
    return all(n in updates and program.storage(updates[n]) == output for n in names)
