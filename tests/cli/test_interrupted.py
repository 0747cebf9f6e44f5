"""Whatever stops a compile, the output is the old file or the whole new one.

Only SIGKILL may leave a temporary file behind, as nothing can run after it; its name starts with a
dot and ends in .tmp.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlftool.cli import main
from mlftool.mlf import extracted
from mlftool.signals import interrupt, never_ignored, outside_imports

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "models" / "digits_int8.onnx"
OLD = b"the old archive"
STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What an undisturbed compile writes; it also pays for the imports."""
    out = tmp_path_factory.mktemp("new") / "out.tar"
    assert compile_(out) == 0
    return out.read_bytes()


def compile_(out: Path) -> int:
    return main(["compile", str(MODEL), "-o", str(out)])


def in_child(work: Callable[[], int]) -> int:
    """Fork, so that imports are paid for; the child's pid."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            code = work()
        except KeyboardInterrupt:  # outside of the command: Python ends by the signal
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os._exit(code)
    return pid


def end_of(pid: int) -> int:
    """Exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def check(folder: Path, new: bytes, code: int, stop: signal.Signals, listens: bool = True) -> None:
    """`listens`: the signal came while the command handles signals, not before or after that."""
    content = (folder / "out.tar").read_bytes()
    assert content in (OLD, new)
    killed = stop == signal.SIGKILL or (code == -stop and not listens)
    assert code in (0, -stop if killed else 128 + stop)
    if code == 0:
        assert content == new
    stray = [p.name for p in folder.iterdir() if p.name != "out.tar"]
    if stop == signal.SIGKILL:
        assert len(stray) <= 1
        assert all(n.startswith(".out.tar.") and n.endswith(".tmp") for n in stray)
    else:
        assert stray == []


MOMENTS = ["open", "fsync", "replace", "unlink"]


@pytest.mark.parametrize("stop", STOPS, ids=lambda s: s.name)
@pytest.mark.parametrize("moment", [f"{w} {m}" for m in MOMENTS for w in ("before", "after")])
def test_stopped_while_writing(
    moment: str, stop: signal.Signals, tmp_path: Path, new: bytes
) -> None:
    """The signal arrives exactly before or after a system call of the writer."""
    (tmp_path / "out.tar").write_bytes(OLD)
    when, name = moment.split()
    real = getattr(os, name)

    def stopped(*args: Any, **kwargs: Any) -> Any:
        ours = ".tmp" in str(args[0]) or name == "fsync"
        if ours and when == "before":
            os.kill(os.getpid(), stop)
        result = real(*args, **kwargs)
        if ours and when == "after":
            os.kill(os.getpid(), stop)
        return result

    def work() -> int:
        setattr(os, name, stopped)
        return compile_(tmp_path / "out.tar")

    check(tmp_path, new, end_of(in_child(work)), stop)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stop", STOPS, ids=lambda s: s.name)
def test_stopped_at_any_time(stop: signal.Signals, tmp_path: Path, new: bytes) -> None:
    start = time.perf_counter()
    assert end_of(in_child(lambda: compile_(tmp_path / "out.tar"))) == 0
    whole = time.perf_counter() - start
    for step in range(10):
        folder = tmp_path / str(step)
        folder.mkdir()
        (folder / "out.tar").write_bytes(OLD)
        ready, tell = os.pipe()

        def work(folder: Path = folder, tell: int = tell) -> int:
            os.write(tell, b"x")
            return compile_(folder / "out.tar")

        pid = in_child(work)
        os.read(ready, 1)
        time.sleep(0.005 + whole * step / 9)  # the handlers stand after the first instants
        os.kill(pid, stop)
        check(folder, new, end_of(pid), stop, listens=False)
        os.close(ready)
        os.close(tell)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_stopped_in_a_process_of_its_own(stop: signal.Signals, tmp_path: Path, new: bytes) -> None:
    (tmp_path / "out.tar").write_bytes(OLD)
    process = subprocess.Popen(
        [sys.executable, "-m", "mlftool", "compile", MODEL, "-o", tmp_path / "out.tar"],
        cwd=ROOT,
        env={**os.environ, "MLF_DEBUG": "1"},  # says when the first stage is done
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(stop)
    rest = process.stderr.read()
    check(tmp_path, new, process.wait(), stop)
    assert "Traceback" not in rest


def faults() -> Iterator[tuple[str, int, int]]:
    for name in ("open", "fsync", "replace"):
        for number, code in (
            (errno.ENOSPC, 3),
            (errno.EDQUOT, 3),
            (errno.EIO, 3),
            (errno.EMFILE, 3),
            (errno.EACCES, 2),
            (errno.EROFS, 2),
        ):
            yield name, number, code


@pytest.mark.parametrize(("name", "number", "code"), list(faults()))
def test_a_call_that_fails(
    name: str,
    number: int,
    code: int,
    tmp_path: Path,
    new: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out.tar"
    out.write_bytes(OLD)
    real = getattr(os, name)

    def failing(*args: Any, **kwargs: Any) -> Any:
        if name == "fsync" or ".tmp" in str(args[0]):
            raise OSError(number, os.strerror(number))
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, failing)
    assert compile_(out) == code
    monkeypatch.undo()
    first, *help = capsys.readouterr().err.splitlines()
    assert first == f"{out}: error[MLF0402]: cannot be written: {os.strerror(number)}"
    assert help == ["help: make room, then try again"] * (number == errno.ENOSPC)
    assert out.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [out]


def test_the_kernel_cuts_the_file_short(
    tmp_path: Path, new: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """A real limit on file sizes: the write stops half-way."""
    out = tmp_path / "out.tar"
    out.write_bytes(OLD)

    def work() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        return compile_(out)

    assert end_of(in_child(work)) == 3
    assert out.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [out]


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that any user may enter."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_a_folder_that_is_not_ours(public: Path, new: bytes) -> None:
    """As a plain user, in a folder of another."""
    (public / "read_only").mkdir(mode=0o555)
    pipe_out, pipe_in = os.pipe()

    def work() -> int:
        if os.geteuid() == 0:
            try:
                os.setuid(65534)
            except OSError:
                return 77
        if not os.access(MODEL, os.R_OK) or not os.access(ROOT / "crt" / "include", os.R_OK):
            return 77
        with open(pipe_in, "w") as said, contextlib.redirect_stderr(said):
            return compile_(public / "read_only" / "out.tar")

    code = end_of(in_child(work))
    os.close(pipe_in)
    if code == 77:
        os.close(pipe_out)
        pytest.skip("root here cannot become a user who may read this checkout")
    assert code == 2
    with open(pipe_out) as said:
        assert said.read().endswith(
            "out.tar: error[MLF0402]: cannot be written: Permission denied\n"
        )
    assert list((public / "read_only").iterdir()) == []


def _missing(folder: Path) -> Path:
    return folder / "nowhere" / "out.tar"


def _below_a_file(folder: Path) -> Path:
    (folder / "file").write_bytes(b"")
    return folder / "file" / "out.tar"


def _a_folder(folder: Path) -> Path:
    (folder / "out.tar").mkdir()
    return folder / "out.tar"


def _too_long(_: Path) -> Path:
    return Path("o" * 300)  # relative: messages shorten names beyond 500 characters


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (_missing, errno.ENOENT),
        (_below_a_file, errno.ENOTDIR),
        (_a_folder, errno.EISDIR),
        (_too_long, errno.ENAMETOOLONG),
    ],
)
def test_a_place_where_nothing_can_be(
    make: Callable[[Path], Path], number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert compile_(out) == 2
    said, *help = capsys.readouterr().err.splitlines()
    assert said == f"{out}: error[MLF0402]: cannot be written: {os.strerror(number)}"
    if make in (_missing, _below_a_file):
        assert help == [f"help: there is no folder '{out.parent}'"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_device_stays_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    """`-o /dev/full`, and so /dev/null, is written to and never replaced, as root too."""
    assert compile_(Path("/dev/full")) == 3
    assert capsys.readouterr().err == (
        "/dev/full: error[MLF0402]: cannot be written: No space left on device\n"
        "help: make room, then try again\n"
    )
    assert compile_(Path("/dev/null")) == 0
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("words", ["init MODEL new", "extract ARCHIVE --all new"])
def test_a_full_disk_is_told_of_the_file_that_was_asked_for(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file named was in a temporary folder, which was gone when it was said to be missing."""
    assert compile_(tmp_path / "m.tar") == 0
    monkeypatch.chdir(tmp_path)
    given = {"MODEL": str(MODEL), "ARCHIVE": "m.tar"}
    capsys.readouterr()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("mlftool.mlf.bundle.os.fsync", full)
    assert main([given.get(word, word) for word in words.split()]) == 3
    said, *help = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"new/[\w./]+: error\[MLF0402\]: cannot be written: No space .*", said)
    assert help == ["help: make room, then try again"]
    assert [p.name for p in tmp_path.iterdir()] == ["m.tar"]


def test_a_linked_output_stays_a_link(tmp_path: Path, new: bytes) -> None:
    (tmp_path / "real.tar").write_bytes(OLD)
    (tmp_path / "out.tar").symlink_to("real.tar")
    assert compile_(tmp_path / "out.tar") == 0
    assert (tmp_path / "out.tar").is_symlink()
    assert (tmp_path / "real.tar").read_bytes() == new


@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_the_umask_decides_who_may_read(umask: int, tmp_path: Path, new: bytes) -> None:
    old = os.umask(umask)
    try:
        assert compile_(tmp_path / "out.tar") == 0
    finally:
        os.umask(old)
    assert (tmp_path / "out.tar").stat().st_mode & 0o777 == 0o666 & ~umask


class Interrupted:
    """A signal arrives while its destructor runs."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)


def test_a_signal_in_a_destructor_is_heard(capfd: pytest.CaptureFixture[str]) -> None:
    """Python prints what a destructor raises, and goes on: here for ever."""

    def forever() -> None:
        with never_ignored(KeyboardInterrupt), never_ignored(MemoryError):
            Interrupted()
            time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        forever()
    assert capfd.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


AT_MODULE = """
import os, signal, time
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(0.1)
is_whole = True
"""


def test_a_signal_waits_for_the_end_of_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of onnx's native module one in a hundred ended with a segmentation fault."""
    (tmp_path / "interrupted_module.py").write_text(AT_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "interrupted_module", raising=False)
    old = signal.signal(signal.SIGUSR1, outside_imports(interrupt))

    def forever() -> None:
        importlib.import_module("interrupted_module")
        time.sleep(60)  # a call of the system, which has to end, too

    try:
        with pytest.raises(KeyboardInterrupt):
            forever()
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert sys.modules["interrupted_module"].is_whole


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
@pytest.mark.parametrize("at", [0, 2, 5])
def test_an_interrupted_extraction_leaves_nothing(
    at: int, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder that was not there; one that was keeps what the user had in it."""
    assert compile_(tmp_path / "a.tar") == 0
    folder = tmp_path / "project"
    if there:
        (folder / "codegen").mkdir(parents=True)
        (folder / "codegen" / "mine.c").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    real, count = extracted.write_atomically, 0

    def interrupted(path: Path, data: bytes) -> None:
        nonlocal count
        count += 1
        if count > at:
            raise KeyboardInterrupt
        real(path, data)

    for what in (["--all", str(folder)], ["--project", f"digits={folder}"]):
        count = 0
        monkeypatch.setattr(extracted, "write_atomically", interrupted)
        assert main(["extract", str(tmp_path / "a.tar"), *what]) == 128 + signal.SIGINT
        assert sorted(tmp_path.rglob("*")) == before
        monkeypatch.undo()
    assert main(["extract", str(tmp_path / "a.tar"), "--all", str(folder)]) == 0
    assert (folder / extracted.RECORD).is_file()


def test_a_library_that_makes_an_error_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As numpy does while it is imported."""

    def run(args: object) -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as stop:
            raise ImportError("numpy failed to import") from stop

    monkeypatch.setattr("mlftool.cli.schema.run", run)
    assert main(["schema"]) == 130
    assert capsys.readouterr().err == "mlftool: ended by SIGINT\n"


AT_IMPORT = """
import atexit, os, signal, sys

at = sys.argv.pop(1)

class Stop:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == at:
            sys.meta_path.remove(Stop)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Stop)
if at == "exit":
    atexit.register(os.kill, os.getpid(), signal.SIGINT)
from mlftool.start import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "module", ["mlftool.cli", "argparse", "mlftool.cli.compile", "numpy", "mlftool.compile", "exit"]
)
def test_ended_while_it_starts_and_exits(module: str, tmp_path: Path) -> None:
    """Ctrl-C while a module is searched for, or while Python exits."""
    words = [sys.executable, "-c", AT_IMPORT, module, "compile", str(MODEL)]
    words += ["-q", "-o", str(tmp_path / "out.tar")]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "mlftool: ended by SIGINT\n")
    assert [p.name for p in tmp_path.iterdir()] == ["out.tar"] * (module == "exit")


def test_what_is_imported_before_signals_are_handled() -> None:
    """A traceback is Python's own until then: so little that only Python's start takes time."""
    code = "import sys; old = {*sys.modules}; import mlftool.start; print(*{*sys.modules} - old)"
    words = [
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}",
    ]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    ours = {"mlftool", "mlftool.moved", "mlftool.start", "mlftool.stopped", "_signal"}
    assert {m for m in found if m.partition(".")[0] != "importlib"} <= {
        *ours,
        "__future__",
        "_imp",
        "gc",
        "warnings",
    }
