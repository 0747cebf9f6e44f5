"""The archives that a manifest asks for, and where they go."""

from __future__ import annotations

from dataclasses import dataclass

from mlftool.manifest.keys import Manifest


@dataclass(frozen=True)
class Entry:
    """One archive: which models, for which target, run by which executor."""

    output: str  # relative to the folder everything is built into
    name: str  # of the model or archive in the manifest
    models: tuple[str, ...]
    target: str
    executor: str


def entries(manifest: Manifest) -> tuple[Entry, ...]:
    """Every model x target x executor in the manifest's order, then its archives."""
    single = [
        Entry(f"{m.name}/{target}-{executor}.tar", m.name, (m.name,), target, executor)
        for m in manifest.models.values()
        for target in m.targets
        for executor in m.executors
    ]
    several = [
        Entry(f"{a.name}.tar", a.name, a.models, a.target, a.executor)
        for a in manifest.archives.values()
    ]
    return tuple(single + several)
