"""What went where: for people, and as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.frozen import field, frozen


@frozen
class Offloaded:
    """Nodes that a backend computes in one call of `function`."""

    backend: str
    function: str
    nodes: tuple[tuple[str, str], ...]  # name, operator


@frozen
class Kept:
    """A node that mlftool's kernels compute; `reasons` are those of backends that looked at it."""

    node: str
    op: str
    reasons: Mapping[str, str] = field(default_factory=dict)


@frozen
class Report:
    """Of one model, in the order of its nodes."""

    backends: tuple[str, ...]
    offloaded: tuple[Offloaded, ...] = ()
    kept: tuple[Kept, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "backends": list(self.backends),
            "offloaded": [
                {
                    "backend": o.backend,
                    "function": o.function,
                    "nodes": [{"name": name, "op": op} for name, op in o.nodes],
                }
                for o in self.offloaded
            ],
            "kept": [{"name": k.node, "op": k.op, "reasons": dict(k.reasons)} for k in self.kept],
        }

    def lines(self) -> Sequence[str]:
        """A line for each part, and one for each node that a backend refused."""
        count = sum(len(o.nodes) for o in self.offloaded)
        total = count + len(self.kept)
        found = [f"{count} of {total} nodes are for {', '.join(self.backends)}"]
        found += [
            f"  {o.function}: {', '.join(f'{op} {name}' for name, op in o.nodes)}"
            for o in self.offloaded
        ]
        return found + [
            f"  kept: {k.op} {k.node}: {backend}: {reason}"
            for k in self.kept
            for backend, reason in k.reasons.items()
        ]
