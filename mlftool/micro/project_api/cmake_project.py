"""Projects that CMake builds: what the templates of this folder's neighbour share.

A project has a copy of this file and needs the standard library only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from mlftool.micro.project_api import server
    from mlftool.micro.project_api.line_process import LineProcess
else:  # the copy of a project, or a template's neighbour
    import server
    from line_process import LineProcess

ARCHIVE = "model.tar"
SETTINGS = "project.json"
_SERVER = "src/runtime/crt/microtvm_rpc_server"
_OWN = Path(__file__).resolve().parent
_COPIED = ("server.py", "cmake_project.py", "line_process.py")

COMMON_OPTIONS = (
    server.ProjectOption(
        "project_type",
        optional=["generate_project"],
        choices=["host_driven"],
        default="host_driven",
        help="what the firmware does: it waits for a host",
    ),
    server.ProjectOption(
        "workspace_size_bytes",
        optional=["generate_project"],
        type="int",
        help="memory for what a host allocates, and for executors",
    ),
    server.ProjectOption(
        "packet_size_bytes",
        optional=["generate_project"],
        type="int",
        default=2048,
        help="the longest message of the line; the server takes 11/4 of it",
    ),
    server.ProjectOption(
        "verbose", optional=["build"], type="bool", default=False, help="show what CMake says"
    ),
    server.ProjectOption(
        "compile_definitions",
        optional=["generate_project"],
        help="more definitions of the C compiler, such as -DA=1 -DB",
    ),
    server.ProjectOption(
        "warning_as_error", optional=["generate_project"], type="bool", help="fail for warnings"
    ),
)


@dataclass(frozen=True)
class Platform:
    """What a template adds to the model and the C runtime: sources of its own by their names in
    the project's src/, and what the compiler and the linker are told."""

    sources: Mapping[str, Path]
    flags: Sequence[str] = ("-O2",)
    link: Sequence[str] = ()
    definitions: Mapping[str, int] = field(default_factory=dict)
    workspace_bytes: int = 2 << 20
    compiler: str = ""  # a cross compiler's command; "" is CMake's own
    compiler_flags: Sequence[str] = ()  # that every use of it needs
    command: Sequence[str] = ()  # what runs the program: its path follows


class CMakeHandler(server.ProjectAPIHandler):
    """A template, and the projects that it generates. Derive from it and say what the platform
    is: `platform_name`, `options` and `platform`."""

    platform_name = "cmake"
    options: tuple[server.ProjectOption, ...] = ()
    timeouts = server.TransportTimeouts()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._line: LineProcess | None = None

    def platform(self, options: Mapping[str, Any]) -> Platform:
        """For generate_project."""
        raise NotImplementedError

    def run_command(self, options: Mapping[str, Any]) -> list[str]:
        """For open_transport: a program whose standard input and output are the line."""
        return [*self._settings()["command"], str(self.folder / "build/main")]

    def server_info_query(self, tvm_version: str) -> server.ServerInfo:
        archive = self.folder / ARCHIVE
        is_template = not archive.exists()
        path = "" if is_template else archive
        return server.ServerInfo(
            self.platform_name, is_template, path, (*COMMON_OPTIONS, *self.options)
        )

    # generate

    def generate_project(
        self,
        model_library_format_path: Path,
        standalone_crt_dir: Path,
        project_dir: Path,
        options: dict[str, Any],
    ) -> None:
        platform = self.platform(options)
        if project_dir.exists():
            raise server.ProjectError(f"{project_dir} exists already")
        project_dir.mkdir(parents=True)
        try:
            shutil.copy(model_library_format_path, project_dir / ARCHIVE)
            extract(model_library_format_path, project_dir / "model")
            _check_functions(project_dir / "model/codegen/host", model_library_format_path)
            self._copy(platform, standalone_crt_dir, project_dir)
            _write_config(project_dir, standalone_crt_dir, options)
            _write_cmake(project_dir, platform, options)
            settings = {"options": options, "command": list(platform.command)}
            (project_dir / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n")
        except BaseException:
            shutil.rmtree(project_dir, ignore_errors=True)
            raise

    def _copy(self, platform: Platform, standalone_crt: Path, project: Path) -> None:
        """The runtime of the archive, the platform's sources, and this server."""
        runtime = project / "model/runtime"
        for root in (runtime, standalone_crt):
            if any((root / _SERVER).glob("*.c")):
                break
        else:
            text = f"neither the archive nor {standalone_crt} has the C runtime's RPC server"
            raise server.ProjectError(text)
        for part in ("include", "src"):
            shutil.copytree(root / part, project / "crt" / part)
        for name, path in platform.sources.items():
            target = project / "src" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        for path in (*(_OWN / name for name in _COPIED), *self.folder.glob("*.py")):
            shutil.copy(path, project / path.name)
        for path in self.folder.glob("launch_microtvm_api_server.*"):
            shutil.copy(path, project / path.name)

    def _settings(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / SETTINGS).read_text())
        return found

    # build, flash

    def build(self, options: dict[str, Any]) -> None:
        self._require_project("build")
        build = self.folder / "build"
        build.mkdir(exist_ok=True)
        found = [self.folder / name for name in ("toolchain.cmake", "src/toolchain.cmake")]
        given = [f"-DCMAKE_TOOLCHAIN_FILE={path}" for path in found if path.exists()][:1]
        _run(["cmake", "-S", str(self.folder), "-B", str(build), *given], options)
        _run(["cmake", "--build", str(build)], options)

    def flash(self, options: dict[str, Any]) -> None:
        """Nothing, where the computer or a simulator runs the program."""
        self._require_project("flash")

    def _require_project(self, what: str) -> None:
        if not (self.folder / ARCHIVE).exists():
            raise server.ProjectError(f"{what}: this is a template; generate a project of it")

    # transport

    def open_transport(self, options: dict[str, Any]) -> server.TransportTimeouts:
        self._require_project("open_transport")
        self.close_transport()
        command = self.run_command(options)
        if not (self.folder / "build/main").exists():
            raise server.ProjectError("the project has not been built")
        try:
            self._line = LineProcess(command, watched=True)
        except OSError as error:
            raise server.ProjectError(f"{command[0]}: {error.strerror}") from None
        os.set_blocking(self._descriptors()[1], False)
        return self.timeouts

    def close_transport(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _descriptors(self) -> tuple[int, int]:
        if self._line is None:
            raise server.TransportClosedError("the line is not open")
        return self._line.read_fd, self._line.write_fd

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        return server.read_with_timeout(self._descriptors()[0], n, timeout_sec)

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        server.write_with_timeout(self._descriptors()[1], data, timeout_sec)


def crt_root() -> Path:
    """The C sources of the installation that this file is of: a template's, not a project's."""
    package = _OWN.parents[1]
    return next(p for p in (package.parent / "crt", package / "_crt") if p.is_dir())


def server_sources() -> dict[str, Path]:
    """The program with `main`, and the headers of what a platform defines, by their names in
    src/."""
    names = ("rpc/rpc_line.h", "rpc/rpc_main.c", "rpc/rpc_platform.c", "platform/platform.h")
    return {Path(name).name: crt_root() / name for name in names}


def extract(archive: Path, folder: Path) -> None:
    """The plain files of an archive that is not trusted. Raises InputError."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if member.isdir():
                    continue
                if not member.isreg() or name.is_absolute() or ".." in name.parts:
                    raise server.InputError(f"{archive}: {member.name!r} is not a plain file")
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                stream = tar.extractfile(member)
                assert stream is not None
                target.write_bytes(stream.read())
    except (OSError, tarfile.TarError, EOFError) as error:
        raise server.InputError(f"{archive} cannot be read: {error}") from None


def _check_functions(code: Path, archive: Path) -> None:
    """A host finds functions by the system library, without which the project does not link."""
    files = [f for f in code.rglob("*") if f.suffix in (".c", ".cc", ".cpp", ".o")]
    if not any(b"TVMSystemLibEntryPoint" in f.read_bytes() for f in files):
        text = "has no system library, by which a host finds its functions; compile it with"
        text = f"{archive} {text} --runtime-crt-system-lib 1, and for aot --interface-api packed"
        raise server.InputError(text)


def _run(command: Sequence[str], options: Mapping[str, Any]) -> None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
    except OSError as error:
        raise server.ProjectError(f"{command[0]}: {error.strerror}; is it installed?") from None
    if options.get("verbose") or done.returncode != 0:
        print(done.stdout, file=sys.stderr)
    if done.returncode != 0:
        text = f"{command[0]} failed with status {done.returncode}: {_reason(done.stdout)}"
        raise server.ProjectError(text)


def _reason(said: str) -> str:
    """The line that says most of why a build failed: what a linker says stands before the line
    with "error" that every linker ends with."""
    lines = said.splitlines()
    for line in lines:
        if "overflowed by" in line:
            hint = "workspace_size_bytes and packet_size_bytes of create say what is for a host"
            return f"the program is larger than its board; {hint}: {line.strip()}"
    for word in ("error:", "undefined reference", "rror"):
        for line in lines:
            if word in line and not line.startswith("collect2"):
                return line.strip()
    return (lines or [""])[0].strip()


def _write_config(project: Path, standalone_crt: Path, options: Mapping[str, Any]) -> None:
    """crt_config.h as the archive's template has it, with room for executors side by side."""
    name = "templates/crt_config.h.template"
    template = next(
        (p for p in (project / "model" / name, standalone_crt / name) if p.exists()), None
    )
    if template is None:
        raise server.ProjectError(f"neither the archive nor {standalone_crt} has {name}")
    limits = {
        "TVM_CRT_MAX_REGISTERED_MODULES": 4,
        "TVM_CRT_MAX_ARGS": 64,
        "TVM_CRT_MAX_NDIM": 8,  # as where mlftool itself builds firmware
        "TVM_CRT_MAX_PACKET_SIZE_BYTES": options["packet_size_bytes"],
    }
    lines = []
    for line in template.read_text().splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "#define" and words[1] in limits:
            line = f"#define {words[1]} {limits[words[1]]}"
        lines.append(line)
    (project / "crt_config").mkdir()
    (project / "crt_config/crt_config.h").write_text("\n".join(lines) + "\n")


def _write_cmake(project: Path, platform: Platform, options: Mapping[str, Any]) -> None:
    more = (options.get("compile_definitions") or "").split()
    if wrong := [word for word in more if not re.fullmatch(r"-D\w+(=[\w.+-]*)?", word)]:
        raise server.InputError(f"compile_definitions: got {wrong[0]!r}, expected -DNAME=VALUE")
    workspace = options.get("workspace_size_bytes", platform.workspace_bytes)
    definitions = {**platform.definitions, "TVM_WORKSPACE_SIZE_BYTES": workspace}
    folders = sorted(
        {str(PurePosixPath("src") / PurePosixPath(n).parent) for n in platform.sources}
    )
    words = {
        "folders": "\n  ".join(folders),
        "flags": " ".join([*platform.flags, *more]),
        "warnings": "-Wall -Werror" if options.get("warning_as_error") else "-w",
        "definitions": "\n  ".join(f"{name}={value}" for name, value in definitions.items()),
        "link": " ".join(platform.link),
    }
    text = _CMAKE
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    (project / "CMakeLists.txt").write_text(text)
    if platform.compiler:
        given = " ".join(platform.compiler_flags)
        text = _TOOLCHAIN.replace("@compiler@", platform.compiler).replace("@flags@", given)
        (project / "toolchain.cmake").write_text(text)


_CMAKE = """# Firmware that a host drives: the model, the C runtime of its archive, and src/.
cmake_minimum_required(VERSION 3.13)
project(driven C)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_C_FLAGS_RELEASE "")
  set(CMAKE_BUILD_TYPE Release)
endif()

file(GLOB MODEL CONFIGURE_DEPENDS model/codegen/host/src/*.c model/codegen/host/lib/*.o)
file(GLOB_RECURSE RUNTIME CONFIGURE_DEPENDS crt/src/*.c)
file(GLOB_RECURSE PLATFORM CONFIGURE_DEPENDS src/*.c)
add_executable(main ${MODEL} ${RUNTIME} ${PLATFORM})
target_include_directories(main PRIVATE
  crt_config
  crt/include
  model/codegen/host/include
  @folders@)
target_compile_definitions(main PRIVATE
  @definitions@)
# Results are the same bits on every target only without fused multiply-add.
target_compile_options(main PRIVATE
  -std=gnu11 @warnings@ @flags@ -ffp-contract=off)
# A host finds functions by name: nothing else refers to them.
target_link_options(main PRIVATE -Wl,-u,TVMSystemLibEntryPoint @flags@ @link@)
target_link_libraries(main PRIVATE m)
include(src/platform.cmake OPTIONAL)
"""
_TOOLCHAIN = """set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER @compiler@)
set(CMAKE_C_FLAGS_INIT "@flags@")
set(CMAKE_EXECUTABLE_SUFFIX_C "")
# Without a linker script nothing but libraries can be made to try the compiler with.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
"""
