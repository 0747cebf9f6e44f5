"""Targets by our short names, or by TVM's strings where those mean one of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.targets import TARGETS

KINDS = ("c",)  # what a string may begin with
# Attributes that say which device, and those that say what its targets say anyway.
_DEVICE, _NOTED = ("mcpu", "march"), ("keys", "model", "device", "runtime", "host", "link-params")


@dataclass(frozen=True)
class Kind:
    name: str


class Target:
    """A device. `name` is our short name, `str()` TVM's string."""

    def __init__(self, target: str | Target | Mapping[str, Any], host: Any = None) -> None:
        self.name: str
        if isinstance(target, Target):
            self.name = target.name
        elif isinstance(target, Mapping):
            attrs = {k: v for k, v in target.items() if k not in ("kind", "host")}
            words = [f"-{k}={','.join(v) if isinstance(v, list) else v}" for k, v in attrs.items()]
            self.name = _resolve(" ".join([str(target.get("kind", "c")), *words]))
        else:
            self.name = _resolve(target)
        self.host = host

    @property
    def kind(self) -> Kind:
        return Kind(TARGETS[self.name].tvm.split()[0])

    def __str__(self) -> str:
        return TARGETS[self.name].tvm

    def __repr__(self) -> str:
        return f"Target({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def the_target(given: Any) -> Target:
    """What `build` may be given: one target, or a list or a mapping of one. Raises MlfError."""
    if given is None:
        return Target("host")
    if isinstance(given, Mapping) and "kind" not in given:
        given = list(given.values())
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != 1:
            text = f"{len(given)} targets; expected one: a module runs on one device"
            raise MlfError(Problem("MLF0403", text))
        given = given[0]
    return Target(given)


def _resolve(text: str) -> str:
    if text in TARGETS:
        return text
    if same := [name for name, t in TARGETS.items() if t.tvm == text]:
        return same[0]
    kind, *words = shlex.split(text) or [""]
    if kind not in KINDS:
        help = did_you_mean(text.split(",")[0].strip(), [*TARGETS, *KINDS])
        raise MlfError(Problem("MLF0403", f"unknown target '{text}'", help=help))
    attrs = dict(w.lstrip("-").partition("=")[::2] for w in words)
    if unknown := [k for k in attrs if k not in (*_DEVICE, *_NOTED)]:
        help = did_you_mean(unknown[0], (*_DEVICE, *_NOTED))
        raise MlfError(Problem("MLF0406", f"target attribute '{unknown[0]}'", help=help))
    device = attrs.get("mcpu") or attrs.get("march") or "host"
    if device not in TARGETS:
        help = did_you_mean(device, TARGETS)
        raise MlfError(Problem("MLF0403", f"unknown device '{device}' in '{text}'", help=help))
    return device
