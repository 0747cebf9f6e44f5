"""The most stack that a module's function can take, from the compiler's own frames and calls."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mlftool.mlf import Bundle
from mlftool.mlf.archive import read
from mlftool.runtime import toolchain
from mlftool.runtime.sources import INCLUDES, module_code
from mlftool.targets import TARGETS

# What a function of the compiler's or of the C library may take, such as memcpy.
FOREIGN = 64
_NODE = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \((\w[\w,]*)\)')
_EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')


def stack_bound(bundle: Bundle, module: str, target: str, optimise: str = "-O3") -> int:
    """Bytes below the caller of the module's run function. Every frame must be of a size that the
    compiler knows, and no function may call itself."""
    graph = "".join(_call_graphs(bundle, module, target, optimise))
    frames = {name: int(size) for name, size, kind in _NODE.findall(graph) if kind == "static"}
    dynamic = [name for name, _, kind in _NODE.findall(graph) if kind != "static"]
    assert not dynamic, dynamic
    calls: dict[str, set[str]] = {}
    for caller, callee in _EDGE.findall(graph):
        calls.setdefault(caller, set()).add(callee)
    (entry,) = {name for name in frames if name.endswith(f"tvmgen_{module}_run")}
    return _deepest(entry, frames, calls, ())


def _deepest(
    name: str, frames: Mapping[str, int], calls: Mapping[str, set[str]], above: tuple[str, ...]
) -> int:
    assert name not in above, f"{name} calls itself"
    below = (_deepest(n, frames, calls, (*above, name)) for n in calls.get(name, ()))
    return frames.get(name, FOREIGN) + max(below, default=0)


def _call_graphs(bundle: Bundle, module: str, target: str, optimise: str) -> list[str]:
    archive = read(bundle)
    code = module_code(archive, archive.module(module))
    with tempfile.TemporaryDirectory() as folder:
        for name, data in code.files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        command = toolchain.find(toolchain.compiler_of(TARGETS[target]))
        flags = (*TARGETS[target].cflags, *code.cflags, optimise, *INCLUDES)
        subprocess.run(
            [*command, *flags, "-fcallgraph-info=su", "-c", *code.c], cwd=folder, check=True
        )
        return [path.read_text() for path in sorted(Path(folder).rglob("*.ci"))]
