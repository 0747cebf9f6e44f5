"""The wheel, made as pip makes it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from shared import REPO

BUILD = "import sys; from setuptools import build_meta as b; b.build_{kind}(sys.argv[1])"


def setuptools_in(folder: Path) -> Path:
    """A copy of setuptools that is whole: no file whose name has a space, and one has, is where
    Bazel runs a test. From 70.1 on it makes wheels by itself, as the lock file has it."""
    spec = importlib.util.find_spec("setuptools")
    assert spec
    assert spec.origin
    copy = shutil.copytree(Path(spec.origin).parent, folder / "setuptools")
    text = copy / "_vendor/jaraco/text/Lorem ipsum.txt"
    if text.parent.is_dir() and not text.exists():
        text.write_text("")
    return folder


def build(kind: str, source: Path, out: Path, tools: Path) -> Path:
    """What pip has made of `source`, in a folder that Python does not find mlftool in."""
    out.mkdir(parents=True)
    command = [sys.executable, "-c", BUILD.format(kind=kind), str(out)]
    found = [str(tools), *filter(None, sys.path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.iterdir()
    return made


def sources_in(folder: Path) -> Path:
    """A copy of what the wheel and the sdist are made of."""
    source = folder / "source"
    source.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("mlftool", "crt"):
        shutil.copytree(REPO / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copyfile(REPO / name, source / name)
    return source
