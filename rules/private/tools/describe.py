"""`describe ARCHIVE OUT.json`: what each module of an archive is, and the bytes it takes."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlftool.errors import exits
from mlftool.mlf import read_tar, write_atomically
from mlftool.mlf.archive import read
from mlftool.mlf.records import IoTensor, ModuleRecord

FIGURES = ("workspace_bytes", "constants_bytes", "io_bytes")


def describe(record: ModuleRecord) -> dict[str, Any]:
    """One module: how it runs, for what, and the bytes it takes on all its devices."""
    memory = record.memory.main
    inputs = memory[0].inputs if memory else None
    outputs = memory[0].outputs if memory else None
    return {
        "module": record.name,
        "executor": record.executor,
        "targets": [target.text for target in record.targets],
        "inputs": tensors(inputs),
        "outputs": tensors(outputs),
        **{name: sum(getattr(part, name) for part in memory) for name in FIGURES},
    }


def tensors(found: tuple[IoTensor, ...] | None) -> list[dict[str, Any]] | None:
    """As the archive lists them; old archives do not."""
    return None if found is None else [asdict(tensor) for tensor in found]


@exits
def main(arguments: list[str]) -> None:
    """Exit code as the command line's."""
    file, out = map(Path, arguments)
    archive = read(read_tar(file), str(file))
    modules = [describe(record) for record in archive.modules]
    total = {name: sum(module[name] for module in modules) for name in FIGURES}
    data = {
        "schema_version": 1,
        "mlf_version": archive.version,
        "modules": modules,
        "total": total,
    }
    write_atomically(out, (json.dumps(data, indent=2) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
