"""What our archives say of their modules beside the interface: nodes, kernels, the memory plan.

It is `executor-config/<executor>/<module>.json`, which archives that TVM made do not have.
"""

from __future__ import annotations

from mlftool.frozen import frozen
from mlftool.mlf.interface import member_of, read_description
from mlftool.mlf.records import ModuleRecord
from mlftool.mlf.strict import MAX_SIZE, Checked


@frozen
class Node:
    """One step: the ONNX node's name and operator, the kernel, and the C function it calls."""

    name: str
    op: str
    kernel: str
    function: str
    macs: int


@frozen
class Buffer:
    """Where a tensor, or a kernel's scratch, is in a pool from its first step to its last. Nothing
    makes an input or parameter, which `is_given`."""

    name: str
    pool: str
    offset: int
    size: int
    first: int
    last: int
    is_given: bool = False


@frozen
class Pool:
    """A memory of the plan. `proof` says why no plan for this order is smaller: "liveness" or
    "search", "" if that is not known. `bound` is alive at the worst step, of `peak_node`."""

    name: str
    size: int
    bound: int
    proof: str
    peak_node: str


@frozen
class Description:
    """Sizes in bytes. Each step has one of `nodes`."""

    target: str
    executor: str
    workspace: int
    constants: int
    macs: int
    nodes: tuple[Node, ...]
    pools: tuple[Pool, ...]
    buffers: tuple[Buffer, ...]


def described(record: ModuleRecord, file: str) -> Description | None:
    """None for an archive without one. Raises MlfError if it is not what we write."""
    if record.interface is None:
        return None
    return read_description(record.interface, _read, file, member_of(record))[0]


def _read(top: Checked) -> Description:
    memory = top.at("memory")
    workspace, constants, macs = (
        _size(top.at(key)) for key in ("workspace_bytes", "constants_bytes", "macs")
    )
    made = Description(
        top.at("target").text(),
        top.at("executor").text(),
        workspace,
        constants,
        macs,
        top.at("nodes").list(_node),
        memory.at("pools").list(_pool),
        memory.at("buffers").list(_buffer),
    )
    pools = {pool.name: pool.size for pool in made.pools}
    for b, entry in zip(made.buffers, memory.at("buffers").each(), strict=True):
        if not b.offset + b.size <= pools.get(b.pool, -1):
            entry.note(f"buffer '{b.name}' is not inside a pool; got '{b.pool}'")
        if not b.first <= b.last < max(1, len(made.nodes)):
            entry.note(f"buffer '{b.name}' is there from step {b.first} to {b.last}")
    return made


def _node(entry: Checked) -> Node:
    name, op, kernel, function = (
        entry.at(key).text(MAX_SIZE) for key in ("name", "op", "kernel", "function")
    )
    return Node(name, op, kernel, function, _size(entry.at("macs")))


def _pool(entry: Checked) -> Pool:
    size, bound = _size(entry.at("size_bytes")), _size(entry.at("lower_bound_bytes"))
    # Before there was a search, archives said no more than whether there was a proof.
    proof, proven = entry.maybe("proof"), entry.at("proven_optimal").flag()
    said = proof.text() if proof else "liveness" * proven
    return Pool(entry.at("name").text(), size, bound, said, entry.at("peak_node").text(MAX_SIZE))


def _buffer(entry: Checked) -> Buffer:
    numbers = ("offset_bytes", "size_bytes", "first_step", "last_step")
    offset, size, first, last = (_size(entry.at(k)) for k in numbers)
    name, pool = entry.at("name").text(MAX_SIZE), entry.at("pool").text()
    return Buffer(name, pool, offset, size, first, last)


def _size(entry: Checked) -> int:
    """A count or a size."""
    return entry.number(0, (1 << 53) - 1)
