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
    spec = ModuleSpec(MODEL, "digits", interface_api="packed")
    for name, data in compile_modules([spec]).files.items():
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


# An application as CMake people write it: the module in a library of its own.
CMAKE_PROJECT = """cmake_minimum_required(VERSION 3.13)
project(application C)
set(CRT_CONFIG_PATH "${CMAKE_CURRENT_LIST_DIR}/app")
add_subdirectory(runtime)
file(GLOB sources "${CMAKE_CURRENT_LIST_DIR}/codegen/host/src/*.c")
add_library(model STATIC ${sources})
target_include_directories(model PUBLIC codegen/host/include)
target_link_libraries(model PUBLIC common m)
target_link_options(model INTERFACE -Wl,-u,TVMSystemLibEntryPoint)
add_executable(application app/main.c app/platform.c)
target_link_libraries(application model graph_executor common memory)
"""
MAIN = """#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/packed_func.h>
int main(void) {
  TVMPackedFunc pf;
  return TVMPlatformInitialize() || TVMInitializeRuntime() ||
         TVMPackedFunc_InitGlobalFunc(&pf, "runtime.SystemLib", NULL) || pf.Call(&pf) ||
         TVMPackedFunc_InitModuleFunc(&pf, TVMArgs_AsModuleHandle(&pf.ret_value, 0),
                                      "tvmgen_digits_run", NULL);
}
"""


@pytest.mark.skipif(shutil.which("cmake") is None, reason="apt-get install cmake")
def test_a_system_library_in_a_static_library_is_found(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "runtime", tmp_path / "runtime")
    shutil.copytree(project / "app", tmp_path / "app")
    spec = ModuleSpec(MODEL, "digits", interface_api="packed", system_lib=True)
    for name, data in compile_modules([spec]).files.items():
        if name.startswith("codegen/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_PROJECT)
    (tmp_path / "app/main.c").write_text(MAIN)
    subprocess.run(["cmake", "-S", ".", "-B", "out"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", "out"], cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run([tmp_path / "out/application"], check=False).returncode == 0


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
