"""Requantisation and arithmetic without floats have the bits of the float forms."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from crt_build import ROOT, SANITIZE, WARNINGS


@pytest.mark.parametrize("name", ["requantize", "means", "multiply_add"])
def test_integers_are_exact(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    command = ["gcc", "-std=c99", "-O2", "-ffp-contract=off", *WARNINGS, *SANITIZE]
    command += [f"-I{ROOT}/crt/include", ROOT / f"tests/crt/{name}.c", "-lm", "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([program, "5000000"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
