"""The graph executor runs graphs, refuses wrong use and leaks nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

from crt_build import SANITIZE, WARNINGS, sources


def test_graph_executor(tmp_path: Path) -> None:
    program = tmp_path / "graph_executor"
    files = sources("tests/crt/graph_executor.c", "common", "graph_executor", "host")
    subprocess.run(["gcc", *WARNINGS, *SANITIZE, *files, "-o", program], check=True)
    run = subprocess.run([program], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
