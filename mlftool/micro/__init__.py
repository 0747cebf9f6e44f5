"""TVM's `tvm.micro`: writing archives, and sessions with boards. docs/rpc.md has examples."""

from mlftool.api import export_model_library_format
from mlftool.micro import testing
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
__getattr__ = missing(__name__, __all__)
