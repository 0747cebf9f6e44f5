"""Requantisation without floats has the bits of the float form."""

from __future__ import annotations

import subprocess
from pathlib import Path

from crt_build import ROOT, SANITIZE, WARNINGS


def test_integers_are_exact(tmp_path: Path) -> None:
    program = tmp_path / "requantize"
    command = ["gcc", "-std=c99", "-O2", "-ffp-contract=off", *WARNINGS, *SANITIZE]
    command += [f"-I{ROOT}/crt/include", ROOT / "tests/crt/requantize.c", "-lm", "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([program, "5000000"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
