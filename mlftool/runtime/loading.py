"""Whatever file a module is in: `mlftool.load` for all but models, and TVM's `load_module`."""

from __future__ import annotations

import os
from pathlib import Path

from mlftool.runtime.load import LoadedArchive, load
from mlftool.runtime.shared_load import SUFFIXES, LoadedLibrary


def load_module(path: str | os.PathLike[str], fmt: str = "") -> LoadedArchive | LoadedLibrary:
    """A library of `mlftool library`, an archive, or the folder it was unpacked to.

    `fmt` is TVM's, and ignored. Raises MlfError.
    """
    is_library = Path(path).suffix in SUFFIXES
    return LoadedLibrary(Path(path)) if is_library else load(path)
