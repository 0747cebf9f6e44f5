"""The wheel and the sdist hold everything, and every command runs from the wheel alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from shared import REPO
from wheels import build, setuptools_in, sources_in

from mlftool.cli import COMMANDS
from mlftool.version import VERSION

MODEL = REPO / "examples/models/gesture_int8.onnx"


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {n: file.read(n) for n in file.namelist() if ".dist-info/" not in n}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel, and the one that is made from the sdist."""
    folder = tmp_path_factory.mktemp("packaging")
    source = sources_in(folder)
    tools = setuptools_in(folder / "tools")
    sdist = build("sdist", source, folder / "sdist", tools)
    with tarfile.open(sdist) as file:
        # Ours, so without the filter that Debian's Python 3.11.2 does not know yet.
        file.extractall(folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    wheel = build("wheel", source, folder / "wheel", tools)
    return wheel, build("wheel", unpacked, folder / "again", tools)


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(built[0]) as file:
        file.extractall(folder)
    return folder


def python(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with the wheel and what it depends on, and nothing of this repository."""
    others = [p for p in sys.path if p and not Path(p).resolve().is_relative_to(REPO)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env |= {"PYTHONPATH": os.pathsep.join([str(site), *others])}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def test_every_file_is_in_the_wheel(built: tuple[Path, Path]) -> None:
    wheel = members(built[0])
    ours = {
        f"{inside}/{p.relative_to(REPO / folder).as_posix()}": p.read_bytes()
        for folder, inside in (("mlftool", "mlftool"), ("crt", "mlftool/_crt"))
        for p in (REPO / folder).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and p.name != "BUILD.bazel"
    }
    assert sorted(ours.keys() - wheel.keys()) == []
    assert {n: wheel[n] == data for n, data in ours.items()} == dict.fromkeys(ours, True)


def test_the_sdist_makes_the_same_wheel(built: tuple[Path, Path]) -> None:
    assert members(built[0]) == members(built[1])


def test_every_module_can_be_imported(installed: Path, tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil, mlftool\n"
        "found = [m.name for m in pkgutil.walk_packages(mlftool.__path__, 'mlftool.')]\n"
        "for name in found:\n"
        "    if not name.endswith('__main__'): importlib.import_module(name)\n"
        "print(len(found), mlftool.__file__)"
    )
    done = python(installed, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    count, file = done.stdout.split()
    assert int(count) > 250
    assert Path(file).is_relative_to(installed)


MANIFEST = """version: 1
models:
  gesture:
    model: gesture_int8.onnx
    targets: host
    test: {vectors: gesture_int8.npz}
"""
# command -> how it is called, one after the other in one folder
CALLS = {
    "compile": "gesture_int8.onnx -o g.tar --module-name g --verify"
    " --interface-api packed --runtime-crt-system-lib 1",
    "inspect": "g.tar",
    "run": "g.tar --inputs gesture_int8.npz --expect gesture_int8.npz",
    "runner": "g.tar -o runner.c",
    "extract": "g.tar --project g=vendor",
    "micro": "create project g.tar host",
    "verify": "g.tar",
    "sbom": "g.tar",
    "check": "models.yaml",
    "build": "models.yaml -o out",
    "bazel": "models.yaml --write BUILD.bazel",
    "schema": "",
    "tune": "gesture_int8.onnx -o tuned.json --target cortex-m4 --inputs gesture_int8.npz",
    "doctor": "--json",
    "bench": "gesture_int8.onnx --on host --runs 1 --repetitions 1",
    "profile": "gesture_int8.onnx",
    "size": "gesture_int8.onnx",
    "memmap": "gesture_int8.onnx",
    "trace": "gesture_int8.onnx",
    "diff": "gesture_int8.onnx g.tar --no-run",
    "completion": "bash",
    "explain": "MLF0301",
    "ops": "gesture_int8.onnx",
    "compare": "gesture_int8.onnx --on cortex-m4",
    "graph": "gesture_int8.onnx -o g.svg",
    "report": "gesture_int8.onnx -o g.html",
    "init": "started --model gesture_int8.onnx",
    "man": "profile",
    "library": "g.tar -o g.so",
    "quantize": "gesture_float32.onnx --data gesture_float32.npz -o q.onnx --samples 4",
}


def test_every_command_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    assert set(CALLS) == set(COMMANDS) - {"watch"}  # which ends when it is told to
    for suffix in (".onnx", ".npz"):
        shutil.copy(MODEL.with_suffix(suffix), tmp_path)
        shutil.copy(MODEL.with_name(f"gesture_float32{suffix}"), tmp_path)
    (tmp_path / "models.yaml").write_text(MANIFEST)
    (tmp_path / "WORKSPACE").touch()
    if shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None:
        pytest.skip("arm-none-eabi-gcc or qemu-system-arm is not installed")
    said = {c: python(installed, tmp_path, "-m", "mlftool", c, *CALLS[c].split()) for c in CALLS}
    failed = {c: done.stderr for c, done in said.items() if done.returncode != 0}
    assert failed == {}
    assert "equal to the reference within 0" in said["run"].stdout
    assert "properties" in json.loads(said["schema"].stdout)


def test_the_version_as_text_and_as_json(installed: Path, tmp_path: Path) -> None:
    plain = python(installed, tmp_path, "-m", "mlftool", "--version")
    assert plain.stdout == f"mlftool {VERSION}\n"
    for words in (("--version", "--json"), ("--json", "--version")):
        done = python(installed, tmp_path, "-m", "mlftool", *words)
        facts = json.loads(done.stdout)
        assert facts["schema_version"] == 1
        assert facts["mlftool"] == VERSION
        assert facts["formats"] == [1, 2, 3, 4, 5, 6, 7]
        assert {"python", "onnx", "numpy"} <= facts.keys()
