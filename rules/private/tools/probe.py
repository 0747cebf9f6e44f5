"""Prints, as JSON, which compilers and simulators this machine has, with a fingerprint of each, and
the targets and boards there are, which Starlark cannot read where they are written.

`probe.py [PREFIX GCC FLAG...]`: GCC in place of the machine's own compiler whose names begin with
PREFIX, with options of every use of it.

Runs in Bazel's repository phase with the system's python3, so it imports nothing of mlftool that
needs more than the standard library. A fingerprint hashes the program files themselves: an upgrade
by the distribution then invalidates what was built with the old one, while the same version on
another machine still shares its cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS, NAMED, Board
from mlftool.runtime.toolchain import Alternative, Program
from mlftool.targets import TARGETS, Target

USUAL_PYTHON = Path("/usr/bin/python3")
# What a compiler is made of, besides the program that is called.
PARTS = ("cc1", "cc1plus", "as", "collect2", "ld", "objcopy")
# What makes objects of models, where actions find it.
COMPILERS = (toolchain.CC.name, *(program.name for program in toolchain.CROSS.values()))
ACTION_PATH = "/usr/bin:/bin"


@functools.cache
def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def digest(paths: list[Path]) -> str:
    """One sha256 over the contents of `paths`, in the order given."""
    return hashlib.sha256(b"".join(map(_digest, paths))).hexdigest()


# A compiler is asked the same for each use of it, and the uses share files. No file changes in the
# seconds that a probe takes.
@functools.cache
def output(*command: str, text: str = "") -> str:
    """What `command` prints on both streams; C locale, so that it can be parsed."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    return done.stdout + done.stderr


def forget() -> None:
    """What is known of files and programs may have changed."""
    _digest.cache_clear()
    output.cache_clear()


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


def cross(prefix: str, gcc: str = "", *flags: str) -> dict[str, object]:
    """A cross compiler, with an empty path when it or its C library is not installed.

    A `gcc` that the user names brings its own C library, or `flags` that say where it is.
    """
    program = toolchain.CROSS[prefix]
    path = gcc or shutil.which(program.name)
    return described(program, path, flags if gcc else program.flags, prefix)


def alternative(of: Alternative) -> dict[str, object]:
    """Another toolchain for the targets of a cross compiler, in the same terms."""
    gcc = shutil.which(toolchain.CROSS[of.toolchain].name)
    about = {"constraint": of.name, "of": of.toolchain}
    if of.program.name == toolchain.CROSS[of.toolchain].name:
        return {**about, **described(of.program, gcc, of.program.flags, of.toolchain)}
    # The real path alone: of two names for one folder clang forgets one, and Bazel then refuses it.
    searched = [Path(folder) for folder in include_folders(gcc)] if gcc else []
    library = {str(f.resolve()) for f in searched if (f / "stdio.h").is_file()}
    flags = (*of.program.flags, *(word for f in sorted(library) for word in ("-isystem", f)))
    found = described(of.program, shutil.which(of.program.name), flags, of.toolchain)
    both = f"{found['fingerprint']} {cross(of.toolchain)['fingerprint']}"
    linker = found["path"] and gcc
    return {**about, **found, "compiler": found["path"], "path": linker, "fingerprint": both}


# What a program is linked with besides its own objects, and what of C it may include.
LIBRARIES = (
    "crt0.o", "crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtend.o", "libc.a",
    "libc.so", "libc.so.6", "libc_nonshared.a", "libgcc.a", "libm.a", "libm.so.6", "libnosys.a",
)  # fmt: skip
HEADERS = (
    "assert", "ctype", "errno", "fenv", "float", "inttypes", "iso646", "limits", "locale", "math",
    "setjmp", "signal", "stdarg", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string",
    "tgmath", "time", "unistd", "wchar", "wctype",
)  # fmt: skip
INTRINSICS = ("arm_acle.h", "arm_mve.h", "arm_neon.h", "emmintrin.h", "immintrin.h")


def libraries(*gcc: str) -> list[str]:
    """The files that programs are linked with when `gcc` is given the options of a processor: not
    those of another one, which lie beside them."""
    line = output(*gcc, "-###", "-xc", os.devnull, "-o", os.devnull)
    # Words with a "+", as in v7e-m+fp, stand in quotes.
    folders = os.pathsep.join(re.findall(r'(?<=[\s"])-L([^\s"]+)', line))
    found = [shutil.which(name, os.F_OK, folders) for name in LIBRARIES]
    return [os.path.realpath(path) for path in found if path]


def headers(*gcc: str) -> list[str]:
    """The headers of C with all that they include."""
    lines = [f"#if __has_include(<{h}.h>)\n#include <{h}.h>\n#endif\n" for h in HEADERS]
    found = output(*gcc, "-xc", "-E", "-M", "-", text="".join(lines)).split()
    return sorted({os.path.realpath(path) for path in found if path.endswith(".h")})


def host_compiler() -> dict[str, object]:
    """The compiler that Bazel's own C toolchain calls: what CC names, or gcc."""
    path = shutil.which(os.environ.get("CC") or "gcc")
    if not path:
        return {"path": "", "fingerprint": "missing"}
    return {"path": path, "fingerprint": digest(compiler_files(path, [()]))}


def compiler_files(path: str, processors: Sequence[Sequence[str]], *flags: str) -> list[Path]:
    """All that decides what a compiler makes: its programs, and for the options of each processor
    the headers and libraries."""
    parts = [shutil.which(output(path, f"-print-prog-name={p}").strip()) for p in PARTS]
    used = [
        name
        for options in processors
        for name in (*libraries(path, *flags, *options), *headers(path, *flags, *options))
    ]
    folders = [Path(folder) for folder in include_folders(path, *flags)]
    used += [str(f / name) for f in folders for name in INTRINSICS if (f / name).is_file()]
    return [Path(p) for p in dict.fromkeys([path, *filter(None, parts), *used])]


def described(
    of: Program, path: str | None, flags: Sequence[str], prefix: str
) -> dict[str, object]:
    """What gcc.bzl needs to know of a compiler: `path` is empty if it cannot be used. `prefix` is
    that of the processors it compiles for."""
    about = {"flags": [*flags], "install": install(of), "purpose": of.purpose}
    if not path or not has_c_library(path, *flags):
        return {**about, "path": "", "fingerprint": "missing", "includes": []}
    processors = dict.fromkeys(t.cflags for t in TARGETS.values() if t.toolchain == prefix)
    files = compiler_files(path, [*processors], *flags)
    version = output(path, "--version").splitlines()[0]
    return {
        **about,
        "path": path,
        "fingerprint": f"{digest(files)} {version}",
        "includes": include_folders(path, *flags),
    }


def install(of: Program) -> str:
    """A running server of Bazel's does not look again at what the machine has."""
    return f"{of.install} && bazel shutdown"


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
        "install": install(program),
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
        "targets": of.targets,
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
        "host_compiler": host_compiler(),
        "toolchains": {prefix: cross(prefix) for prefix in toolchain.CROSS},
        "alternatives": {f"{a.toolchain}_{a.name}": alternative(a) for a in toolchain.ALTERNATIVES},
        "simulators": {name: simulator(name) for name in toolchain.SIMULATORS},
        "targets": {name: target(of) for name, of in TARGETS.items()},
        "boards": {name: board(of) for name, of in NAMED.items()},
    }
    print(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
