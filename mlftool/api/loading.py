"""`mlftool.load`: archives as they are, and models through the compiler."""

from __future__ import annotations

import os
from pathlib import Path

from onnx import ModelProto

from mlftool.api.factory import Factory
from mlftool.api.module import IRModule, refuse
from mlftool.codegen.names import module_name_of
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.files import MODEL_SUFFIXES
from mlftool.runtime import load as archives
from mlftool.runtime.load import LoadedArchive
from mlftool.runtime.shared_load import SUFFIXES as LIBRARY_SUFFIXES
from mlftool.runtime.shared_load import LoadedLibrary

_TAKEN = "a path of an archive or a model, an onnx.ModelProto, or the result of from_onnx or build"


def load(
    path: str | os.PathLike[str] | ModelProto | IRModule | Factory,
    cache_dir: str | os.PathLike[str] | None = None,
) -> LoadedArchive | LoadedLibrary:
    """An archive, made by TVM or mlftool, or a library of `mlftool library`, ready to be run.

    A model (`.onnx`, `.tflite`, or in memory) is compiled for this computer first. No code of the
    archive has run yet; libraries compiled later go to `cache_dir`, else to $MLFTOOL_CACHE or the
    user's cache.
    Raises MlfError for a file that is unsafe, incomplete or of neither format.
    """
    if isinstance(path, Factory):
        return path.archive
    cache = Path(cache_dir) if cache_dir else None
    if isinstance(path, IRModule):
        spec = ModuleSpec(path.model, input_shapes=path.shapes, output_names=path.output_names)
        return LoadedArchive(compile_modules([spec]), "", cache)
    if isinstance(path, ModelProto):
        return LoadedArchive(compile_modules([ModuleSpec(path)]), "", cache)
    if not isinstance(path, (str, os.PathLike)):
        raise refuse("load", path, _TAKEN)
    if Path(path).suffix in MODEL_SUFFIXES:
        spec = ModuleSpec(Path(path), module_name_of(Path(path)))
        return LoadedArchive(compile_modules([spec]), str(path), cache)
    if Path(path).suffix in LIBRARY_SUFFIXES:
        return LoadedLibrary(Path(path))
    return archives.load(path, cache_dir)
