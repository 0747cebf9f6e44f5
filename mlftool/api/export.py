"""Archives of the results of `build`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mlftool.api.factory import Factory
from mlftool.api.operator import OperatorModule
from mlftool.api.written import bundle_of, path_of, write
from mlftool.errors import MlfError, Problem
from mlftool.mlf import Bundle, archive, runtime_tree
from mlftool.mlf.records import Archive

Exportable = Factory | OperatorModule


def export_model_library_format(
    mods: Exportable | Sequence[Exportable], file_name: str | os.PathLike[str], version: int = 7
) -> Path:
    """Write one archive with all of `mods`, in a version of the format; returns its path.

    Raises MlfError; its texts for two modules with the same name and for two operators are TVM's.
    """
    given = [mods] if isinstance(mods, Exportable) else mods
    path = path_of(file_name)
    return write(_bundle(given, version), path)


def _bundle(mods: Sequence[Exportable], version: int) -> Bundle:
    if not isinstance(mods, Sequence) or not mods:
        raise MlfError(Problem("MLF0506", f"cannot export {mods!r}; expected built modules"))
    for item in mods:
        if not isinstance(item, Exportable):
            text = f"cannot export {type(item).__name__}; expected the result of mlftool.build"
            raise MlfError(Problem("MLF0506", text))
    operators = [m for m in mods if isinstance(m, OperatorModule)]
    if operators and len(mods) > 1:
        text = "Multiple operator is not supported. Got "
        text += ", ".join(m.name if isinstance(m, OperatorModule) else m.lib_name for m in mods)
        raise MlfError(Problem("MLF0506", text, help="write one archive for each operator"))
    if operators:
        record = operators[0].record
        shared = runtime_tree.headers_of(record.sources.values())
        return archive.write(Archive(version, (record,), shared))
    return bundle_of([m.compiled for m in mods if isinstance(m, Factory)], version)
