"""Built programs and libraries, kept by the content they were built from."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mlftool.errors import ENVIRONMENT, MlfError, Problem

LIMIT_BYTES = 2 << 30
_DAY_SECONDS = 86_400
_LOOKED = "looked-for-room"  # its age says when
_OURS = re.compile(r"[0-9a-f]{32}(\..+)?")  # builds, and what interrupted ones left


def key_of(settings: Iterable[str], files: Mapping[str, bytes]) -> str:
    """A name for what these settings make of these files."""
    digest = hashlib.sha256()
    parts = [s.encode("utf-8", "surrogateescape") for s in settings]
    for name in sorted(files):
        parts += [name.encode(), files[name]]
    for part in parts:  # lengths keep parts from running together
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:32]


def build_once(
    cache: Path,
    key: str,
    files: Mapping[str, bytes],
    build: Callable[[Path], None],
    made: Sequence[str],
) -> Path:
    """The directory for `key`: `files`, and what `build` adds to them when it is called there,
    which must be the files `made`: some wrappers of compilers end well and write nothing.

    Built aside and renamed, so that an interrupted or a simultaneous build never shows. Builds
    above LIMIT_BYTES that nobody used for a day are removed. Raises MlfError when `cache` cannot be
    written, or one of `made` was not.
    """
    final = cache / key
    if _holds(final, made):
        with suppress(OSError):  # of another user
            os.utime(final)
        return final
    try:
        cache.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=cache, prefix=f"{key}."))
        try:
            for name, data in files.items():
                path = work / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            build(work)
            for name in made:
                if not _is_whole(work / name):
                    text = "the compiler succeeded but did not write it"
                    raise MlfError(Problem("MLF0608", text, path=name), ENVIRONMENT)
            if final.is_dir() and not _holds(final, made):  # what an older mlftool left
                shutil.rmtree(final, ignore_errors=True)
            os.rename(work, final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        _make_room(cache)
    except OSError as error:
        if not _holds(final, made):  # else another process was first: its build is as good
            text = f"the cache of built programs cannot be written: {error.strerror}"
            hint = "set MLFTOOL_CACHE to a writable directory with free space"
            raise MlfError(Problem("MLF0702", text, str(cache), help=hint), ENVIRONMENT) from None
    return final


def _make_room(cache: Path) -> None:
    """Once a day: removes what is unused for longest, until the rest has LIMIT_BYTES. What was used
    within a day stays, since its program may be running."""
    now = time.time()
    with suppress(OSError):
        looked = cache / _LOOKED
        if looked.exists() and now - looked.stat().st_mtime < _DAY_SECONDS:
            return
        looked.touch()
        with os.scandir(cache) as entries:
            kept = [(e.stat().st_mtime, Path(e.path)) for e in entries if _OURS.fullmatch(e.name)]
        total = 0
        for used, folder in sorted(kept, reverse=True):
            total += _bytes_of(folder)
            unused = now - used > _DAY_SECONDS
            if unused and (total > LIMIT_BYTES or folder.suffix):
                shutil.rmtree(folder, ignore_errors=True)


def _bytes_of(folder: Path) -> int:
    """What its files take on the disk; none of those that are removed meanwhile."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            total += file.lstat().st_blocks * 512
    return total


def _holds(final: Path, made: Sequence[str]) -> bool:
    """Whether a whole build is there: then it stays, since another process may be running it."""
    return all(_is_whole(final / name) for name in made)


def _is_whole(file: Path) -> bool:
    try:
        return file.is_file() and file.stat().st_size > 0
    except OSError:  # of another user, as after sudo
        return False
