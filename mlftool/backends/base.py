"""What a backend is: a generator of C for nodes that something other than our kernels computes."""

from __future__ import annotations

import re
from collections.abc import Callable

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.ir.external import BackendCode, Library
from mlftool.ir.graph import Graph, Node
from mlftool.targets import Target

Accepts = Callable[[Graph, Node, Target], "tuple[Node, ...] | str"]
Compile = Callable[[Graph, Target], BackendCode]
NAME = r"[a-z][a-z0-9-]{0,30}"
DEVICE = r"[a-z][a-z0-9_-]{0,30}"


@frozen
class Backend:
    """A library or a device beside the core.

    `accepts(graph, node, target)` gives the nodes that it computes together, `node` last; or why it
    does not take a node of a kind that it has, or "" for others. Data are channels-last there, and
    nothing is fused yet. With `merges`, parts that read nothing but one another become one.

    `compile(part, target)` writes the C of a part, whose constants are in it.

    With a `device`, calls are between `TVMDevice<Device>Open` and `Close`, runs between `Activate`
    and `Deactivate`, and the application passes a context. `libraries` are what is linked besides.
    """

    name: str
    accepts: Accepts
    compile: Compile
    device: str = ""
    libraries: tuple[Library, ...] = ()
    merges: bool = False

    @property
    def hooks(self) -> str:
        return hooks_of(self.device)


def hooks_of(device: str) -> str:
    """How the names of a device's functions begin: TVM's rule, but digits count."""
    return "TVMDevice" + "".join(w.capitalize() for w in re.split("[-_]", device))


def checked(backend: object, where: str) -> Backend:
    """`backend`, if it is one. Raises MlfError that says what is wrong with it."""
    if not isinstance(backend, Backend):
        text = f"{where} is {type(backend).__name__}; expected an mlftool.backends.Backend"
        raise MlfError(Problem("MLF0410", text))
    if not isinstance(backend.name, str) or not re.fullmatch(NAME, backend.name):
        text = f"{where} has the name {backend.name!r}; expected lower-case letters, digits and '-'"
        raise MlfError(Problem("MLF0410", text))
    if backend.device and not re.fullmatch(DEVICE, backend.device):
        text = f"backend '{backend.name}' has the device {backend.device!r}; expected lower-case "
        raise MlfError(Problem("MLF0410", text + "letters, digits, '-' and '_'"))
    for what in ("accepts", "compile"):
        if not callable(getattr(backend, what)):
            text = f"backend '{backend.name}': {what} is not a function"
            raise MlfError(Problem("MLF0410", text))
    return backend
