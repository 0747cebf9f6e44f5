"""Prints, as JSON, which compilers and simulators this machine has, with a fingerprint of each, and
the targets and boards there are, which Starlark cannot read where they are written.

`probe.py [PREFIX GCC]`: GCC in place of the machine's own compiler whose names begin with PREFIX.

Runs in Bazel's repository phase with the system's python3, so it imports nothing of mlftool that
needs more than the standard library. A fingerprint hashes the program files themselves: an upgrade
by the distribution then invalidates what was built with the old one, while the same version on
another machine still shares its cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS, Board
from mlftool.targets import TARGETS, Target

USUAL_PYTHON = Path("/usr/bin/python3")
# What a compiler is made of, besides the program that is called.
PARTS = ("cc1", "cc1plus", "as", "collect2", "ld", "objcopy")
# What makes objects of models, where actions find it.
COMPILERS = (toolchain.CC.name, *(program.name for program in toolchain.CROSS.values()))
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


def include_folders(*gcc: str) -> list[str]:
    """The folders `gcc` searches for <...>, real paths too: Bazel compares text."""
    found: list[str] = []
    for language in ("-xc", "-xc++"):
        lines = output(*gcc, "-E", language, "-v", "-").splitlines()
        with contextlib.suppress(ValueError):
            first = lines.index("#include <...> search starts here:") + 1
            found += [line.strip() for line in lines[first : lines.index("End of search list.")]]
    folders = [os.path.normpath(f) for f in found] + [str(Path(f).resolve()) for f in found]
    return sorted(set(folders))


def cross(prefix: str, gcc: str = "") -> dict[str, object]:
    """A cross compiler, with an empty path when it or its C library is not installed."""
    program = toolchain.CROSS[prefix]
    about = {"flags": program.flags, "install": program.install, "purpose": program.purpose}
    path = gcc or shutil.which(program.name)
    if not path or not has_c_library(path, *program.flags):
        return {**about, "path": "", "fingerprint": "missing", "includes": []}
    parts = [shutil.which(output(path, f"-print-prog-name={p}").strip()) for p in PARTS]
    libraries = [output(path, f"-print-file-name={name}").strip() for name in ("libc.a", "libm.a")]
    files = [Path(p) for p in [path, *filter(None, parts), *filter(os.path.isabs, libraries)]]
    return {
        **about,
        "path": path,
        "fingerprint": f"{digest(files)} {output(path, '-dumpfullversion').strip()}",
        "includes": include_folders(path, *program.flags),
    }


def has_c_library(*gcc: str) -> bool:
    """Whether a program's headers are found: Debian packages the C library apart."""
    return output(*gcc, "-xc", "-E", "-o", os.devnull, "-", text="#include <string.h>\n") == ""


def simulator(name: str) -> dict[str, object]:
    """A simulator, with an empty path when it is not installed."""
    program = toolchain.SIMULATORS[name]
    path = shutil.which(name)
    # Debian's QEMU reads its firmware folder even with -kernel; no file of it matters to us.
    return {
        "path": path or "",
        "fingerprint": digest([Path(path)]) if path else "missing",
        "install": program.install,
    }


def target(of: Target) -> dict[str, object]:
    """What a target is compiled with and for: the compiler and board by their names."""
    return {
        "flags": of.cflags,
        "toolchain": of.toolchain,
        "board": BOARDS[of.name].name if of.name in BOARDS else "",
    }


def board(of: Board) -> dict[str, object]:
    """A board of ours, with its files by their names in crt/."""
    folders = [] if of.hosted else [f"boards/{name}" for name in (of.name, *of.parts)]
    files = [f"{f}/{p.name}" for f in folders for p in sorted((crt_root() / f).iterdir())]
    return {
        "title": of.title,
        "targets": [name for name, other in BOARDS.items() if other.name == of.name],
        "simulator": of.simulator,
        "linkopts": of.linkopts,
        "folders": folders,
        "sources": [name for name in files if name.endswith((".c", ".h"))],
        "linker_script": of.script,
        "scripts": [name for name in files if name.endswith(".ld") and name != of.script],
    }


def compilers() -> dict[str, object]:
    """All of COMPILERS that are installed, under one fingerprint."""
    found = [p for p in (shutil.which(name, path=ACTION_PATH) for name in COMPILERS) if p]
    parts = [output(p, f"-print-prog-name={part}").strip() for p in found for part in ("cc1", "as")]
    programs = [p for p in (shutil.which(part, path=ACTION_PATH) for part in parts) if p]
    return {"fingerprint": digest([Path(p) for p in found + programs])}


def main(arguments: list[str]) -> None:
    """Everything, or one compiler that the user names."""
    if arguments:
        print(json.dumps(cross(*arguments), sort_keys=True))
        return
    found = {
        "python": python(),
        "compilers": compilers(),
        "toolchains": {prefix: cross(prefix) for prefix in toolchain.CROSS},
        "simulators": {name: simulator(name) for name in toolchain.SIMULATORS},
        "targets": {name: target(of) for name, of in TARGETS.items()},
        "boards": {of.name: board(of) for of in BOARDS.values()},
    }
    print(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
