"""Reads manifests: YAML in, typed and checked dataclasses out.

Imports PyYAML and the standard library only, because Bazel's repository rule runs it with the
system's Python, before any package has been fetched.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.files import MODEL_SUFFIXES, read_plain
from mlftool.manifest import known
from mlftool.manifest.boards import UserTarget
from mlftool.manifest.keys import MANIFEST, Archive, Budget, Defaults, Limits, Manifest, Model, Test
from mlftool.manifest.kinds import Reading, refuse
from mlftool.manifest.matrix import expand
from mlftool.manifest.nodes import Mapping, Node, Place
from mlftool.manifest.reader import MAX_BYTES, read_nodes

__all__ = [
    "Archive",
    "Budget",
    "Defaults",
    "Limits",
    "Manifest",
    "Model",
    "Place",
    "Test",
    "UserTarget",
    "load",
    "read",
    "schema",
]


def load(file: str | Path, *, check_files: bool = True) -> Manifest:
    """The manifest in `file`. Raises MlfError with every problem in it, in the file's order.

    Without `check_files` the files it names need not exist.
    """
    manifest, problems = read(file, check_files=check_files)
    if problems or manifest is None:
        raise MlfError(problems)
    return manifest


def read(
    file: str | Path, *, check_files: bool = True
) -> tuple[Manifest | None, tuple[Problem, ...]]:
    """The valid part of `file`, or None, and every problem, for callers that continue anyway."""
    file = Path(file)
    reading = Reading(str(file), file.parent if check_files else None)
    data = _read_bytes(file, reading)
    root = None if data is None else read_nodes(data, reading.report)
    readable = not reading.problems
    manifest = None if root is None else _read_manifest(root, file, reading)
    problems = sorted(set(reading.problems), key=lambda p: (p.line, p.column, p.code, p.path))
    return (manifest if readable else None), tuple(problems)


def schema() -> dict[str, Any]:
    """The JSON Schema (draft-07) of manifests, for editors."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "mlftool manifest",
        "description": "ONNX models, and what to build from them for which devices.",
        **MANIFEST.schema(),
    }


_OTHERS = {
    **dict.fromkeys(
        MODEL_SUFFIXES, "`mlftool compile` takes a model, `mlftool init` begins with one"
    ),
    ".tar": "`mlftool inspect` and `mlftool run` take an archive",
}


def _read_bytes(file: Path, reading: Reading) -> bytes | None:
    if file.suffix in _OTHERS and file.is_file():
        what = "an archive" if file.suffix == ".tar" else "a model"
        message = f"cannot read the manifest; got {what}, expected a YAML file"
        problem = Problem("MLF0100", message, reading.file, help=_OTHERS[file.suffix])
        reading.problems.append(problem)
        return None
    try:
        return read_plain(file, MAX_BYTES + 1)
    except OSError as error:
        message = f"cannot read the manifest; got '{error.strerror}', expected a YAML file"
        reading.problems.append(Problem("MLF0100", message, reading.file))
        return None


def _read_manifest(root: Node, file: Path, reading: Reading) -> Manifest | None:
    if not isinstance(root, Mapping):
        refuse(MANIFEST, root, "", reading, help="begin with 'version: 1'")
        return None
    root = expand(root, reading)
    # Names are known before anything is read, so sections may refer to each other in any order.
    reading.inherited.update(vars(Defaults()))
    sections = {key.text: child for key, child in root.entries}
    for section in ("models", "targets"):
        child = sections.get(section, Mapping(root.at, ()))
        names = tuple(key.text for key, _ in child.entries) if isinstance(child, Mapping) else None
        reading.declared[section] = names
    values = MANIFEST.read_keys(root, "", reading)
    if not {"version", "models"} <= values.keys():
        return None
    return _sound(Manifest(file=file, places=reading.places, **values))


def _sound(manifest: Manifest) -> Manifest:
    """Without the models and archives that depend on refused entries; all of it, if none were."""
    targets = {*known.targets(), *manifest.targets}
    models = {n: m for n, m in manifest.models.items() if targets.issuperset(m.targets)}
    archives = {
        name: archive
        for name, archive in manifest.archives.items()
        if archive.target in targets and all(model in models for model in archive.models)
    }
    return replace(manifest, models=models, archives=archives)
