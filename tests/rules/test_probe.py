"""What the fingerprints of compilers are made of: each file that decides what they make."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mlftool.runtime import toolchain
from mlftool.targets import TARGETS
from rules.private.tools import probe

ARM = "arm-none-eabi"
# What each mistake of old left out: a file that is found before the compiler's own.
FILES = {
    "libgcc": ("libgcc.a", "-B{}"),
    "the C library": ("libc.a", "-L{}"),
    "start-up code": ("crti.o", "-B{}"),
    "a header of C": ("string.h", "-isystem{}"),
    "a header of intrinsics": ("arm_acle.h", "-isystem{}"),
}


def wrapper(folder: Path, program: str, options: str) -> Path:
    """A compiler that is a script of one line."""
    path = folder / Path(program).name
    path.write_text(f'#!/bin/sh\nexec {shutil.which(program)} {options} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = {name: TARGETS[name] for name in ("cortex-m4",)}
    monkeypatch.setattr(probe, "TARGETS", targets)
    probe.forget()


@pytest.mark.parametrize("what", FILES)
@pytest.mark.parametrize("compiler", ["cross", "host"])
def test_files_of_a_compiler_are_in_its_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str, what: str
) -> None:
    name, option = FILES[what]
    folder = tmp_path / "own"
    program = f"{ARM}-gcc" if compiler == "cross" else "gcc"
    if option == "-B{}" and compiler == "cross":
        # gcc looks there as it does in its own folder: one for each multilib.
        ask = [program, *TARGETS["cortex-m4"].cflags, "-print-multi-directory"]
        name = f"{subprocess.run(ask, capture_output=True, text=True).stdout.strip()}/{name}"
    (folder / name).parent.mkdir(parents=True)
    path = wrapper(tmp_path, program, option.format(folder))
    monkeypatch.setenv("CC", str(path))
    prints = set()
    for text in ("", "/* 1 */\n", "/* 2 */\n"):
        if text:
            (folder / name).write_text(text)
        probe.forget()
        found = probe.cross(ARM, str(path)) if compiler == "cross" else probe.host_compiler()
        assert found["path"] == str(path)
        prints.add(found["fingerprint"])
    assert len(prints) == 3, what


@pytest.mark.parametrize("compiler", ["cross", "host"])
def test_another_program_has_another_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    program = f"{ARM}-gcc" if compiler == "cross" else "gcc"
    prints = []
    for options in ("", "-O1", "-O1"):
        path = wrapper(tmp_path, program, options)
        monkeypatch.setenv("CC", str(path))
        probe.forget()
        found = probe.cross(ARM, str(path)) if compiler == "cross" else probe.host_compiler()
        prints.append(found["fingerprint"])
    assert prints[0] != prints[1] == prints[2]


@pytest.mark.parametrize("name", [n for n, t in TARGETS.items() if t.toolchain])
def test_libraries_are_those_that_the_processor_is_linked_with(name: str) -> None:
    """Not those of the compiler's default, which lie beside them: asked of gcc in another way."""
    target = TARGETS[name]
    program = toolchain.CROSS[target.toolchain]
    gcc = (str(shutil.which(program.name)), *program.flags, *target.cflags)
    line = [*gcc, "-print-libgcc-file-name"]
    libgcc = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    found = probe.libraries(*gcc)
    assert str(Path(libgcc).resolve()) in found
    assert {"libc.a", "libgcc.a"} <= {Path(path).name for path in found}
    assert any(path.endswith("/string.h") for path in probe.headers(*gcc))
