"""Results that tests keep from one run to the next, by the content of all they depend on: a program
whose C, flags, compiler and inputs are those of an earlier one wrote what that one wrote.

Only good results are kept. The folder is $MLFTOOL_TEST_CACHE, or mlftool-tests-<user> in /tmp,
which Bazel's sandbox leaves writable; MLFTOOL_TEST_CACHE=off computes everything anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

UNUSED_DAYS = 7


def folder() -> Path | None:
    """The folder, made if need be; None if there is none that only this user can write."""
    given = os.environ.get("MLFTOOL_TEST_CACHE", "")
    if given == "off":
        return None
    path = Path(given) if given else Path("/tmp") / f"mlftool-tests-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    ours = found.st_uid == os.getuid() and not found.st_mode & 0o022
    return path if ours and stat.S_ISDIR(found.st_mode) else None


def key_of(parts: Iterable[bytes | str]) -> str:
    """A name for what depends on `parts`."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))  # keeps parts from running together
        digest.update(data)
    return digest.hexdigest()


def recall(key: str) -> bytes | None:
    """What was kept under `key`."""
    base = folder()
    if base is None:
        return None
    path = base / key[:2] / key
    try:
        data = path.read_bytes()
        os.utime(path)  # used
    except OSError:
        return None
    return data


def keep(key: str, data: bytes) -> None:
    """Keep `data` under `key`, if there is a folder with room; whole or not at all."""
    base = folder()
    if base is None:
        return
    with contextlib.suppress(OSError):
        place = base / key[:2]
        place.mkdir(exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=place)
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(scratch, place / key)
        except OSError:
            os.unlink(scratch)


def builds() -> Path | None:
    """Today's folder for what mlftool itself keeps of its builds, which are many and large."""
    base = folder()
    return base / f"builds-{time.strftime('%Y-%m-%d')}" if base else None


def actions() -> Path | None:
    """Today's disk cache of the Bazels that tests start: actions of a new gcc are new ones."""
    return _of_these_programs("bazel")


def classes() -> Path | None:
    """Today's archive of Bazel's classes, as one Java virtual machine wrote it for others."""
    return _of_these_programs("classes")


def compiler_cache() -> dict[str, str]:
    """Variables with which CMake, and who asks like it, compiles a source once, whichever project
    has it: most of a project is the C runtime. Empty where ccache is missing or nothing is kept."""
    program, place = shutil.which("ccache"), _of_these_programs("objects")
    if program is None or place is None:
        return {}
    return {
        "CMAKE_C_COMPILER_LAUNCHER": program,
        "CCACHE_DIR": str(place),
        "CCACHE_BASEDIR": "/",  # projects are in folders of their own
        "CCACHE_NOHASHDIR": "1",
    }


def _of_these_programs(name: str) -> Path | None:
    """Where today's results of the programs that this machine has are, under `name`."""
    base = builds()
    with contextlib.suppress(OSError):  # another system than Debian, which says which it has
        installed = Path("/var/lib/dpkg/status").read_bytes()
        return base / f"{name}-{key_of([installed])}" if base else None
    return None


def forget_old() -> None:
    """Remove results that were not used for some days, and builds of the days before yesterday.
    Once a day: to look at tens of thousands of files takes half a second of a processor."""
    base, now = folder(), time.time()
    if base is None or _looked(base / "looked", now):
        return
    for path in base.glob("??/*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < now - UNUSED_DAYS * 86400:
                path.unlink()
    days = [time.strftime("%Y-%m-%d", time.localtime(now - k * 86400)) for k in (0, 1)]
    for path in base.glob("builds-*"):
        if path.name.removeprefix("builds-") not in days:
            shutil.rmtree(path, ignore_errors=True)


def _looked(mark: Path, now: float) -> bool:
    """Whether somebody did in the last day; if not, notes that we do."""
    with contextlib.suppress(OSError):
        if now - 86400 < mark.lstat().st_mtime <= now:
            return True
    with contextlib.suppress(OSError):
        mark.touch()
        os.utime(mark, (now, now))
    return False


@functools.cache
def compiler(name: str) -> str:
    """What distinguishes a compiler on this machine: its version, its size, the C library."""
    done = subprocess.run([name, "--version"], capture_output=True, text=True, check=True)
    file = subprocess.run(
        [name, "-print-prog-name=cc1"], capture_output=True, text=True, check=False
    ).stdout.strip()
    size = os.stat(file).st_size if os.path.isfile(file) else 0
    library = " ".join(platform.libc_ver())
    return f"{done.stdout}{size} {library} {platform.machine()}"
