"""What an archive holds under runtime/ and templates/ is a runtime that builds and runs alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from crt_build import ROOT, SOURCES

from mlftool.compile import ModuleSpec, compile_modules

LIBRARIES = {folder.name for folder in SOURCES.iterdir()}
LINK_ORDER = (
    *("aot_executor_module", "aot_executor", "graph_executor_module", "graph_executor"),
    *("common", "memory"),
)
MODEL = ROOT / "examples/models/digits_int8.onnx"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked archive, and an application's config and platform made of its templates."""
    folder = tmp_path_factory.mktemp("project")
    for name, data in compile_modules([ModuleSpec(MODEL, "digits")]).files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for name in ("crt_config.h", "platform.c"):
        text = (folder / f"templates/{name}.template").read_text()
        # The check of the order of frees shows that the executors free in reverse.
        text = re.sub(r"/\* (#define TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK) \*/", r"\1", text)
        (folder / "app").mkdir(exist_ok=True)
        (folder / "app" / name).write_text(text)
    return folder


def run_programs(project: Path, libraries: Path) -> None:
    """The tests of the executors, on the stack allocator of the template."""
    archives = [str(libraries / f"lib{name}.a") for name in LINK_ORDER]
    for name in ("graph_executor", "aot_executor"):
        program = libraries / f"{name}_test"
        command = ["gcc", "-std=c99", f"-I{project}/runtime/include", f"-I{project}/app"]
        command += [f"{ROOT}/tests/crt/{name}.c", f"{project}/app/platform.c", "-o", str(program)]
        command += archives
        subprocess.run(command, check=True)
        done = subprocess.run([program], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="apt-get install cmake")
def test_cmake_builds_the_tree_of_an_archive(project: Path) -> None:
    build = project / "cmake"
    config = f"-DCRT_CONFIG_PATH={project / 'app'}"
    command: list[str | Path] = ["cmake", "-S", project / "runtime", "-B", build, config]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    assert {p.name for p in build.glob("*.a")} == {f"lib{name}.a" for name in LIBRARIES}
    run_programs(project, build)


@pytest.mark.skipif(shutil.which("make") is None, reason="apt-get install make")
def test_make_builds_the_tree_of_an_archive(project: Path) -> None:
    build = project / "make"
    command = ["make", "-C", str(project / "runtime"), f"BUILD_DIR={build}"]
    command += [f"CRT_CONFIG_PATH={project / 'app'}"]
    subprocess.run(command, check=True, capture_output=True)
    assert {p.name for p in build.glob("*.a")} == {f"lib{name}.a" for name in LIBRARIES}
    run_programs(project, build)


@pytest.mark.skipif(shutil.which("make") is None, reason="apt-get install make")
def test_make_says_what_is_missing(project: Path) -> None:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = ["make", "-C", project / "runtime", f"BUILD_DIR={project / 'none'}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "set CRT_CONFIG_PATH to the directory that holds crt_config.h" in done.stderr
