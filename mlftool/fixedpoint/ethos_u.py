"""Commands of an Ethos-U, which a compiler outside of mlftool wrote: a backend calls its driver."""

from __future__ import annotations

from mlftool.ir.graph import View
from mlftool.ops.base import Kernel, UnsupportedError, op


@op("mlf.EthosU")
def ethos_u(v: View) -> Kernel:
    """Inputs are the commands, the constants and the data. Attributes: `scratch` and `fast` bytes
    of memory, `fast` 0 if that is the same; for data and outputs, `at` is the place in `scratch`
    where the commands expect them, -1 if the commands ask for their own addresses."""
    raise UnsupportedError("commands of an Ethos-U run on one: name the backend ethos-u")
