"""Packs of bytecode: what launch.py runs of them, and that sources alone decide their bytes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from rules.private.tools import bytecode

TOOLS = Path(bytecode.__file__).parent
FILES = {
    "main_module.py": "import sys\nfrom part.inner import value\nprint(value(sys.argv[1]))\n",
    "part/__init__.py": "HERE = __file__\n",
    "part/inner.py": (
        "from . import HERE\nfrom .deep import less\n\n\n"
        "def value(text):\n    assert text != 'no', 'refused'\n    return HERE, less.K, text\n"
    ),
    # A package without __init__, and a slice, which is a constant from Python 3.14 on.
    "part/deep/less.py": "K = frozenset(('a', 'b', 'c')) and [7, 8][0:1][0]\n",
    "old.py": "print 'Python 2'\n",
}


def write(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def packed(folder: Path, pack: Path, *more: str, **environment: str) -> bytes:
    start = [sys.executable, "-B", "-s", "-S", str(TOOLS / "bytecode.py")]
    command = [*start, str(pack), str(folder), str(folder), *more]
    subprocess.run(command, check=True, env=environment)
    return pack.read_bytes()


def launch(roots: str, *arguments: str, folder: Path | None = None) -> tuple[str, str]:
    start = [sys.executable, "-B", "-s", "-S", str(TOOLS / "launch.py"), roots, *arguments]
    done = subprocess.run(start, capture_output=True, text=True, check=False, env={}, cwd=folder)
    return done.stdout, done.stderr


def test_modules_run_without_their_sources(tmp_path: Path) -> None:
    folder = write(tmp_path / "src")
    packed(folder, tmp_path / "p")
    for name in FILES:
        if "deep" not in name:
            (folder / name).unlink()
    out, error = launch("src=p", "main_module", "yes", folder=tmp_path)
    assert error == ""
    assert out == f"('{folder}/part/__init__.py', 7, 'yes')\n"


def test_a_pack_is_what_runs_and_errors_show_sources(tmp_path: Path) -> None:
    folder = write(tmp_path)
    packed(folder, tmp_path / "p")
    (folder / "part/deep/less.py").write_text("K = 8\n")
    assert launch(".=p", "main_module", "yes", folder=tmp_path)[0].endswith(", 7, 'yes')\n")
    assert launch(".", "main_module", "yes", folder=tmp_path)[0].endswith(", 8, 'yes')\n")

    assert launch(".=p", "main_module", "no", folder=tmp_path) == launch(
        ".", "main_module", "no", folder=tmp_path
    )
    assert "assert text != 'no'" in launch(".=p", "main_module", "no", folder=tmp_path)[1]


def test_the_pack_of_another_python_is_not_used(tmp_path: Path) -> None:
    folder = write(tmp_path)
    pack = packed(folder, tmp_path / "p")
    (tmp_path / "p").write_bytes(pack.replace(importlib.util.MAGIC_NUMBER, b"\1\2\r\n"))
    (folder / "part/deep/less.py").write_text("K = 8\n")
    assert launch(".=p", "main_module", "yes", folder=tmp_path)[0].endswith(", 8, 'yes')\n")


def test_of_two_modules_of_a_name_the_first_runs(tmp_path: Path) -> None:
    for name, text in (("a", "print(1)\n"), ("b", "print(2)\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "twice.py").write_text(text)
        packed(tmp_path / name, tmp_path / f"{name}.pack")
    both = [f"{name}={name}.pack" for name in "ab"]
    assert launch(":".join(both), "twice", folder=tmp_path) == ("1\n", "")
    assert launch(":".join(both[::-1]), "twice", folder=tmp_path) == ("2\n", "")


def test_sources_alone_decide_the_bytes(tmp_path: Path) -> None:
    """In another folder, with another HOME and other hashes, from a list in another order."""
    one, other = write(tmp_path / "one"), write(tmp_path / "two" / "deeper")
    first = packed(one, tmp_path / "a", PYTHONHASHSEED="1", HOME="/root")
    assert packed(other, tmp_path / "b", PYTHONHASHSEED="77", HOME="/x", LANG="de_DE") == first
    names = [str(one / name) for name in reversed(FILES)]
    (tmp_path / "list").write_text("\n".join([str(tmp_path / "c"), str(one), *names]))
    assert bytecode.main([f"@{tmp_path / 'list'}"]) == 0
    assert (tmp_path / "c").read_bytes() == first
    assert os.fsencode(tmp_path) not in first

    less = packed(one, tmp_path / "d", f"-{one / 'part'}")
    assert b"inner" in first
    assert b"part/" not in less
    assert b"old.py" not in first
