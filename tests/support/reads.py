"""Files of tests that need not run again, since no template that they read has changed.

Bazel runs a room again when any of its files changes, and all rooms have the templates of all
kernels and the headers of generated C, which here are templates, too. A sandbox is made for one
run, so this replaces its links to templates by copies, asks Linux (inotify) which of these are
opened while the tests of a file run, by whichever process, and keeps that list where results are
kept. In the next run a file of tests is left out if it passed, if everything else that its room has
is what it was, and so are the templates of its list.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import re
import struct
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import kept
import pytest
from shards import Shard

REPO = Path(__file__).parents[2]
WATCHED = (("mlftool", "*.j2"), ("crt/include/mlf", "*.h"))
# Of one run: what changes there, no other sees. In /dev/shm the first folder is named by a digest.
SANDBOX = re.compile(r"/(?:sandbox|\w+-sandbox\.\w+)/\w+-sandbox/\d+/")
IN_OPEN, IN_Q_OVERFLOW = 0x20, 0x4000
ALL = "*"  # read, as far as anyone can tell
# What is another in each run and in no test's interest, besides where its sandbox is.
OWN = ("TEST_", "PYTEST_")
OWN_OPTIONS = re.compile(r"--(basetemp|junitxml)=")


def of_run(arguments: Sequence[str], shard: Shard | None) -> Reads | None:
    """What a run of pytest with these arguments, of which some are files, may leave out; None where
    templates cannot be watched or nothing is kept."""
    files = [a for a in arguments if a.endswith(".py")]
    if not files or not SANDBOX.search(f"{REPO}/") or kept.folder() is None:
        return None
    try:
        watch = Watch(REPO)
    except OSError:
        return None
    options = [a for a in arguments if a not in files and not OWN_OPTIONS.match(a)]
    return Reads(watch, files, kept.key_of([*options, repr(shard), *_surroundings()]))


class Watch:
    """Templates of a project, which become copies of this run alone, and who opens them."""

    def __init__(self, folder: Path) -> None:
        self.digests = {}
        for path in (p for below, names in WATCHED for p in sorted((folder / below).rglob(names))):
            data = path.read_bytes()
            if path.is_symlink():
                path.unlink()
                path.write_bytes(data)
            self.digests[path.relative_to(folder).as_posix()] = hashlib.sha256(data).hexdigest()
        self._folder = folder
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self._names: dict[int, str] = {}
        for parent in sorted({Path(name).parent.as_posix() for name in self.digests}):
            place = os.fsencode(folder / parent)
            self._names[self._call("inotify_add_watch", self._events, place, IN_OPEN)] = parent
        # A template that this process has compiled is opened no more.
        self._compiled = _Compiled()
        os.register_at_fork(after_in_child=self._compiled.clear)

    def _call(self, name: str, *arguments: Any) -> int:
        result = getattr(self._libc, name)(*arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), name)
        return int(result)

    def opened(self) -> set[str]:
        """Since the last call, by all processes."""
        found = {self._name(Path(file)) for file in self._compiled.taken()}
        while True:
            try:
                data = os.read(self._events, 1 << 16)
            except BlockingIOError:
                return found & {*self.digests, ALL}
            at = 0
            while at < len(data):
                watch, mask, _, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
                known = not mask & IN_Q_OVERFLOW and watch in self._names
                found.add(f"{self._names[watch]}/{name}" if known else ALL)
                at += 16 + length

    def _name(self, file: Path) -> str:
        inside = file.is_relative_to(self._folder)
        return file.relative_to(self._folder).as_posix() if inside else str(file)

    def listen(self) -> None:
        """To the compiler's own templates too, once it is imported."""
        module: Any = sys.modules.get("mlftool.codegen.templates")
        if module and module._TEMPLATES.cache is not self._compiled:
            self._compiled.update(module._TEMPLATES.cache)
            module._TEMPLATES.cache = self._compiled


class _Compiled(dict[Any, Any]):
    """Jinja's store of compiled templates, which says what was taken from it."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[str] = set()

    def get(self, key: Any, default: Any = None) -> Any:
        template = super().get(key, default)
        if template is not None:
            self._taken.add(template.filename)
        return template

    def taken(self) -> set[str]:
        """Since the last call."""
        files, self._taken = self._taken, set()
        return files


class Reads:
    """A plugin: of each file of tests which templates it reads."""

    def __init__(self, watch: Watch, files: Sequence[str], key: str) -> None:
        self.files = files
        self._kept: dict[str, int] = {}  # files that are left out: how many units they have
        self._units: dict[str, dict[Hashable, None]] = {}  # of the others, in order
        self._watch, self._key = watch, key
        self._read: dict[str, set[str]] = {}  # by file
        self._so_far: set[str] = set()  # for what is in memory from now on
        self._failed: set[str] = set()
        self._modules: set[str] = set()
        self._now = ""
        for file in files:
            known = kept.recall(self._key_of(file))
            if known and self._unchanged(record := json.loads(known)):
                self._kept[file] = record["units"]

    def _key_of(self, file: str) -> str:
        return kept.key_of([self._key, file])

    def _unchanged(self, record: dict[str, Any]) -> bool:
        return all(self._watch.digests.get(n) == digest for n, digest in record["read"].items())

    @property
    def left(self) -> list[str]:
        """The files that have to run."""
        return [file for file in self.files if file not in self._kept]

    def summary(self) -> str:
        count = f"{len(self._kept)} of {len(self.files)} files"
        return f"{count} are left out: they passed, and no template that they read has changed"

    def units(self, paths: Sequence[Path], units: Sequence[Hashable]) -> list[Hashable]:
        """Those of tests in files of these paths, among those of the files that are left out: so a
        test is dealt to its shard whichever others are run."""
        for path, unit in zip(paths, units, strict=True):
            self._units.setdefault(self._name(path), {})[unit] = None
        left_out = {file: [(file, k) for k in range(count)] for file, count in self._kept.items()}
        every: dict[str, Iterable[Hashable]] = {**self._units, **left_out}
        return [unit for file in self.files for unit in every.get(file, ())]

    def _name(self, path: Path) -> str:
        """The argument that a path was."""
        return path.relative_to(REPO).as_posix()

    def _take(self, lasting: bool = False) -> None:
        """What was read since the last call was for the file that runs now; what was made of it may
        last for the files after this one, too."""
        opened = self._watch.opened()
        if lasting:
            self._so_far |= opened
        self._read.setdefault(self._now, set()).update(opened | self._so_far)

    def run_again(self, paths: Iterable[Path]) -> None:
        """These files are never left out."""
        for path in paths:
            self._read.setdefault(self._name(path), set()).add(ALL)

    def pytest_collection_finish(self) -> None:
        self._modules = set(sys.modules)
        self._take(lasting=True)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        file = self._name(item.path)
        if file != self._now:
            self._now = file
            _forget()
        self._watch.listen()
        yield
        new = sys.modules.keys() - self._modules
        self._modules |= new
        ours = any(_is_ours(getattr(sys.modules[name], "__file__", None)) for name in new)
        self._take(lasting=ours)  # a module is read once

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        wide = fixturedef.scope in ("session", "package")
        if wide:
            self._take()
        yield
        if wide:
            self._take(lasting=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(self._now)

    def keep(self) -> None:
        """Of the files that ran and passed, what they read, and their numbers of units."""
        for file in set(self.left) - self._failed:
            names = self._read.get(file, self._read[""])  # without tests of its own: what all read
            if ALL not in names:
                read = {name: self._watch.digests[name] for name in sorted(names)}
                record = json.dumps({"units": len(self._units.get(file, ())), "read": read})
                kept.keep(self._key_of(file), record.encode())


def _is_ours(file: str | None) -> bool:
    return file is not None and Path(file).is_relative_to(REPO / "tests")


def _forget() -> None:
    """What functions of tests keep: a file that runs alone would have to read for it."""
    for module in list(sys.modules.values()):
        if _is_ours(getattr(module, "__file__", None)):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def _surroundings() -> Iterator[str]:
    """All else that tests depend on: the files of this run, programs, the machine."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(OWN)}
    yield from sorted(f"{k}={SANDBOX.sub('/', v)}" for k, v in variables.items())
    yield f"{sys.version} {os.uname().release} {_processor()}"
    with suppress(OSError):  # of Debian: which version of what is installed
        yield hashlib.sha256(Path("/var/lib/dpkg/status").read_bytes()).hexdigest()
    shared = os.environ.get("MLFTOOL_SHARED_MODELS", "")
    folders = [*os.environ["PATH"].split(os.pathsep), shared]
    for folder in filter(os.path.isabs, folders):  # Bazel adds ".", which is below
        yield from _listing(Path(folder))
    for top, folders, files in os.walk(REPO.parent, followlinks=True):
        folders.sort()
        for name in sorted(files):
            path = Path(top, name)
            place = str(path.relative_to(REPO.parent))
            if any(path.is_relative_to(REPO / f) and path.match(n) for f, n in WATCHED):
                yield place
            else:  # wheels are large, and never written in place
                ours = path.is_relative_to(REPO) and not path.is_relative_to(REPO / "external")
                yield f"{place} {_content(path) if ours else _stat(path)}"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return " ".join(sorted({x for x in lines if x.startswith(("model name", "flags", "Features"))}))


def _listing(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            yield f"{path} {_stat(path)}"


def _content(path: Path) -> str:
    with suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return "none"


def _stat(path: Path) -> str:
    """Changes whenever a file does that nobody writes in place."""
    with suppress(OSError):
        found = path.stat()
        return f"{found.st_size} {found.st_mtime_ns}"
    return "none"
