"""The archives that a manifest asks for, and where they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlftool.manifest.keys import Archive, Manifest, Model


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
    """What the manifest asks of one executor, as fields of ModuleSpec and attributes of rules."""
    packed = model.interface_api == "packed"
    options: dict[str, Any] = {"executor": executor, "mlf_version": model.mlf_version}
    options |= {"float_mode": model.float_mode, "weights": model.weights}
    options["optimize"], options["patches"] = model.optimize, model.patches
    if executor == "aot":
        options["interface_api"] = model.interface_api
        options["unpacked_api"] = model.unpacked_api
        options["workspace_io"] = model.workspace_io
        options["pools"] = model.pools
    if executor == "graph":
        options["link_params"] = model.link_params
    if executor == "graph" or (executor == "aot" and packed):
        options["system_lib"] = model.system_lib
    return options


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
