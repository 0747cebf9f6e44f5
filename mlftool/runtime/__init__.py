"""Running archives: on this computer, on simulated boards, and comparing what they give.

Everything here starts from a Bundle (mlftool.mlf) and real C compilers; the model compiler is never
imported, so an archive made by another tool runs the same way.
"""

from __future__ import annotations

import importlib
from typing import Any

from mlftool.moved import missing

_HOMES = {
    "load_module": "mlftool.runtime.loading",
    **dict.fromkeys(("cpu", "device"), "mlftool.runtime.nd"),
    **dict.fromkeys(("load_param_dict", "save_param_dict"), "mlftool.runtime.param_dict"),
}
_missing = missing(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    """Names of TVM's `tvm.runtime`, when they are asked for."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    return _missing(name)
