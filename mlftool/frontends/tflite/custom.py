"""The options of custom operators: a map in the file, whose numbers have names."""

from __future__ import annotations

from typing import Any

from mlftool.frontends.tflite.site import RefusedError, Site
from mlftool.frozen import frozen


@frozen
class Options:
    """What the file says; a value that is missing is refused where there is no default."""

    values: dict[str, Any]

    def number(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An integer from `low` to `high`."""
        found = self.values.get(name, default)
        if not isinstance(found, bool | int):
            raise RefusedError(f"has no option {name}")
        if not low <= found <= high:
            raise RefusedError(f"{name} {int(found)}; supported: {low} to {high}")
        return int(found)

    def real(self, name: str) -> float:
        found = self.values.get(name)
        if not isinstance(found, bool | int | float):
            raise RefusedError(f"has no option {name}")
        return float(found)


def options(s: Site) -> Options:
    """Raises RefusedError for bytes that are no map."""
    from flatbuffers import flexbuffers

    try:
        given = flexbuffers.Loads(s.node.custom) if s.node.custom else {}
    except Exception:  # the package has no class for what is wrong
        raise RefusedError("options that cannot be read") from None
    if not isinstance(given, dict):
        raise RefusedError("options that are not a map")
    return Options(given)
