"""The archives that a manifest asks for, and where they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlftool.manifest.keys import Archive, Manifest, Model
from mlftool.options import OPTIONS


@dataclass(frozen=True)
class Entry:
    """One archive: which models, for which target, each run by which executor."""

    output: str  # relative to the folder everything is built into
    name: str  # of the model or archive in the manifest
    models: tuple[str, ...]
    target: str
    executors: tuple[str, ...]  # of each model

    @property
    def executor(self) -> str:
        """All of them in one word."""
        return "+".join(dict.fromkeys(self.executors))


def executors_of(manifest: Manifest, archive: Archive) -> tuple[str, ...]:
    """How each model of an archive is run."""
    return tuple(archive.executor or manifest.models[name].executors[0] for name in archive.models)


def executor_options(model: Model, executor: str) -> dict[str, Any]:
    """The manifest's options for one executor, as fields of ModuleSpec and attributes of rules."""
    options = {n: getattr(model, n) for n, o in OPTIONS.items() if o.understood_by(executor)}
    # Another executor of the model may have packed functions to find.
    if executor == "aot" and model.interface_api != "packed":
        del options["system_lib"]
    return {"executor": executor, **options}


def entries(manifest: Manifest) -> tuple[Entry, ...]:
    """Every model x target x executor in the manifest's order, then its archives."""
    single = [
        Entry(f"{m.name}/{target}-{executor}.tar", m.name, (m.name,), target, (executor,))
        for m in manifest.models.values()
        for target in m.targets
        for executor in m.executors
    ]
    several = [
        Entry(f"{a.name}.tar", a.name, a.models, a.target, executors_of(manifest, a))
        for a in manifest.archives.values()
    ]
    return tuple(single + several)
