"""A package that is not installed: one line with what to install, and no report of a crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from shared import REPO

MODEL = REPO / "examples" / "models" / "gesture_int8.onnx"


@pytest.mark.parametrize(
    ("package", "manifest"),
    [
        *((package, False) for package in ("ml_dtypes", "onnx", "numpy", "jinja2")),
        *((package, True) for package in ("numpy", "yaml")),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, package: str, manifest: bool) -> None:
    """Once, not for each entry of a manifest."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    path = os.pathsep.join([str(tmp_path), str(REPO), os.environ.get("PYTHONPATH", "")])
    file = REPO / "examples" / "models.yaml" if manifest else MODEL
    out = tmp_path / "m.tar"
    words = ["check", str(file)] if manifest else ["compile", str(file), "-o", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "mlftool", *words, "-q"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    lines = done.stderr.splitlines()
    assert f"MLF0700]: Python's package '{package}' is not installed" in lines[0]
    assert "mlftool doctor" in lines[1]
    assert len(lines) == 2
    assert not out.exists()
