"""The archives that a manifest asks for, and where they go."""

from __future__ import annotations

from typing import Any

from mlftool.frozen import frozen
from mlftool.manifest.keys import Archive, Manifest, Model
from mlftool.options import OPTIONS
from mlftool.runtime.boards import BOARDS


@frozen
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


def base_target(manifest: Manifest, target: str) -> str:
    """The built-in target that `target` is, or is based on."""
    own = manifest.targets.get(target)
    return own.base if own else target


def has_budget(manifest: Manifest, target: str) -> bool:
    """Whether budgets hold on a target: a program of an operating system has no flash, and its
    kernels' working memory is no board's."""
    board = BOARDS.get(base_target(manifest, target))
    return board is not None and not board.hosted


def limit_of(manifest: Manifest, model: Model, target: str, name: str) -> int | None:
    """The most `flash` or `ram` that a model may take on a target: its budget, or what is there."""
    if not has_budget(manifest, target):
        return None
    own = manifest.targets.get(target)
    limits = [getattr(own, name) if own else None]
    limits += [model.budget.limit(target, name)[0] if model.budget else None]
    return min((limit for limit in limits if limit is not None), default=None)


def ram_goal(manifest: Manifest, model: Model, target: str) -> int | None:
    """The RAM that the compiler is to look for a plan of; None where there is no limit, or keys of
    the model say how it is planned."""
    if model.tuning or model.ram_budget != OPTIONS["ram_budget"].default:
        return None
    return limit_of(manifest, model, target, "ram")
