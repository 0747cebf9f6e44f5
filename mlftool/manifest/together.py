"""Keys of a model that are valid only with certain other keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlftool.manifest.kinds import Reading
from mlftool.options import FILES, OPTIONS, unmet


def check_together(values: dict[str, Any], path: str, reading: Reading) -> None:
    """Keys that say something about an executor, or need a value of another key, that is not
    there."""
    for name, reason in _wrong(values):
        at = f"{path}.{name}"
        got = str(values[name]).lower()
        message = f"cannot be used here; got {got}, expected none: {reason}"
        reading.report("MLF0120", reading.places[at], message, "leave it out", at)


def _wrong(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each such key, and why. One executor that can obey it is enough."""
    for name in (*OPTIONS, *FILES):
        about = OPTIONS.get(name)
        able = [e for e in values["executors"] if about is None or about.understood_by(e)]
        found = [list(unmet(name, values, executor)) for executor in able]
        if about and not able and values.get(name) not in (None, False, ()):
            yield name, f"{' or '.join(about.executors)} is not among the executors"
        elif found and all(found):
            need = found[0][0]
            subject = "it" if need.when is None else str(need.when).lower()
            yield name, f"{subject} needs {need.option} {need.value}"
