"""docs/tflite.md lists the operators that there are."""

from __future__ import annotations

import subprocess
import sys

from shared import REPO


def test_the_page_is_current() -> None:
    command = [sys.executable, REPO / "tools" / "tflite_doc.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
