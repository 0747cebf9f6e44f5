"""A part of a graph that C from outside computes: what a backend was given, and what it wrote.

The node that stands for it has a `Part` as attribute PART. Its function has these parameters, in
this order: `in0`, `in1` ..., the constants by their names, `out0` ..., then `workspace` if it has
any, and the device's `context` if there is a device. It returns 0, or anything else if it failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.frozen import field, frozen
from mlftool.ir.graph import Array, Graph

PART = "mlf.part"


def c_name(name: str) -> str:
    """A name of words between hyphens as part of an identifier."""
    return name.replace("-", "_")


@frozen
class Library:
    """What a backend's code is linked with, as `external_dependencies` of an archive has it."""

    name: str
    version: str
    url: str = ""


@frozen
class BackendCode:
    """C for one part. `body` are the statements of its function; it may name the parameters above.

    `includes` are headers as #include has them, with quotes or brackets; `declarations` stand once
    in front of all functions of the backend. `headers` go beside the module's own header, by their
    names; `objects` are compiled code to link besides. `macs` are products, for reports.
    """

    body: str
    includes: tuple[str, ...] = ()
    declarations: str = ""
    constants: Mapping[str, Array] = field(default_factory=dict)
    workspace_bytes: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    objects: tuple[bytes, ...] = ()
    macs: int = 0


@frozen(repr=False)
class Part:
    """A subgraph, and the C that computes it in function `symbol`; `device` is "" for a library
    that runs on the core."""

    backend: str
    device: str
    symbol: str
    graph: Graph
    code: BackendCode

    @property
    def member(self) -> str:
        """The device's name in C."""
        return c_name(self.device)

    def __repr__(self) -> str:
        return self.symbol
