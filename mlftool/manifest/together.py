"""Keys of a model that are valid only with certain other keys."""

from __future__ import annotations

from typing import Any

from mlftool.manifest.kinds import Reading
from mlftool.options import OPTIONS

# Keys that say something about one executor only.
OF_EXECUTOR = {o.name: o.executors[0] for o in OPTIONS.values() if len(o.executors) == 1}


def check_together(values: dict[str, Any], path: str, reading: Reading) -> None:
    """Keys that say something about an executor, or a function, that is not there."""
    executors, packed = values["executors"], values.get("interface_api") == "packed"
    wrong = {
        name: f"{executor} is not among the executors"
        for name, executor in OF_EXECUTOR.items()
        if values.get(name) not in (None, False, ()) and executor not in executors
    }
    if values.get("workspace_io") and packed:
        wrong["workspace_io"] = "it needs interface_api c"
    if values.get("pools") and packed:
        wrong["pools"] = "they need interface_api c"
    if values.get("unpacked_api") is False and not packed:
        wrong["unpacked_api"] = "false needs interface_api packed"
    if values.get("system_lib") and not packed and "graph" not in executors:
        wrong["system_lib"] = "there are no packed functions to find"
    if values.get("tuning") and values.get("optimize", "speed") != "speed":
        wrong["tuning"] = "it needs optimize speed"
    if values.get("tuning") and values.get("patches", "off") != "off":
        wrong["tuning"] = "it needs patches off"
    for name, reason in wrong.items():
        at = f"{path}.{name}"
        got = str(values[name]).lower()
        message = f"cannot be used here; got {got}, expected none: {reason}"
        reading.report("MLF0120", reading.places[at], message, "leave it out", at)
