"""TVM's memory pools of scripts, as pools of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlftool.errors import ArgumentError, Problem
from mlftool.frozen import field, frozen

LARGEST = (1 << 31) - 1  # where there is no hint: the plan takes what it needs


@frozen
class PoolInfoProperties:
    """The size of a memory in bytes, -1 for any. What TVM says of speeds is accepted and unused:
    the order of pools says it."""

    size_hint_bytes: int = -1
    clock_frequency_hz: int = -1
    read_bandwidth_bytes_per_cycle: int = -1
    write_bandwidth_bytes_per_cycle: int = -1
    read_latency_cycles: int = 0
    write_latency_cycles: int = 0
    target_burst_bytes: Any = None


@frozen
class WorkspacePoolInfo:
    """A memory that the application hands over, by its name in the header."""

    pool_name: str
    targets: Sequence[Any] = ()
    pool_info_properties: PoolInfoProperties = field(default_factory=PoolInfoProperties)


@frozen
class WorkspaceMemoryPools:
    """Pools, fastest first."""

    pools: Sequence[WorkspacePoolInfo]


@frozen
class ConstantPoolInfo:
    """A memory for constants, which no module here has."""

    pool_name: str
    targets: Sequence[Any] = ()
    constant_info_arr: Any = None
    pool_info_properties: PoolInfoProperties = field(default_factory=PoolInfoProperties)


@frozen
class ConstantMemoryPools:
    """Refused by build unless it is empty."""

    pools: Sequence[ConstantPoolInfo]


def pool_texts(workspace: Any, constant: Any) -> tuple[str, ...]:
    """The compiler's option `pools`. Raises MlfError."""
    if constant is not None and list(getattr(constant, "pools", (1,))):
        text = "constants are in the module's code; a script cannot give them a pool"
        hint = "leave constant_memory_pools out; MLF_WEIGHTS names their section"
        raise ArgumentError(Problem("MLF0405", text, help=hint))
    if workspace is None:
        return ()
    pools = getattr(workspace, "pools", None)
    if pools is None or not all(isinstance(p, WorkspacePoolInfo) for p in pools):
        text = f"workspace_memory_pools is {type(workspace).__name__}; expected "
        text += "memory pools: WorkspaceMemoryPools of WorkspacePoolInfo"
        raise ArgumentError(Problem("MLF0405", text))
    return tuple(pool_text(p.pool_name, p.pool_info_properties.size_hint_bytes) for p in pools)


def pool_text(name: str, size: int) -> str:
    return f"{name}={LARGEST if size == -1 else size}"
