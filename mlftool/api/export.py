"""Archives of what `build` made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlftool.api.factory import Factory
from mlftool.describe import bundle
from mlftool.errors import MlfError, Problem
from mlftool.mlf import write_tar


def export_model_library_format(
    mods: Factory | Sequence[Factory], file_name: str | os.PathLike[str], version: int = 7
) -> Path:
    """Write one archive with all of `mods`, in a version of the format; returns its path.

    Raises MlfError; its text for two modules of one name is TVM's.
    """
    factories = [mods] if isinstance(mods, Factory) else list(mods)
    for item in factories:
        if not isinstance(item, Factory):
            text = f"cannot export {type(item).__name__}; expected what mlftool.build returned"
            raise MlfError(Problem("MLF0506", text))
    modules = [replace(f.compiled, spec=replace(f.compiled.spec, mlf_version=version))
               for f in factories]  # fmt: skip
    if not modules:
        raise MlfError(Problem("MLF0506", "an archive holds at least one module"))
    path = Path(file_name)
    write_tar(bundle(modules), path)
    return path
