"""TVM's `tvm.micro`: writing archives. Projects and sessions with boards are not here yet."""

from mlftool.api import export_model_library_format
from mlftool.micro import testing
from mlftool.moved import missing

__all__ = ["export_model_library_format", "testing"]
__getattr__ = missing(__name__, __all__)
