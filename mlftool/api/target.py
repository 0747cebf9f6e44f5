"""TVM's `Target`: what a model is compiled for, by name, string or mapping."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.backends import backends
from mlftool.errors import ArgumentError, Problem
from mlftool.frozen import frozen
from mlftool.moved import OfTvm
from mlftool.targets import Target as Device
from mlftool.targets.strings import of_mapping, parse, without_backends


@frozen
class Kind:
    name: str


class Target(OfTvm):
    """A device. `name` is our short name, `str()` TVM's string. In a `with` block it is the target
    of builds that name none."""

    def __init__(self, target: str | Target | Mapping[str, Any], host: Any = None) -> None:
        self.device: Device
        self.backends: tuple[str, ...]  # of TVM's list, such as cmsis-nn,c
        if isinstance(target, Target):
            self.device, self.backends = target.device, target.backends
        else:
            if not isinstance(target, (str, Mapping)):
                text = f"target is {type(target).__name__}; expected the name of a target, a "
                text += "TVM target string or a mapping"
                raise ArgumentError(Problem("MLF0403", text))
            text = of_mapping(target) if isinstance(target, Mapping) else target
            text, self.backends = without_backends(text, backends())
            self.device = parse(text)
        self.host = host

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost `with` block's. Raises MlfError if there is none and must be."""
        if not _STACK.targets and not allow_none:
            raise ArgumentError(Problem("MLF0403", "no target: this is in no `with Target(...)`"))
        return _STACK.targets[-1] if _STACK.targets else None

    def __enter__(self) -> Target:
        _STACK.targets.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _STACK.targets.pop()

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


class _Stack(threading.local):
    def __init__(self) -> None:
        self.targets: list[Target] = []


_STACK = _Stack()


def the_target(given: Any) -> Target:
    """The target given to `build`: one, or a list or mapping of one. Raises MlfError."""
    if given is None:
        return Target.current() or Target("host")
    if isinstance(given, Mapping) and "kind" not in given:
        given = list(given.values())
    if isinstance(given, Sequence) and not isinstance(given, str):
        if len(given) != 1:
            return Target(_joined(given))
        given = given[0]
    return Target(given)


def _joined(given: Sequence[Any]) -> str:
    """A list of backends and one device as TVM's one text, which has them all. Raises MlfError."""
    texts = [str(t) for t in given]
    kinds = [text.split()[0] if text.split() else "" for text in texts]
    devices = [text for text, kind in zip(texts, kinds, strict=True) if kind not in backends()]
    if len(devices) > 1 or not texts:
        text = f"{len(devices)} targets; expected one: a module runs on one device"
        raise ArgumentError(Problem("MLF0403", text, help="others are backends, such as cmsis-nn"))
    return ",".join(texts)
