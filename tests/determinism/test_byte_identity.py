"""One model, one archive: folder, user, clock, locale, umask and hash seed leave no trace."""

from __future__ import annotations

import datetime
import getpass
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mlftool.cli import main

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples" / "models"
MODEL = MODELS / "gesture_int8.onnx"

# What is different in each run; the first is the plainest there is.
WORLDS: dict[str, dict[str, str]] = {
    "plain": {"PYTHONHASHSEED": "0"},
    "other_user": {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "HOME": "/nonexistent"}
    | {"USER": "mallory", "LOGNAME": "mallory"},
    "turkish": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "America/St_Johns"}
    | {"PYTHONOPTIMIZE": "2", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    "no_utf8": {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"}
    | {"HOSTNAME": "elsewhere", "TZ": "XYZ-13:37", "COLUMNS": "20", "TERM": "dumb"},
    "no_home": {"PYTHONHASHSEED": "7", "LC_ALL": "C.UTF-8", "TZ": "Pacific/Kiritimati"}
    | {"HOME": "", "TMPDIR": "/var/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    | {"MLF_DEBUG": "3", "NO_COLOR": "1"},
}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("here") / "out.tar"
    assert main(["compile", str(MODEL), "-o", str(out), "--module-name", "m"]) == 0
    return out.read_bytes()


def test_all_worlds_give_one_archive(archive: bytes, tmp_path: Path) -> None:
    """Real processes, each in a folder of its own with a name of its own length."""
    packages = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    found = {}
    for number, (world, variables) in enumerate(WORLDS.items()):
        folder = tmp_path / (world * (number + 1))
        folder.mkdir()
        name = f"model{'x' * number}.onnx"
        shutil.copyfile(MODEL, folder / name)
        os.utime(folder / name, (number, 10**9 + number))
        clean = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH")}
        subprocess.run(
            [sys.executable, "-m", "mlftool", "compile"]  # noqa: RUF005
            + [name if number % 2 else str(folder / name)]
            + ["-o", f"out{number}.tar", "--module-name", "m"],
            cwd=folder,
            env={**clean, "PYTHONPATH": packages, **variables},
            umask=[0o022, 0o077, 0][number % 3],
            stderr=subprocess.DEVNULL,
            check=True,
        )
        found[world] = digest((folder / f"out{number}.tar").read_bytes())
    assert found == dict.fromkeys(WORLDS, digest(archive))


def traces() -> Iterator[str]:
    """What a careless writer lets slip."""
    now = datetime.datetime.now()
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%b %d %Y", "%Y%m%d"):
        yield now.strftime(form)
        yield now.astimezone(datetime.timezone.utc).strftime(form)
    yield str(int(time.time()))[:6]
    yield str(ROOT)
    yield str(Path.home()) + "/"
    yield str(Path.cwd())
    yield sys.executable
    yield sys.prefix
    yield MODEL.name
    if len(getpass.getuser()) > 4:  # "root" is what every archive says
        yield getpass.getuser()
    if len(platform.node()) > 4 and platform.node() != "localhost":
        yield platform.node()


def test_no_trace_of_this_machine(archive: bytes) -> None:
    for trace in traces():
        assert trace.encode() not in archive, trace


def test_nothing_asks_for_time_or_chance(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiling neither reads the clock nor draws a random number."""
    import random

    import numpy as np

    def asked(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("the compiler looked at the clock or rolled a die")

    for module, name in (
        (time, "time"),
        (time, "time_ns"),
        (time, "localtime"),
        (time, "gmtime"),
        (random, "random"),
        (random, "randrange"),
        (np.random, "rand"),
        (np.random, "default_rng"),
        (platform, "node"),
        (getpass, "getuser"),
    ):
        monkeypatch.setattr(module, name, asked)
    out = tmp_path / "out.tar"
    assert main(["compile", str(MODEL), "-o", str(out), "--module-name", "m"]) == 0
    assert out.read_bytes() == archive


def test_folders_may_be_listed_in_any_order(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("glob", "rglob"):
        real = getattr(Path, name)

        def backwards(self: Path, pattern: str, real: Any = real) -> Iterator[Path]:
            return iter(sorted(real(self, pattern), reverse=True))

        monkeypatch.setattr(Path, name, backwards)
    out = tmp_path / "out.tar"
    assert main(["compile", str(MODEL), "-o", str(out), "--module-name", "m"]) == 0
    assert out.read_bytes() == archive


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda p: p.stem)
def test_a_second_compile_in_one_process_is_the_same(path: Path, tmp_path: Path) -> None:
    """No state is left behind: not by the model itself, nor by another one between."""
    results = []
    for k, model in enumerate((path, MODEL, path)):
        out = tmp_path / f"{k}.tar"
        assert main(["compile", str(model), "-o", str(out), "--target", "cortex-m4"]) == 0
        results.append(digest(out.read_bytes()))
    assert results[0] == results[2]


def test_a_date_that_is_given_changes_only_the_dates(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tarfile

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    out = tmp_path / "out.tar"
    assert main(["compile", str(MODEL), "-o", str(out), "--module-name", "m"]) == 0
    with tarfile.open(out) as new, tarfile.open(fileobj=io.BytesIO(archive)) as old:
        assert {m.mtime for m in new} == {1700000000}
        changed = [
            m.name
            for m in new
            if m.isfile() and new.extractfile(m).read() != old.extractfile(m.name).read()
        ]
    assert changed == ["./checksums.sha256", "./metadata.json"]
