"""Backends: what other libraries and devices compute, by name.

Each is a file of `vendors/`, or the user's: `register_backend` in a script, a file of its own with
`--backend-file`. Which nodes a backend gets, `partition` decides.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from mlftool.backends import vendors
from mlftool.backends.base import Backend, checked, hooks_of
from mlftool.backends.partition import partition
from mlftool.backends.report import Report
from mlftool.errors import MlfError, Problem, did_you_mean, one_line
from mlftool.files import read_plain
from mlftool.ir.external import BackendCode, Library

__all__ = [
    "Backend",
    "BackendCode",
    "Library",
    "Report",
    "backends",
    "partition",
    "register_backend",
    "wanted",
]

_REGISTERED: dict[str, Backend] = {}


def backends() -> Mapping[str, Backend]:
    """All that are known without a file, by name."""
    names = sorted(m.name for m in iter_modules(vendors.__path__))
    shipped = (import_module(f"{vendors.__name__}.{name}").BACKEND for name in names)
    return {b.name: b for b in shipped} | _REGISTERED


def register_backend(backend: Backend) -> Backend:
    """Make a backend known by its name in this process; the same name again replaces it.

    Raises MlfError for an object that is not a backend, and for the name of one of mlftool's own.
    """
    made = checked(backend, "the argument of register_backend")
    if made.name in backends() and made.name not in _REGISTERED:
        raise MlfError(Problem("MLF0410", f"mlftool has a backend '{made.name}' already"))
    _REGISTERED[made.name] = made
    return made


def wanted(names: Sequence[str], files: Sequence[Path] = ()) -> tuple[Backend, ...]:
    """The backends of these names, those in `files` among them. Raises MlfError for a name that is
    not known, a file that defines no backend, and two devices whose functions have one name."""
    known = {**backends(), **{b.name: b for b in map(_of_file, files)}}
    for name in names:
        if name not in known:
            text = f"no backend with this name; got '{name}'"
            raise MlfError(Problem("MLF0410", text, help=did_you_mean(name, known)))
    found = tuple(known[name] for name in dict.fromkeys(names))
    hooks: dict[str, Backend] = {}
    for backend in (b for b in found if b.device):
        other = hooks.setdefault(hooks_of(backend.device), backend)
        if other.device != backend.device:
            text = f"the functions of devices '{other.device}' and '{backend.device}' have one name"
            raise MlfError(Problem("MLF0410", text))
    return found


_HELP = "docs/backends.md shows such a file"


def _of_file(path: Path) -> Backend:
    """The BACKEND of a Python file. It is run: it is part of the compiler then."""
    try:
        source = read_plain(path)
    except OSError as error:
        raise MlfError(Problem("MLF0410", f"{error.strerror}", str(path))) from None
    module = ModuleType(f"mlftool_backend_{path.stem}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:  # as import does it, which would leave a folder of bytecode beside the file
        exec(builtins.compile(source, str(path), "exec"), module.__dict__)
    except Exception as error:
        text = f"the backend's file failed: {type(error).__name__}: {one_line(str(error))}"
        raise MlfError(Problem("MLF0410", text, str(path), help=_HELP)) from error
    if not hasattr(module, "BACKEND"):
        raise MlfError(Problem("MLF0410", "defines no BACKEND", str(path), help=_HELP))
    return checked(module.BACKEND, f"BACKEND of {path.name}")
