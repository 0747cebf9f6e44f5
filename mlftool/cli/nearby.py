"""What to do about a named file that cannot be read, by what is where it should be."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from itertools import islice
from pathlib import Path

from mlftool.errors import Problem, nearest
from mlftool.files import MANIFEST_SUFFIXES, MODEL_SUFFIXES
from mlftool.frozen import replace

# Of files that cannot be read: elsewhere `file` may be another name, as of a build.
_READ_CODES = (
    *("MLF0100", "MLF0201", "MLF0203", "MLF0408", "MLF0410", "MLF0501", "MLF0600", "MLF0609"),
    "MLF0614",
)
_MOST = 5  # names that a help line lists
_READ = 1000  # entries of a folder that are looked at
_OURS = (MANIFEST_SUFFIXES, MODEL_SUFFIXES, (".tar",))
_KINDS = (*_OURS, (".npz",), (".json",))


def with_remedy(problem: Problem) -> Problem:
    """The problem, with what to do if it has no help and its file is not there, or is not one."""
    if problem.help or problem.path or problem.code not in (*_READ_CODES, "MLF0402"):
        return problem
    help = ""
    with suppress(OSError, ValueError):  # a folder that is closed to us; no file name
        is_written = problem.code == "MLF0402"
        help = _unwritten(problem) if is_written else _remedy(problem.file)
    return replace(problem, help=help)


def _remedy(name: str) -> str:
    """Raises OSError where nothing can be known."""
    if os.path.islink(name) and not os.path.exists(name):
        return f"it is a link to '{os.readlink(name)}', which does not lead to a file"
    if not os.path.lexists(name):
        return _instead(Path(name))
    kind = os.stat(name).st_mode
    if stat.S_ISDIR(kind):
        inside = [n for kinds in _OURS for n in _names(name, kinds)]
        such = f", such as '{Path(name, inside[0])}'" if inside else ""
        return f"it is a folder; name a file{such}"
    if not stat.S_ISREG(kind):
        return "copy what it gives to a file first"
    return "" if os.access(name, os.R_OK) else "you may not read it; see `ls -l`"


def _unwritten(problem: Problem) -> str:
    if problem.message.endswith(os.strerror(errno.ENOSPC)):
        return "make room, then try again"
    return _no_folder(Path(problem.file))


def _no_folder(path: Path) -> str:
    return "" if path.parent.is_dir() else f"there is no folder '{path.parent}'"


def _instead(path: Path) -> str:
    """The file that was meant, or those of the same kind."""
    folder, kind = path.parent, path.suffix
    if help := _no_folder(path):
        return help
    kinds = next((kinds for kinds in _KINDS if kind in kinds), ())
    names = _names(folder, kinds or (kind,))
    stem = nearest(path.stem, (Path(n).stem for n in names))  # all have the suffix
    near = next((n for n in names if stem and Path(n).stem == stem), "")
    if not kinds:  # what stands before the suffix may be right
        alike = [n for n in _names(folder, ("",)) if Path(n).stem == path.stem]
        meant = path.stem + (nearest(kind, (Path(n).suffix for n in alike)) or kind)
        near, names = meant if meant in alike else "", alike or names
    if near:
        return f"did you mean '{path.with_name(near)}'?"
    where = "this folder" if folder == Path() else f"'{folder}'"
    if not names:
        return f"{where} has no {kind} file" if kind else f"{where} has no file"
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{where} has {', '.join(names[:_MOST])}{more}"


def _names(folder: str | Path, kinds: tuple[str, ...]) -> list[str]:
    """Files of these kinds in a folder."""
    with os.scandir(folder) as found:
        return sorted(
            e.name for e in islice(found, _READ) if e.name.endswith(kinds) and e.is_file()
        )
