"""How, in which order, at which address: a Graph with every decision taken."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from mlftool.frozen import field, frozen
from mlftool.ir.graph import Graph, Node
from mlftool.ops.base import Kernel, Operand
from mlftool.targets import Target
from mlftool.targets.pools import Pool


@frozen
class Region:
    """How much of a pool a plan uses, or of the workspace."""

    pool: Pool
    size_bytes: int
    lower_bound_bytes: int
    peak_step: int
    proof: str


@frozen
class Buffer:
    """Where a tensor or a kernel's scratch lives in the workspace, and during which steps."""

    name: str
    offset_bytes: int
    size_bytes: int
    first_step: int
    last_step: int
    pool: str = ""  # "" is the workspace


@frozen
class MemoryPlan:
    """The memory that a program works in: `regions` are pools, or the one workspace, whose pool has
    no name. `size_bytes` is their sum; `lower_bound_bytes` is alive at the worst step, `peak_step`.
    """

    size_bytes: int
    lower_bound_bytes: int
    peak_step: int
    buffers: tuple[Buffer, ...]
    place: Mapping[str, Buffer]  # tensor, or "scratch of step N" -> its buffer
    proof: str  # why no plan for this order is smaller: "liveness", "search", "" if unknown
    regions: tuple[Region, ...]


@frozen
class Call:
    """One step: a node and the kernel that won it; `parts` are its subgraphs, planned, and `rivals`
    the names and costs of the kernels that lost, cheapest first."""

    node: Node
    kernel: Kernel
    parts: Mapping[str, Program] = field(default_factory=dict)
    rivals: tuple[tuple[str, float], ...] = ()


@frozen
class Program:
    """Everything decided; code generation only formats it."""

    graph: Graph
    target: Target
    calls: tuple[Call, ...]
    memory: MemoryPlan
    aliases: Mapping[str, str]  # view -> the tensor whose bytes it shares
    workspace_io: bool = False  # inputs and outputs live in the workspace

    def storage(self, name: str) -> str:
        """The tensor whose buffer holds `name`."""
        while name in self.aliases:
            name = self.aliases[name]
        return name


def content_of(operand: Operand) -> tuple[str, bytes]:
    """Equal for constants that are stored once: the C type, and a digest of the elements."""
    assert operand.array is not None
    return operand.ctype, hashlib.sha256(operand.array.tobytes()).digest()
