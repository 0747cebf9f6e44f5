"""An archive's files in memory, written as tar, and read from tar without trusting it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shlex
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mlftool.errors import BAD_INPUT, ENVIRONMENT, MlfError, Problem
from mlftool.files import MANIFEST_SUFFIXES, MODEL_SUFFIXES
from mlftool.frozen import frozen, replace
from mlftool.mlf.strict import AGAIN
from mlftool.mlf.untar import TarError, read_folder, read_members

MACHINE_ERRORS = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}
LATEST = 8**11 - 1  # the last second a tar header can hold


@frozen
class Bundle:
    """An archive's files by name, such as "codegen/host/src/kws_lib0.c"."""

    files: Mapping[str, bytes]

    def text(self, name: str) -> str:
        return self.files[name].decode("utf-8")


def epoch() -> int:
    """The one time an archive carries: SOURCE_DATE_EPOCH, else the start of 1980."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return 315532800
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > LATEST:
        raise MlfError(
            Problem(
                "MLF0401",
                f"SOURCE_DATE_EPOCH is '{text[:40]}'; expected a number of seconds since 1970, "
                f"at most {LATEST}",
            )
        )
    return int(text)


def tar_bytes(bundle: Bundle) -> bytes:
    """The archive as an uncompressed tar: a pure function of the files."""
    return b"".join(_tar(bundle))


def _tar(bundle: Bundle) -> Iterator[bytes]:
    """The same in pieces, of which the files are the bundle's own: a large model has no memory for
    a copy of its weights."""
    names = {"": None}
    for name in bundle.files:
        for at in range(len(name)):
            if name[at] == "/":
                names[name[:at]] = None
    for name in sorted({*names, *bundle.files}):
        info = tarfile.TarInfo(f"./{name}" if name else ".")
        info.mtime, info.uname, info.gname = epoch(), "root", "root"
        data = bundle.files.get(name)
        if data is None:
            info.type, info.mode = tarfile.DIRTYPE, 0o755
        else:
            info.size, info.mode = len(data), 0o644
        yield info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
        if data is not None:
            yield data
            yield bytes(-len(data) % tarfile.BLOCKSIZE)
    # Two blocks of zeros end an archive; tarfile would fill up a record of a magnetic tape.
    yield bytes(2 * tarfile.BLOCKSIZE)


def write_tar(bundle: Bundle, path: Path) -> None:
    """Write the archive; `path` holds the old file or the whole new one, never a part."""
    _write(path, _tar(bundle))


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by a complete file with `data`. Raises MlfError if it cannot be written.

    A link keeps pointing where it points. Devices and pipes are written to, never replaced.
    """
    _write(path, (data,))


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    with refused("cannot be written", path):
        if os.path.exists(path) and not (path.is_file() or path.is_dir()):
            with path.open("wb") as file:
                file.writelines(pieces)
        else:
            _replace(Path(os.path.realpath(path)), pieces)


def check_writable(*paths: Path | None, sources: Iterable[Path | None] = ()) -> None:
    """What can be said, long before and without a trace, of whether `write_atomically` will write
    each; None is an output that is not asked for. No output replaces one of `sources`, the files
    that a command reads. Raises MlfError.
    """
    read = [path for path in sources if path and os.path.isfile(path)]
    for path in filter(None, paths):
        if os.path.isfile(path) and any(path.samefile(other) for other in read):
            text, hint = "cannot be written: it is a file that is read", "give another name"
            raise MlfError(Problem("MLF0402", text, str(path), help=hint))
        with refused("cannot be written", path):
            try:
                mode = os.stat(path).st_mode
            except FileNotFoundError:
                mode = stat.S_IFREG
            if stat.S_ISDIR(mode):
                raise _error(errno.EISDIR)
            folder = Path(os.path.realpath(path)).parent
            os.stat(folder / ".")
            if stat.S_ISREG(mode) and not os.access(folder, os.W_OK | os.X_OK):
                raise _error(errno.EACCES)


def check_folders(*paths: Path | None) -> None:
    """The same of whether `make_folder` will make each."""
    for path in filter(None, paths):
        with refused("cannot be created", path):
            there = next(p for p in (path, *path.absolute().parents) if p.exists())
            if not there.is_dir():
                raise _error(errno.ENOTDIR)
            if not os.access(there, os.W_OK | os.X_OK):
                raise _error(errno.EACCES)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def make_folder(path: Path) -> None:
    """The folder and those above it, unless they are there. Raises MlfError."""
    if os.path.lexists(path) and not path.is_dir():
        raise MlfError(Problem("MLF0402", "is a file, expected a folder", str(path)))
    with refused("cannot be created", path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def refused(what: str, path: Path) -> Iterator[None]:
    """An OSError inside becomes the MlfError that says so: the machine's fault if its disk or its
    tables are full, else the user's. So does a dash, which other programs take for a stream."""
    if path.parts[:1] == ("-",):
        hint = "for standard output give /dev/stdout"
        raise MlfError(Problem("MLF0402", f"{what}: '-' is not the name of a file", help=hint))
    try:
        yield
    except OSError as error:
        code = ENVIRONMENT if error.errno in MACHINE_ERRORS else BAD_INPUT
        problem = Problem("MLF0402", f"{what}: {error.strerror or error}", str(path))
        raise MlfError(problem, code) from None


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the name of `folder`, a new or empty one, at the end: all
    of it is there or none. Raises MlfError."""
    with refused("cannot be written", folder):
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name[:100]}.", dir=folder.absolute().parent))
        try:
            made.chmod(0o777 & ~_umask())
            yield made
            made.replace(folder)  # an empty folder gives way
        except MlfError as error:
            raise MlfError(
                (_named(p, made, folder) for p in error.problems), error.exit_code
            ) from None
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _named(problem: Problem, made: Path, folder: Path) -> Problem:
    """The problem of a file in `made` as one of `folder`, which is what the user knows."""
    path = Path(problem.file)
    if not path.is_relative_to(made):
        return problem
    return replace(problem, file=str(folder / path.relative_to(made)))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:  # reached by every signal but SIGKILL, see cli.main
        temporary.unlink(missing_ok=True)


_AGAIN = f"is the copy complete? if so, {AGAIN}"
_ARCHIVES = "mlftool compile and TVM's export_model_library_format write archives"


def read_tar(path: Path) -> Bundle:
    """The archive in `path`, a file or an unpacked folder. Raises MlfError for anything but
    plain files under plain names."""
    if path.suffix in MODEL_SUFFIXES and path.is_file():
        words = ["mlftool", "compile", str(path), "-o", f"{path.stem}.tar"]
        hint = f"compile it first: {shlex.join(words)}"
        raise MlfError(Problem("MLF0502", "is a model, not an archive", str(path), help=hint))
    if path.suffix in MANIFEST_SUFFIXES and path.is_file():
        hint = f"build it first: {shlex.join(['mlftool', 'build', str(path)])}"
        hint += ", which lists its archives"
        raise MlfError(Problem("MLF0502", "is a manifest, not an archive", str(path), help=hint))
    try:
        files = read_folder(path) if path.is_dir() else read_members(path)
    except OSError as error:
        raise MlfError(Problem("MLF0501", f"cannot be read: {error.strerror}", str(path))) from None
    except TarError as error:
        where = f"member '{error.member[:200]}'" if error.member else ""
        help = _AGAIN if error.member else _ARCHIVES
        raise MlfError(Problem("MLF0502", str(error), str(path), path=where, help=help)) from None
    if not any(re.fullmatch(r"metadata(-[0-9]+)?\.json", name) for name in files):
        text = "has no metadata.json, so it is not a Model Library Format archive"
        raise MlfError(Problem("MLF0502", text, str(path), help=_ARCHIVES))
    return Bundle(files)
