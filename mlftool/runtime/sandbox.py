"""Commands in a box of bubblewrap: no network, no environment, no other processes, no files but the
system's programs and one folder. For the C of archives that nobody vouches for: compilers read what
it includes, and QEMU's semihosting gives a simulated board the files and commands of its user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ALSO = ("/etc/alternatives", "/etc/ld.so.cache")  # where compilers and libraries are
CLOSED = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
    *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LC_ALL", "C"),
    *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
)

_box: ContextVar[tuple[str, ...]] = ContextVar("_box", default=())


@contextmanager
def sandbox(bubblewrap: Sequence[str]) -> Iterator[None]:
    """Inside, `confined` puts commands into a box that the program `bubblewrap` makes."""
    token = _box.set(tuple(bubblewrap))
    try:
        yield
    finally:
        _box.reset(token)


def confined(command: Sequence[str], work: Path, program: Path | None = None) -> list[str]:
    """The command as it is, or in the box: it may write to folder `work` only, and read the
    folders of its own program and of `program`."""
    if not (box := _box.get()):
        return list(command)
    made = [*box, *CLOSED]
    for name in SYSTEM:
        if os.path.islink(name):
            made += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            made += ["--ro-bind", name, name]
    for name in ALSO:
        made += ["--ro-bind-try", name, name]
    for path in filter(None, (Path(command[0]), program)):
        folder = str(_home(path.resolve()))
        if not folder.startswith(tuple(f"{name}/" for name in SYSTEM)) and folder not in SYSTEM:
            made += ["--ro-bind", folder, folder]
    where = os.path.realpath(work)
    return [*made, "--bind", where, where, "--chdir", where, "--", *command]


def _home(path: Path) -> Path:
    """The folder that a program needs: next to its bin/, a compiler has its libraries."""
    return path.parent.parent if path.parent.name == "bin" else path.parent
