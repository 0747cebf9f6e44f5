"""What our archives say of their modules beside the interface: nodes, kernels, the memory plan.

It is `executor-config/<executor>/<module>.json`, which archives that TVM made do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.mlf.records import ModuleRecord
from mlftool.mlf.strict import parse_json


@dataclass(frozen=True)
class Node:
    """One step: the ONNX node's name and operator, the kernel, and the C function it calls."""

    name: str
    op: str
    kernel: str
    function: str
    macs: int


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Pool:
    """A memory of the plan. `proof` says why no plan for this order is smaller: "liveness" or
    "search", "" if that is not known. `bound` is alive at the worst step, of `peak_node`."""

    name: str
    size: int
    bound: int
    proof: str
    peak_node: str


@dataclass(frozen=True)
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
    try:
        return _read(parse_json(record.interface))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"not a description of a module: {type(error).__name__}: {error}"
        member = f"executor-config/{record.executor}/{record.name}.json"
        raise MlfError(Problem("MLF0607", text, file, path=member)) from None


def _read(data: Mapping[str, Any]) -> Description:
    memory = data["memory"]
    made = Description(
        str(data["target"]),
        str(data["executor"]),
        _size(data["workspace_bytes"]),
        _size(data["constants_bytes"]),
        _size(data["macs"]),
        tuple(
            Node(
                *(str(n["name"]), str(n["op"]), str(n["kernel"]), str(n["function"])),
                _size(n["macs"]),
            )
            for n in data["nodes"]
        ),
        tuple(map(_pool, memory["pools"])),
        tuple(map(_buffer, memory["buffers"])),
    )
    pools = {pool.name: pool.size for pool in made.pools}
    for b in made.buffers:
        if not b.offset + b.size <= pools.get(b.pool, -1):
            raise ValueError(f"buffer '{b.name}' is not inside a pool; got '{b.pool}'")
        if not b.first <= b.last < max(1, len(made.nodes)):
            raise ValueError(f"buffer '{b.name}' is there from step {b.first} to {b.last}")
    return made


def _pool(data: Mapping[str, Any]) -> Pool:
    sizes = _size(data["size_bytes"]), _size(data["lower_bound_bytes"])
    # Before there was a search, archives said no more than whether there was a proof.
    proof = str(data.get("proof", "liveness" if data["proven_optimal"] is True else ""))
    return Pool(str(data["name"]), *sizes, proof, str(data["peak_node"]))


def _buffer(data: Mapping[str, Any]) -> Buffer:
    numbers = ("offset_bytes", "size_bytes", "first_step", "last_step")
    offset, size, first, last = (_size(data[k]) for k in numbers)
    return Buffer(str(data["name"]), str(data["pool"]), offset, size, first, last)


def _size(value: Any) -> int:
    """A count or a size: whole and not negative."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError(f"got {str(value)[:40]}, expected a size")
    return value
