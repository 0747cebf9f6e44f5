"""`chain.py MODEL VECTORS OUT`: everything that mlftool makes of a model, and a digest of each.

Run in a world of its own by test_matrix.py; prints one JSON object, name -> SHA-256.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

from mlftool.cli import main

BOARD = "cortex-m4"
NAMED = ("--module-name", "net")  # else the file names the module, and each world has its own


def mlftool(*arguments: str | Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*map(str, arguments)]) == 0, arguments


def make(model: Path, vectors: Path, out: Path) -> dict[str, Path]:
    """Archive, its project's library, firmware and report: name -> file."""
    out = out.absolute()
    out.mkdir()
    os.environ["MLFTOOL_CACHE"] = str(out / "cache")
    found = {}
    for target in ("host", BOARD, "llvm"):
        found[f"{target}.tar"] = out / f"{target}.tar"
        mlftool("compile", model, "-o", found[f"{target}.tar"], "--target", target, *NAMED)
    filed = ("--weights", "binary", "--executor", "vm", *NAMED)
    mlftool("compile", model, "-o", out / "filed.tar", *filed)
    found["filed.tar"] = out / "filed.tar"
    mlftool("extract", out / "host.tar", "--project", f"net={out / 'project'}")
    subprocess.run(["make", "-s", "-C", out / "project", f"BUILD_DIR={out / 'build'}"], check=True)
    found["libnet.a"] = out / "build" / "libnet.a"
    found["report.json"] = out / "report.json"
    check = ("--inputs", vectors, "--expect", vectors, "--report", found["report.json"])
    mlftool("run", found[f"{BOARD}.tar"], "--on", BOARD, *check)
    (found["firmware.elf"],) = (out / "cache").glob("*/firmware.elf")
    mlftool("run", found["host.tar"], "--inputs", vectors)
    (found["runner"],) = (out / "cache").glob("*/runner")
    return found


if __name__ == "__main__":
    files = make(*map(Path, sys.argv[1:]))
    digests = {n: hashlib.sha256(f.read_bytes()).hexdigest() for n, f in sorted(files.items())}
    print(json.dumps(digests))
