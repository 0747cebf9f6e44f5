"""Targets of kind llvm: object files that run here and on a board, the same bytes every time."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mlftool
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, write_tar
from mlftool.objects import machine_flags
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.targets.strings import parse

MODEL = Path(__file__).parents[2] / "examples" / "models" / "gesture_int8.onnx"
SAMPLES = np.load(MODEL.with_suffix(".npz"))
LIB = "codegen/host/lib"
needs_arm = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


def made(target: str, **options: object) -> Bundle:
    return compile_modules([ModuleSpec(MODEL, "m", target, **options)])


def feed() -> dict[str, np.ndarray]:
    (name,) = (t.name for t in read_interface(made("host")).inputs)
    return {name: SAMPLES[name][0]}


def run(bundle: Bundle, folder: Path) -> list[bytes]:
    write_tar(bundle, folder / "a.tar")
    return [v.tobytes() for v in mlftool.load(folder / "a.tar").module().run(feed()).values()]


FORMS = {
    "aot": {},
    "packed": {"interface_api": "packed", "system_lib": True},
    "graph": {"executor": "graph", "system_lib": True},
    "vm": {"executor": "vm"},
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS)
def test_objects_give_the_bits_of_sources(form: str, tmp_path: Path) -> None:
    bundle = made("llvm -mattr=+avx2", **FORMS[form])
    code = [n for n in bundle.files if n.startswith("codegen/host/") and "include" not in n]
    assert {Path(n).suffix for n in code} == {".o"}
    assert f"{LIB}/m_lib0.o" in code
    assert run(bundle, tmp_path) == run(made("host", **FORMS[form]), tmp_path)


def test_several_modules_share_a_registry(tmp_path: Path) -> None:
    specs = [ModuleSpec(MODEL, f"m{k}", "llvm", **o) for k, o in enumerate(FORMS.values())]
    write_tar(compile_modules(specs), tmp_path / "a.tar")
    archive = mlftool.load(tmp_path / "a.tar")
    results = {archive.module(name).run(feed()).popitem()[1].tobytes() for name in archive.modules}
    assert len(results) == 1


@needs_arm
def test_a_board_runs_objects(tmp_path: Path) -> None:
    bundle = made("llvm -mcpu=cortex-m4")
    interface = read_interface(bundle)
    elf = link_firmware(bundle, interface, BOARDS["cortex-m4"])
    result = run_on_board(elf, BOARDS["cortex-m4"], interface, [feed()])
    assert [v.tobytes() for v in result.outputs[0].values()] == run(made("host"), tmp_path)
    with pytest.raises(MlfError, match="is compiled for armv7l; this computer is"):
        run(bundle, tmp_path)


@needs_arm
@pytest.mark.parametrize("target", ["llvm -mcpu=cortex-m4", "llvm"])
def test_bytes_are_the_same_wherever_they_are_made(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(target)
    for name in ("a", "b/c"):
        (tmp_path / name).mkdir(parents=True)
        monkeypatch.setenv("TMPDIR", str(tmp_path / name))
        monkeypatch.chdir(tmp_path / name)
        assert made(target).files == first.files
    for name, data in first.files.items():
        if name.endswith(".o"):
            for folder in (b"/tmp/", os.fsencode(Path.home()), os.fsencode(tmp_path)):
                assert folder not in data


@needs_arm
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("llvm -mcpu=cortex-m4", ["Machine: ARM", "Tag_FP_arch: VFPv4-D16"]),
        ("llvm -mtriple=thumbv8.1m.main-none-eabi -mattr=-mve", ['Tag_CPU_name: "cortex-m55"']),
        ("llvm -mcpu=cortex-m3 -opt-level=s", ['Tag_CPU_name: "7-M"']),
    ],
)
def test_readelf_sees_the_machine(target: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.o").write_bytes(made(target).files[f"{LIB}/m_lib1.o"])
    done = subprocess.run(["readelf", "-hA", tmp_path / "a.o"], capture_output=True, text=True)
    said = " ".join(done.stdout.split())
    for word in words:
        assert word in said
    assert "Tag_MVE_arch" not in said


def test_the_user_names_the_compiler(tmp_path: Path) -> None:
    wrapper = tmp_path / "my cc"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\nexec gcc "$@"\n')
    wrapper.chmod(0o755)
    bundle = made("llvm -opt-level=1", cc=f"'{wrapper}' -DMINE")
    assert run(bundle, tmp_path) == run(made("host"), tmp_path)
    log = (tmp_path / "log").read_text()
    assert "-DMINE" in log
    assert "-O1" in log


def test_a_compiler_that_is_missing_or_refuses(tmp_path: Path) -> None:
    with pytest.raises(MlfError, match="compiler 'no-such-cc' is not installed"):
        made("llvm", cc="no-such-cc")
    with pytest.raises(MlfError, match="compiler 'cc' for target kind c"):
        made("host", cc="cc")
    with pytest.raises(MlfError, match=r"MLF0608.*module 'm' cannot be built with"):
        made("llvm -mattr=+nonsense", cc="gcc")


@pytest.mark.parametrize(
    ("target", "clang", "flags"),
    [
        ("llvm -mattr=+avx2,-sse3", False, ["-mavx2", "-mno-sse3", "-fPIC"]),
        ("llvm -mcpu=cortex-m55 -mattr=-mve", False, ["-mcpu=cortex-m55+nomve.fp+nomve"]),
        ("llvm -march=rv32imc -mattr=-c,+zba", False, ["-march=rv32im_zba"]),
        (
            "llvm -mtriple=thumbv7em-none-eabihf -mattr=+dsp",
            True,
            ["--target=thumbv7em-none-eabihf", "-Xclang", "-target-feature", "+dsp"],
        ),
    ],
)
def test_features_in_the_words_of_each_compiler(target: str, clang: bool, flags: list[str]) -> None:
    assert set(flags) <= set(machine_flags(parse(target), clang))
