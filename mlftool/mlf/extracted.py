"""A record of the files extracted into a folder, so that the next extraction can remove them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mlftool.errors import MlfError, Problem
from mlftool.mlf.bundle import make_folder, new_folder, write_atomically

RECORD = ".mlftool-extracted"
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def record(files: Mapping[str, bytes]) -> bytes:
    """The record's text: a line for each file, as `sha256sum` writes them."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in sorted(files.items())]
    return "".join(f"{line}\n" for line in lines).encode()


def clear(folder: Path, files: Mapping[str, bytes]) -> tuple[Problem, ...]:
    """Removes what an earlier extraction left there and `files` has not, as far as it is unchanged.

    Folders that are empty then go too. The problems are warnings of what was changed and stays.
    Raises MlfError for what cannot be removed.
    """
    warnings = []
    for name, digest in _read(folder / RECORD).items():
        path = folder / name
        if name in files or path.is_symlink() or not path.is_file():
            continue
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                text = "was extracted earlier and changed since; it is kept"
                warnings.append(
                    Problem("MLF0402", text, str(path), help="remove it", severity="warning")
                )
                continue
            path.unlink()
            _drop_empty(path, folder)
        except OSError as error:
            raise MlfError(Problem("MLF0402", f"{error.strerror}", str(path))) from None
    return tuple(warnings)


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """All files and their record. What stops it leaves none of them in a folder that is new, and in
    another none that was not there before. Raises MlfError."""
    files = {**files, RECORD: record(files)}
    if not os.path.lexists(folder):
        with new_folder(folder) as made:
            _put(made, files)
        return
    make_folder(folder)
    new = [folder / name for name in files if not os.path.lexists(folder / name)]
    try:
        _put(folder, files)
    except BaseException:
        for path in new:
            with suppress(NotADirectoryError):  # what stopped it is a file where a folder was due
                path.unlink(missing_ok=True)
            _drop_empty(path, folder)
        raise


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        make_folder((folder / name).parent)
        write_atomically(folder / name, data)


def _drop_empty(path: Path, folder: Path) -> None:
    """Removes the empty folders above a file, up to `folder`."""
    for parent in path.parents:
        if parent == folder or not parent.is_dir() or any(parent.iterdir()):
            break
        parent.rmdir()


def _read(path: Path) -> dict[str, str]:
    """File -> digest. Lines that are not ours, or lead out of the folder, are left alone."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    found = {m[2]: m[1] for line in text.splitlines() if (m := _LINE.fullmatch(line))}
    return {n: d for n, d in found.items() if not n.startswith("/") and ".." not in Path(n).parts}
