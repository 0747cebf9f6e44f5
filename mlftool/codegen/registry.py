"""The system library: packed functions of one or several modules, found by their names."""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.codegen.templates import render

FILE = "codegen/host/src/tvmgen_system_lib.c"  # where several modules share it


def registry_c(names: Sequence[str]) -> str:
    """C that defines TVMSystemLibEntryPoint. Functions with equal names do not link anyway."""
    count = len(names)
    assert count < 1 << 16
    return render(
        "registry.c.j2",
        names=names,
        count=f"\\{count & 255:03o}\\{count >> 8:03o}",
    )
