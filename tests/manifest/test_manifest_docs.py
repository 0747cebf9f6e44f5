"""The documentation about manifests is true: generated parts are current, examples load."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from manifest_corpus import HERE

from mlftool.errors import CODES
from mlftool.manifest import read

ROOT = HERE.parent.parent
PAGE = (ROOT / "docs" / "manifest.md").read_text(encoding="utf-8")


def test_generated_pages_are_current() -> None:
    command = [sys.executable, ROOT / "tools" / "docs.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_every_code_is_documented_and_every_range_named() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(MLF\d{4})`", page, re.MULTILINE) == sorted(CODES)
    assert all(text.endswith(".") for text in CODES.values())


EXAMPLES = [b for b in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "version:" in b]


@pytest.mark.parametrize("example", EXAMPLES, ids=["first", "fuller"])
def test_examples_load(example: str, tmp_path: Path) -> None:
    manifest = tmp_path / "models.yaml"
    manifest.write_text(example)
    assert read(manifest, check_files=False)[1] == ()


def test_the_quoted_error_is_what_is_printed(folder: Path) -> None:
    quoted = re.search(r"## Errors.*?```\n(.*?)```", PAGE, re.DOTALL)
    assert quoted
    example = EXAMPLES[0].replace("cortex-m4", "cortexm4")
    Path("models.yaml").write_text(example)
    problems = read("models.yaml")[1]
    assert "".join(f"{p}\n" for p in problems) == quoted[1]
