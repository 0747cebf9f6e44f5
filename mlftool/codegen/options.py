"""How a module is called and what its archive contains, in TVM's terms."""

from __future__ import annotations

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.options import CompilerOptions


@frozen
class Options:
    """`unpacked_api`: the module's own calls are plain C calls. `link_params`: constants are C
    arrays, not entries of the .params file. `system_lib`: packed functions are found by name."""

    module: str
    interface_api: str = "c"
    unpacked_api: bool = True
    link_params: bool = True
    system_lib: bool = False
    weights: str = "auto"
    model_sha256: str = ""  # of the file, external data inside
    # Each backend's name, and how the names of its device's functions begin.
    backends: tuple[tuple[str, str], ...] = ()
    marks: bool = False  # the plain aot executor reads the board's counter around each call


def check_linked(executor: str, asked: CompilerOptions) -> None:
    """Raises MlfError where an executor that has no parameter file is asked for one."""
    if asked.link_params is False:
        raise refused(
            f"the {executor} executor reads its parameters from C arrays only; got link-params 0",
            "use --executor graph for parameters in a file",
        )


def refused(message: str, help: str = "") -> MlfError:
    """The error of options that an executor does not have."""
    return MlfError(Problem("MLF0405", message, help=help))
