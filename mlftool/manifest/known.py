"""The names a manifest may use without declaring them."""

from __future__ import annotations

from mlftool.options import EXECUTORS
from mlftool.targets import TARGETS


def targets() -> tuple[str, ...]:
    """The built-in targets."""
    return tuple(TARGETS)


def executors() -> tuple[str, ...]:
    """The executors that can be generated."""
    return EXECUTORS
