"""TVM's `Target`: what a model is compiled for, by name, string or mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlftool.backends import backends
from mlftool.errors import MlfError, Problem
from mlftool.targets import Target as Device
from mlftool.targets.strings import of_mapping, parse, without_backends


@dataclass(frozen=True)
class Kind:
    name: str


class Target:
    """A device. `name` is our short name, `str()` TVM's string."""

    def __init__(self, target: str | Target | Mapping[str, Any], host: Any = None) -> None:
        self.device: Device
        self.backends: tuple[str, ...]  # of TVM's list, such as cmsis-nn,c
        if isinstance(target, Target):
            self.device, self.backends = target.device, target.backends
        else:
            if not isinstance(target, (str, Mapping)):
                text = f"target is {type(target).__name__}; expected the name of a target, a "
                text += "TVM target string or a mapping"
                raise MlfError(Problem("MLF0403", text))
            text = of_mapping(target) if isinstance(target, Mapping) else target
            text, self.backends = without_backends(text, backends())
            self.device = parse(text)
        self.host = host

    @property
    def name(self) -> str:
        return self.device.name

    @property
    def kind(self) -> Kind:
        return Kind(self.device.kind)

    def __str__(self) -> str:
        return self.device.tvm

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Target):
            return False
        return (other.device, other.backends) == (self.device, self.backends)

    def __hash__(self) -> int:
        return hash(str(self))


def the_target(given: Any) -> Target:
    """The target given to `build`: one, or a list or mapping of one. Raises MlfError."""
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
