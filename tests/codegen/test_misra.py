"""The departures from MISRA C:2012 are those that docs/safety.md has a record of, and no more.

MLFTOOL_WRITE_PAGES=1 writes the numbers into the page; a rule without a record fails all the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from shared import REPO

from mlftool.compile import ModuleSpec, compile_modules

MODEL = REPO / "examples" / "models" / "gesture_int8.onnx"
COUNTED = "Cppcheck 2.10"  # others find other numbers
PAGE = REPO / "docs" / "safety.md"
ROW = re.compile(r"^\| ([\d.]+) \| (\d+) \| (.+) \|$", re.MULTILINE)
WEIGHTS = re.compile(r"^(MLF_WEIGHTS [^\n]*\] = \{)[^}]*\};", re.MULTILINE)


def records() -> dict[str, int]:
    """Rule -> findings, of the page's table."""
    return {rule: int(count) for rule, count, _ in ROW.findall(PAGE.read_text())}


def write(found: Counter[str]) -> None:
    def row(old: re.Match[str]) -> str:
        return f"| {old[1]} | {found[old[1]]} | {old[3]} |"

    PAGE.write_text(ROW.sub(row, PAGE.read_text()))


@pytest.mark.skipif(not shutil.which("cppcheck"), reason="apt-get install cppcheck")
def test_every_departure_has_a_record(tmp_path: Path) -> None:
    bundle = compile_modules([ModuleSpec(MODEL, "m", target="cortex-m4")])
    for name, data in bundle.files.items():
        if name.endswith((".c", ".h")):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(WEIGHTS.sub(r"\g<1>0};", data.decode()))
    sources = sorted(tmp_path.glob("codegen/host/src/*.c"))
    flags = ("--addon=misra", "--max-configs=1", "--std=c99", "--platform=unix32", "--quiet")
    include = f"-I{tmp_path / 'codegen/host/include'}"
    command = ["cppcheck", *flags, include, "--template={file}:{line} {id}", *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = Counter(re.findall(r"misra-c2012-([\d.]+)$", done.stderr, re.MULTILINE))
    assert found, "the addon did not run"
    assert found.keys() <= records().keys(), done.stderr
    version = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True).stdout
    if version.strip() == COUNTED and os.environ.get("MLFTOOL_WRITE_PAGES"):
        write(found)
    if version.strip() == COUNTED:
        assert found == records(), done.stderr
