"""TVM's `tvm.micro`: writing archives. Projects and sessions with boards are not here yet."""

from mlftool.api import export_model_library_format
from mlftool.micro import testing

__all__ = ["export_model_library_format", "testing"]
