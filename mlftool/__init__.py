"""mlftool compiles ONNX models to C for microcontrollers and packs them as MLF archives.

import mlftool
outputs = mlftool.load("model.tar").module().run({"x": array})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlftool.runtime.load import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    """What is heavy to import, when it is asked for: a manifest is checked without numpy."""
    if name == "load":
        from mlftool.runtime.load import load

        return load
    raise AttributeError(f"module 'mlftool' has no attribute '{name}'")
