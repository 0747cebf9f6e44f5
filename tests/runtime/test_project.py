"""`mlftool extract --project`: an archive as a project that CMake and Make build, run, compared."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tvm_archives import X, Y, graph_archive, struct_archive

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, write_tar
from mlftool.mlf.archive import read
from mlftool.runtime.descriptor import runner_c
from mlftool.runtime.interface import interface_of
from mlftool.runtime.project import project_files
from mlftool.runtime.runner import run_on_host

pytestmark = pytest.mark.sampled(4)

ROOT = Path(os.path.abspath(__file__)).parents[2]
MODEL = ROOT / "examples/models/gesture_int8.onnx"


def ours(**options: object) -> Bundle:
    return compile_modules([ModuleSpec(MODEL, "gesture", **options)])


ARCHIVES = {
    "aot": ours(),
    "packed": ours(interface_api="packed", system_lib=True),
    "graph": ours(executor="graph", system_lib=True),
    "objects": ours(target="llvm"),
    "several": compile_modules(
        [
            ModuleSpec(MODEL, "gesture", executor="graph", system_lib=True),
            ModuleSpec(MODEL, "second", interface_api="packed", system_lib=True),
        ]
    ),
    "tvm_graph": graph_archive(5),
    "tvm_struct": struct_archive(),
}
RUNTIME = {"packed", "graph", "several", "tvm_graph", "tvm_struct"}
# The application: the test runner, which calls the module as its descriptor says.
CMAKE = """cmake_minimum_required(VERSION 3.13)
project(application C)
add_subdirectory(model)
add_executable(application runner_module.c {sources})
target_include_directories(application PRIVATE {crt}/runner {crt}/platform {includes})
target_link_libraries(application model)
"""


def application(name: str, folder: Path) -> list[str]:
    """Unpacks the project, writes a descriptor beside it; the other sources of a program."""
    archive, tar = read(ARCHIVES[name]), folder / "archive.tar"
    write_tar(ARCHIVES[name], tar)
    assert main(["extract", str(tar), "--project", f"model={folder / 'model'}"]) == 0
    module = "default" if name.startswith("tvm") else "gesture"
    interface, record = interface_of(archive, module), archive.module(module)
    (folder / "runner_module.c").write_text(runner_c(interface, record, False))
    files = ["runner/runner.c", "platform/host/platform.c"]
    assert (folder / "model/runtime").exists() == (name in RUNTIME)
    files += ["runner/guard.c", "platform/host/tvm_platform.c"] if name in RUNTIME else []
    return [str(ROOT / "crt" / file) for file in files]


def check(name: str, program: Path) -> None:
    """The program gives what the reference says."""
    interface = interface_of(read(ARCHIVES[name]), "default" if "tvm" in name else "gesture")
    if name.startswith("tvm"):
        samples, expected = [{interface.inputs[0].name: X}], Y
    else:
        with np.load(MODEL.with_suffix(".npz")) as vectors:
            samples = [{"acceleration": vectors["acceleration"][0]}]
            expected = vectors["probability"][0]
    (outputs,) = run_on_host(program, interface, samples).outputs
    np.testing.assert_array_equal(outputs[interface.outputs[0].name], expected)


@pytest.mark.sampled(4)
@pytest.mark.skipif(shutil.which("cmake") is None, reason="apt-get install cmake")
@pytest.mark.parametrize("name", ["aot", "objects", "several", "tvm_graph"])
def test_cmake(name: str, tmp_path: Path) -> None:
    sources = " ".join(application(name, tmp_path))
    includes = "model/config" if name in RUNTIME else ""
    text = CMAKE.format(sources=sources, crt=ROOT / "crt", includes=includes)
    (tmp_path / "CMakeLists.txt").write_text(text)
    for command in (["-S", ".", "-B", "out"], ["--build", "out"]):
        done = subprocess.run(["cmake", *command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    check(name, tmp_path / "out/application")


@pytest.mark.sampled(4)
@pytest.mark.skipif(shutil.which("make") is None, reason="apt-get install make")
@pytest.mark.parametrize("name", ARCHIVES)
def test_make(name: str, tmp_path: Path) -> None:
    """As the comment at the top of the Makefile says, with flags of one's own where gcc takes long
    to optimise the runtime."""
    sources = application(name, tmp_path)
    flags = ["CFLAGS=-O0"] if name in RUNTIME - {"packed"} else []
    done = subprocess.run(
        ["make", "-C", "model", f"BUILD_DIR={tmp_path / 'out'}", *flags],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    includes = [f"-Imodel/{n}" for n in ("include", "runtime/include", "config")]
    includes += [f"-I{ROOT}/crt/{n}" for n in ("runner", "platform")]
    libraries = ["-lmodel"]
    if name in RUNTIME:
        libraries += ["-laot_executor", "-lgraph_executor", "-lcommon", "-lmemory"]
        libraries += ["-Wl,-u,TVMSystemLibEntryPoint"] if name != "tvm_struct" else []
    command = ["gcc", *includes, "runner_module.c", *sources, "-Lout", *libraries, "-lm"]
    subprocess.run([*command, "-o", "application"], cwd=tmp_path, check=True)
    check(name, tmp_path / "application")
    subprocess.run(["make", "-C", "model", f"BUILD_DIR={tmp_path / 'out'}", "clean"],
                   cwd=tmp_path, check=True, capture_output=True)  # fmt: skip
    assert not list((tmp_path / "out").rglob("*.c.o"))
    assert bool(list((tmp_path / "model/lib").glob("*.o"))) == (name == "objects")


CROSS = {
    "cortex-m4": ("arm-none-eabi-gcc", "c"),
    "rv32imc": ("riscv64-unknown-elf-gcc", "c"),
    "aarch64": ("aarch64-linux-gnu-gcc", "packed"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("tool", ["cmake", "make"])
@pytest.mark.parametrize("target", CROSS)
def test_a_project_for_another_processor_finds_its_compiler(
    target: str, tool: str, tmp_path: Path
) -> None:
    compiler, interface = CROSS[target]
    missing = [name for name in (compiler, tool) if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {missing}")
    for name, data in project_files(ours(target=target, interface_api=interface), "model").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    commands = [["make", "-j2"]]
    if tool == "cmake":
        given = "-DCMAKE_TOOLCHAIN_FILE=toolchain.cmake"
        commands = [["cmake", given, "-S", ".", "-B", "build"], ["cmake", "--build", "build"]]
    for command in commands:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    command = [f"{compiler.removesuffix('gcc')}nm", "build/libmodel.a"]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "T tvmgen_gesture_run" in listed.stdout


def test_a_board_s_flags_are_in_the_project() -> None:
    files = project_files(ours(target="cortex-m4"), "model")
    flags = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
    assert f"MACHINE ?= {flags}\n".encode() in files["Makefile"]
    assert f'set(MLF_MACHINE "{flags}")'.encode() in files["CMakeLists.txt"]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="apt-get install cmake")
@pytest.mark.parametrize("build_type", ["", "Debug", "Release"])
@pytest.mark.parametrize(("optimize", "flag"), [("speed", "-O2"), ("size", "-Os")])
def test_a_project_is_optimised_whatever_the_build_type(
    optimize: str, flag: str, build_type: str, tmp_path: Path
) -> None:
    files = project_files(ours(optimize=optimize), "model")
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    given = ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DCMAKE_BUILD_TYPE={build_type}"]
    command = ["cmake", *given, "-S", ".", "-B", "build"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
    units = [c["command"] for c in commands if "gesture_lib" in c["file"]]
    assert units
    levels = [[w for w in c.split() if w.startswith("-O")][-1] for c in units]
    assert set(levels) == {flag}
    assert f"CFLAGS ?= {flag}\n".encode() in files["Makefile"]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="apt-get install cmake")
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], {"speed": ["-O2"], "size": ["-Os"]}),
        (["-DMLF_OPTIMISE=-O3 -g"], {"speed": ["-O3"], "size": ["-O3"]}),
        (["-DMLF_OPTIMISE="], {"speed": [], "size": []}),
    ],
)
def test_each_of_two_projects_is_optimised_as_it_is_made(
    given: list[str], wanted: dict[str, list[str]], tmp_path: Path
) -> None:
    """The second got the first one's level, and an old build folder kept that of the old model."""
    text = "cmake_minimum_required(VERSION 3.13)\nproject(app C)\n"
    (tmp_path / "CMakeLists.txt").write_text(f"{text}add_subdirectory(a)\nadd_subdirectory(b)\n")
    command = ["cmake", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *given, "-S", ".", "-B", "build"]
    for kinds in (("size", "speed"), ("speed", "size")):  # the second time in the same build folder
        for folder, kind in zip("ab", kinds, strict=True):
            for name, data in project_files(ours(optimize=kind), folder).items():
                (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / folder / name).write_bytes(data)
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        units = json.loads((tmp_path / "build/compile_commands.json").read_text())
        for folder, kind in zip("ab", kinds, strict=True):
            commands = [
                u["command"] for u in units if u["file"].startswith(f"{tmp_path}/{folder}/")
            ]
            assert commands
            assert all(re.findall(r" (-O\S*)", c) == wanted[kind] for c in commands)


def test_archives_of_two_kinds_are_compiled_for_speed() -> None:
    specs = [ModuleSpec(MODEL, "fast"), ModuleSpec(MODEL, "small", optimize="size")]
    assert b"CFLAGS ?= -O2\n" in project_files(compile_modules(specs), "model")["Makefile"]


@pytest.mark.parametrize(("optimize", "flag"), [("speed", "-O2"), ("size", "-Os")])
def test_the_archive_s_readme_says_how_to_optimise(optimize: str, flag: str) -> None:
    page = ours(optimize=optimize).text("README.md")
    assert f"cc -std=c99 {flag} -ffp-contract=off" in page


@pytest.mark.parametrize("member", ["a b.c", "$(shell id).c", "a;b.c", '"x.c', "a#.c"])
def test_names_that_build_files_would_misread_are_refused(member: str) -> None:
    files = {**graph_archive(5).files, f"codegen/host/src/{member}": b""}
    with pytest.raises(MlfError, match="cannot be named in a Makefile"):
        project_files(Bundle(files), "model")


def files_below(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("option", ["--all", "--project"])
def test_extracting_again_leaves_nothing_of_the_old_archive(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, fresh = tmp_path / "out", tmp_path / "fresh"
    for name in ("several", "aot"):
        write_tar(ARCHIVES[name], tmp_path / f"{name}.tar")

    def extract(name: str, to: Path) -> None:
        value = str(to) if option == "--all" else f"model={to}"
        assert main(["extract", str(tmp_path / f"{name}.tar"), option, value]) == 0

    extract("several", folder)
    (old,) = folder.rglob("second_lib1.c")
    (changed,) = folder.rglob("second_lib0.c")
    changed.write_text("mine")
    (folder / "notes.txt").write_text("mine")
    capsys.readouterr()
    extract("aot", folder)
    said = capsys.readouterr().err
    assert said.startswith(f"{changed}: warning[MLF0402]: ")
    assert said.count("warning") == 1
    assert not old.exists()
    extract("aot", fresh)
    kept = {changed.relative_to(folder).as_posix(), "notes.txt"}
    assert files_below(folder) == files_below(fresh) | kept
    assert not [p for p in folder.rglob("*") if p.is_dir() and not any(p.iterdir())]


def test_a_forged_record_reaches_nothing_outside(tmp_path: Path) -> None:
    write_tar(ARCHIVES["aot"], tmp_path / "a.tar")
    (tmp_path / "out").mkdir()
    (tmp_path / "precious").write_text("")
    (tmp_path / "out/link").symlink_to(tmp_path / "precious")
    digest = hashlib.sha256(b"").hexdigest()
    names = ["../precious", str(tmp_path / "precious"), "link", "x/../../precious"]
    lines = [f"{digest}  {name}\n" for name in names]
    (tmp_path / "out/.mlftool-extracted").write_text("".join(lines) + "rubbish\n")
    assert main(["extract", str(tmp_path / "a.tar"), "--all", str(tmp_path / "out")]) == 0
    assert (tmp_path / "precious").exists()
    assert (tmp_path / "out/link").is_symlink()


@pytest.mark.parametrize("text", ["m", "m=dir", "memory=dir", "=dir", "a b=dir", "$(x)=dir"])
def test_bad_names_of_projects(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tar(graph_archive(5), tmp_path / "a.tar")
    assert main(["extract", str(tmp_path / "a.tar"), "--project", text]) == 2
    assert "error[MLF0400]" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["", "{", '{"schema_version": 1}', "workspace_io", "target"])
@pytest.mark.parametrize("ending", ["inspect", "extract --project p=out", "run", "size"])
def test_a_damaged_description_is_refused_by_the_archive_s_name(
    change: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever command reads it, each line says in which file and member the damage is."""
    files = dict(ARCHIVES["aot"].files)
    (name,) = (n for n in files if n.endswith("aot/gesture.json"))
    described = json.loads(files[name])
    files[name] = (
        json.dumps({**described, change: [0]}).encode() if change in described else change.encode()
    )
    sums = {n: hashlib.sha256(d).hexdigest() for n, d in files.items() if "checksums" not in n}
    (summed,) = files.keys() - sums.keys()
    files[summed] = "".join(f"{d}  {n}\n" for n, d in sorted(sums.items())).encode()
    write_tar(Bundle(files), tmp_path / "a.tar")
    command, *more = ending.replace("out", str(tmp_path / "out")).split()
    assert main([command, str(tmp_path / "a.tar"), *more]) == 2
    lines = capsys.readouterr().err.splitlines()
    wanted = f"{tmp_path / 'a.tar'}: error[MLF0607]: {name}"
    assert [line for line in lines if not line.startswith("help: ")]
    assert all(line.startswith((wanted, "help: ")) for line in lines), lines
