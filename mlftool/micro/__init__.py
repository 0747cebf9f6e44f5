"""TVM's `tvm.micro`: writing archives, and sessions with boards. docs/rpc.md has examples."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mlftool.micro.errors import (
    IoTimeoutError,
    MicroError,
    MicroSessionTimeoutError,
    RPCError,
    SessionTerminatedError,
    TransportClosedError,
)
from mlftool.micro.executors import (
    create_aot_executor,
    create_graph_executor,
    create_local_aot_executor,
    create_local_debug_executor,
    create_local_graph_executor,
)
from mlftool.micro.session import Session
from mlftool.micro.transport import (
    FdTransport,
    ProcessTransport,
    QemuTransport,
    SerialTransport,
    SocketTransport,
    Transport,
    TransportTimeouts,
)
from mlftool.moved import missing

if TYPE_CHECKING:
    from mlftool.api import export_model_library_format
    from mlftool.micro import testing

__all__ = [
    "FdTransport",
    "IoTimeoutError",
    "MicroError",
    "MicroSessionTimeoutError",
    "ProcessTransport",
    "QemuTransport",
    "RPCError",
    "SerialTransport",
    "Session",
    "SessionTerminatedError",
    "SocketTransport",
    "Transport",
    "TransportClosedError",
    "TransportTimeouts",
    "create_aot_executor",
    "create_graph_executor",
    "create_local_aot_executor",
    "create_local_debug_executor",
    "create_local_graph_executor",
    "export_model_library_format",
    "testing",
]
_missing = missing(__name__, __all__)


def __getattr__(name: str) -> Any:
    """What needs the compiler is imported when it is asked for: driving a board does not."""
    if name == "export_model_library_format":
        return importlib.import_module("mlftool.api").export_model_library_format
    if name == "testing":
        return importlib.import_module("mlftool.micro.testing")
    return _missing(name)
