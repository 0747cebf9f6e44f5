"""Installs a hash-locked file of packages: `install_wheels.py LOCK FOLDER [--whole]`.

Runs in Bazel's repository phase. pip keeps its own configuration (index, proxy, wheelhouse); every
file must match a hash in LOCK and nothing is built from source. Without --whole, files that the
build never imports (test suites, stubs, C headers) are dropped: each costs every sandbox a link.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PIP = (
    "install", "--quiet", "--no-input", "--disable-pip-version-check", "--root-user-action=ignore",
    "--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes",
)  # fmt: skip
UNUSED_FOLDERS = ("onnx/backend/test", "numpy/_core/include", "numpy/f2py", "onnx/bin")
UNUSED_SUFFIXES = frozenset((".pyi", ".h", ".hpp", ".a", ".lib", ".pyx", ".pxd", ".proto", ".cc"))


def install(lock: Path, site: Path) -> int:
    """pip's exit code; its talk goes to our stderr."""
    command = [sys.executable, "-m", "pip", *PIP, "--target", str(site), "-r", str(lock)]
    return subprocess.run(command, check=False).returncode


def prune(site: Path, whole: bool) -> None:
    """Removes what differs between machines, and, unless `whole`, what the build never reads."""
    shutil.rmtree(site / "bin", ignore_errors=True)  # scripts hold the interpreter's path
    for name in ("direct_url.json", "RECORD", "INSTALLER", "REQUESTED"):
        for path in site.glob(f"*.dist-info/{name}"):
            path.unlink()
    if whole:
        return
    for folder in UNUSED_FOLDERS:
        shutil.rmtree(site / folder, ignore_errors=True)
    for tests in [p for p in site.rglob("tests") if p.is_dir()]:
        shutil.rmtree(tests, ignore_errors=True)
    for path in site.rglob("*"):
        if path.suffix in UNUSED_SUFFIXES and path.is_file():
            path.unlink()


def main(arguments: list[str]) -> int:
    """Installs, prunes; the exit code is pip's."""
    lock, site = Path(arguments[0]), Path(arguments[1])
    code = install(lock, site)
    if code == 0:
        prune(site, whole="--whole" in arguments[2:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
