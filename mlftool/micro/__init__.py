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
    from mlftool.micro.project import (
        GeneratedProject,
        TemplateProject,
        generate_project,
        generate_project_from_mlf,
        get_microtvm_template_projects,
    )
    from mlftool.mlf.runtime_tree import crt_root as get_standalone_crt_dir

__all__ = [
    "FdTransport",
    "GeneratedProject",
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
    "TemplateProject",
    "Transport",
    "TransportClosedError",
    "TransportTimeouts",
    "create_aot_executor",
    "create_graph_executor",
    "create_local_aot_executor",
    "create_local_debug_executor",
    "create_local_graph_executor",
    "export_model_library_format",
    "generate_project",
    "generate_project_from_mlf",
    "get_microtvm_template_projects",
    "get_standalone_crt_dir",
    "testing",
]
_OF_PROJECTS = (
    *("GeneratedProject", "TemplateProject", "generate_project", "generate_project_from_mlf"),
    "get_microtvm_template_projects",
)
_missing = missing(__name__, __all__)


def __dir__() -> list[str]:
    """With the names that are imported when they are asked for."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """What needs the compiler is imported when it is asked for: driving a board does not."""
    if name == "export_model_library_format":
        return importlib.import_module("mlftool.api").export_model_library_format
    if name in _OF_PROJECTS:
        return getattr(importlib.import_module("mlftool.micro.project"), name)
    if name == "get_standalone_crt_dir":
        return lambda: str(importlib.import_module("mlftool.mlf.runtime_tree").crt_root())
    if name in ("project", "testing"):
        return importlib.import_module(f"mlftool.micro.{name}")
    return _missing(name)
