"""Prints, as JSON, which compilers and simulators this machine has and a fingerprint of each.

Runs in Bazel's repository phase with the system's python3, so it imports the standard library only.
A fingerprint hashes the program files themselves: an upgrade by the distribution then invalidates
what was built with the old one, while the same version on another machine still shares its cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

USUAL_PYTHON = Path("/usr/bin/python3")
ARM_GCC = "arm-none-eabi-gcc"
ARM_PARTS = ("cc1", "cc1plus", "as", "collect2", "ld", "objcopy")
# Debian's QEMU reads its firmware folder even with -kernel; no file of it matters to us.
QEMU = "qemu-system-arm"
# What makes objects of models, where actions find it.
COMPILERS = ("cc", "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", "aarch64-linux-gnu-gcc")
ACTION_PATH = "/usr/bin:/bin"


def digest(paths: list[Path]) -> str:
    """One sha256 over the contents of `paths`, in the order given."""
    total = hashlib.sha256()
    for path in paths:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def output(*command: str, text: str = "") -> str:
    """What `command` prints on both streams; C locale, so that it can be parsed."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    return done.stdout + done.stderr


def python() -> dict[str, object]:
    """The running interpreter: its path, version, and the wheels it can load."""
    path = Path(sys.executable).resolve()
    # The path is part of every action's key, so the one that most machines share is the best name;
    # which interpreter it is on this machine, the fingerprint says.
    usual = USUAL_PYTHON.resolve() == path
    return {
        "path": str(USUAL_PYTHON if usual else path),
        "fingerprint": digest([path]),
        "version": f"{platform.python_version()} {sysconfig.get_platform()}",
    }


def include_folders(gcc: str) -> list[str]:
    """The folders `gcc` searches for <...>, real paths too: Bazel compares text."""
    lines = output(gcc, "-E", "-xc++", "-v", "-").splitlines()
    try:
        first = lines.index("#include <...> search starts here:") + 1
        found = [line.strip() for line in lines[first : lines.index("End of search list.")]]
    except ValueError:
        return []
    folders = [os.path.normpath(f) for f in found] + [str(Path(f).resolve()) for f in found]
    return sorted(set(folders))


def arm_gcc() -> dict[str, object]:
    """The Cortex-M compiler, empty when it or its C library is not installed."""
    gcc = shutil.which(ARM_GCC)
    if not gcc:
        return {}
    parts = [shutil.which(output(gcc, f"-print-prog-name={p}").strip()) for p in ARM_PARTS]
    libraries = [output(gcc, f"-print-file-name={name}").strip() for name in ("libc.a", "libm.a")]
    if not all(os.path.isabs(path) for path in libraries):
        return {}  # a compiler without newlib
    files = [Path(p) for p in [gcc, *filter(None, parts), *libraries]]
    return {
        "path": gcc,
        "fingerprint": digest(files),
        "version": output(gcc, "-dumpfullversion").strip(),
        "includes": include_folders(gcc),
    }


def qemu() -> dict[str, object]:
    """The board simulator, empty when it is not installed."""
    path = shutil.which(QEMU)
    if not path:
        return {}
    version = output(path, "--version").splitlines()[0]
    return {"path": path, "fingerprint": digest([Path(path)]), "version": version}


def compilers() -> dict[str, object]:
    """All of COMPILERS that are installed, under one fingerprint."""
    found = [p for p in (shutil.which(name, path=ACTION_PATH) for name in COMPILERS) if p]
    parts = [output(p, f"-print-prog-name={part}").strip() for p in found for part in ("cc1", "as")]
    programs = [p for p in (shutil.which(part, path=ACTION_PATH) for part in parts) if p]
    return {"fingerprint": digest([Path(p) for p in found + programs])}


if __name__ == "__main__":
    tools = {"python": python(), "arm_gcc": arm_gcc(), "qemu": qemu(), "compilers": compilers()}
    print(json.dumps(tools, sort_keys=True))
