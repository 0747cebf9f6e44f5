"""How long it takes from a model to an archive, and from the archive's C to an object file."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus import ROOT, Network
from device import MODULE, Setting, compiled

from mlftool.describe import bundle as bundle_of
from mlftool.mlf.archive import read
from mlftool.runtime import toolchain
from mlftool.runtime.sources import INCLUDES, module_code
from mlftool.targets import TARGETS

TURNS = 3  # the fastest counts


@dataclass(frozen=True)
class Times:
    """Seconds: a process that makes the archive; the C compiler over all its sources."""

    archive: float
    c: float


def measure(network: Network, core: str) -> Times:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "mlftool", "compile", str(network.path)]
        command += ["--target", core, "-o", str(folder / "model.tar"), "--module-name", MODULE]
        archive = _fastest(command, ROOT)
        return Times(archive, _fastest(_c_command(network, core, folder), folder))


def _c_command(network: Network, core: str, folder: Path) -> list[str]:
    """gcc -O3 over the sources, which it puts into the folder."""
    files = read(bundle_of([compiled(network.path, core, Setting())]))
    code = module_code(files, files.module(MODULE))
    for name, data in code.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    target = TARGETS[core]
    command = toolchain.find(toolchain.compiler_of(target))
    return [*command, *target.cflags, *code.cflags, "-O3", *INCLUDES, "-c", *code.c]


def _fastest(command: Sequence[str], folder: Path) -> float:
    """Seconds that a processor worked for it, the same whatever else the computer does."""
    best = float("inf")
    # As pip installs it: with the bytecode of its modules.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(TURNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        best = min(best, spent)
    return best
