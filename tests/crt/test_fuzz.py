"""A short slice of the fuzzing in docs/fuzzing.md, with gcc and the driver of our own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from crt_build import ROOT, SANITIZE, WARNINGS, sources

FUZZ = ROOT / "tests/crt/fuzz"


@pytest.mark.parametrize("name", ["graph", "params", "registry"])
def test_a_million_inputs_find_nothing(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    command = ["gcc", "-O1", *WARNINGS, *SANITIZE, f"{FUZZ}/platform.c", f"{FUZZ}/driver.c"]
    command += [*sources(f"tests/crt/fuzz/{name}.c", "common", "graph_executor"), "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([program, "1000000"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1000000 executions\n", "")
