"""Wheels of a folder in place of pip: the same files, and a line that says what is missing."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rules.private.tools import install_wheels

MINOR = sys.version_info.minor
FILES = {
    "two_words/__init__.py": "x = 1\n",
    "two_words/tests/test_a.py": "",
    "two_words-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: two-words\nVersion: 1.0\n",
    "two_words-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n",
    "two_words-1.0.data/purelib/beside.py": "y = 2\n",
}


def make_wheel(house: Path, tag: str = "py3-none-any") -> Path:
    house.mkdir(exist_ok=True)
    path = house / f"two_words-1.0-{tag}.whl"
    rows = ["two_words-1.0.dist-info/RECORD,,"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
            rows.append(f"{name},sha256={digest.decode()},{len(text)}")
        archive.writestr("two_words-1.0.dist-info/RECORD", "\n".join(rows) + "\n")
    return path


def make_lock(folder: Path, *wheels: Path) -> Path:
    hashes = " \\\n    ".join(
        f"--hash=sha256:{hashlib.sha256(w.read_bytes()).hexdigest()}" for w in wheels
    )
    lock = folder / "x.lock"
    lock.write_text(f"Two-Words==1.0 \\\n    {hashes}\n")
    return lock


def tree(site: Path) -> dict[str, bytes]:
    return {str(p.relative_to(site)): p.read_bytes() for p in site.rglob("*") if p.is_file()}


@pytest.mark.parametrize("more", [[], ["--whole"]])
def test_a_folder_of_wheels_gives_what_pip_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    house = tmp_path / "house"
    lock = make_lock(tmp_path, make_wheel(house))
    made, by_pip = tmp_path / "made", tmp_path / "by_pip"
    assert install_wheels.main([str(lock), str(made), "--wheels", str(house), *more]) == 0

    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(house))
    monkeypatch.setattr(install_wheels.sys, "executable", "/usr/bin/python3")
    assert install_wheels.main([str(lock), str(by_pip), *more]) == 0

    assert tree(made) == tree(by_pip)
    assert ("two_words/tests/test_a.py" in tree(made)) == bool(more)
    assert "beside.py" in tree(made)
    bytecode = Path(importlib.util.cache_from_source("two_words/__init__.py"))
    assert (str(bytecode) in tree(made)) == bool(more)


def test_pip_is_not_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "run", called)
    house = tmp_path / "house"
    lock = make_lock(tmp_path, make_wheel(house))
    assert install_wheels.main([str(lock), str(tmp_path / "s"), "--wheels", str(house)]) == 0


@pytest.mark.parametrize("case", ["missing", "hash", "interpreter"])
def test_a_wheel_that_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    house = tmp_path / "house"
    wheel = make_wheel(house, "cp27-cp27mu-win32" if case == "interpreter" else "py3-none-any")
    lock = make_lock(tmp_path, wheel)
    if case == "missing":
        wheel.unlink()
    if case == "hash":
        wheel.write_bytes(wheel.read_bytes() + b"x")
    said = {
        "missing": "the folder has no such wheel",
        "hash": "the folder has none with a hash of the lock file",
        "interpreter": "the folder has none for this interpreter",
    }[case]

    assert install_wheels.main([str(lock), str(tmp_path / "s"), "--wheels", str(house)]) == 2

    error = capsys.readouterr().err
    assert f"{house}: two_words==1.0: {said}; run: python3 -m pip download" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("tag", "can"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-any", True),
        (f"cp3{MINOR}-cp3{MINOR}-manylinux_2_17_x86_64.manylinux2014_x86_64", True),
        (f"cp3{MINOR - 1}-abi3-manylinux_2_17_x86_64", True),
        (f"cp3{MINOR + 1}-abi3-manylinux_2_17_x86_64", False),
        (f"cp3{MINOR - 1}-cp3{MINOR - 1}-manylinux_2_17_x86_64", False),
        (f"cp3{MINOR}-cp3{MINOR}-musllinux_1_2_x86_64", False),
        (f"cp3{MINOR}-cp3{MINOR}-macosx_11_0_arm64", False),
        (f"cp3{MINOR}-cp3{MINOR}t-manylinux_2_17_x86_64", False),
        ("py2-none-any", False),
    ],
)
def test_which_wheels_fit(monkeypatch: pytest.MonkeyPatch, tag: str, can: bool) -> None:
    monkeypatch.setattr(install_wheels.sysconfig, "get_platform", lambda: "linux-x86_64")
    assert install_wheels.fits(f"x-1-{tag}.whl") == can
