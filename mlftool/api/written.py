"""Archives of compiled modules, as the export functions of scripts write them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlftool.api.module import wrong
from mlftool.describe import bundle
from mlftool.mlf import Bundle, write_tar
from mlftool.module import Module


def bundle_of(modules: Sequence[Module], version: int = 7) -> Bundle:
    """One archive with all of `modules`, in a version of the format."""
    versioned = [replace(m, spec=replace(m.spec, mlf_version=version)) for m in modules]
    # Scripts of TVM's users look for runtime/ and templates/.
    return bundle(versioned, runtime=True)


def path_of(file_name: str | os.PathLike[str]) -> Path:
    """Raises MlfError for anything that is no path."""
    if not isinstance(file_name, (str, os.PathLike)):
        raise wrong("file_name", file_name, "a path")
    return Path(file_name)


def write(made: Bundle, path: Path) -> Path:
    write_tar(made, path)
    return path
