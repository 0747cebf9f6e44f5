"""Projects of the templates that come with mlftool: generated, built, flashed and driven."""

from __future__ import annotations

import importlib
import io
import json
import os
import pty
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from firmware import INT8
from shared import OWN, REPO

import mlftool
from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.micro import MicroError, Session, create_aot_executor
from mlftool.micro.project import (
    GeneratedProject,
    generate_project,
    generate_project_from_mlf,
    get_microtvm_template_projects,
)
from mlftool.mlf import Bundle, read_tar, write_tar
from mlftool.mlf.runtime_tree import crt_root

IMAGE = np.arange(-32, 32, dtype=np.int8).reshape(1, 1, 8, 8)
pytestmark = [
    pytest.mark.skipif(shutil.which("cmake") is None, reason="apt-get install cmake"),
    pytest.mark.sampled(6),
]


def archive(folder: Path, target: str = "host", **options: object) -> Path:
    given = {"interface_api": "packed", "system_lib": True, **options}
    path = folder / f"{target}.tar"
    write_tar(compile_modules([ModuleSpec(INT8, "d", target, **given)]), path)  # type: ignore[arg-type]
    return path


def expected(tar: Path) -> bytes:
    result = mlftool.load(tar).module().run({"image": IMAGE})
    return np.asarray(result["probability"]).tobytes()


def inferred(project: GeneratedProject) -> bytes:
    with Session(project.transport()) as session:
        module = create_aot_executor(session, "d")
        module.set_input(0, IMAGE)
        module.run()
        return module.get_output(0).numpy().tobytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An archive and a project of it that is built, for this computer."""
    folder = tmp_path_factory.mktemp("made")
    tar = archive(folder)
    template = get_microtvm_template_projects("host")
    with generate_project_from_mlf(template, folder / "project", tar) as project:
        project.build()
    return tar, folder / "project"


def test_a_host_project_gives_the_hosts_bits(made: tuple[Path, Path]) -> None:
    tar, folder = made
    with GeneratedProject.from_directory(folder) as project:
        project.flash()
        for _ in range(2):  # the line is opened again
            assert inferred(project) == expected(tar)
        info = project.info()
    assert (info["platform_name"], info["is_template"]) == ("host", False)
    assert Path(info["model_library_format_path"]).read_bytes() == tar.read_bytes()


def test_the_runtime_is_the_archives(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Not the installation's, which the client names, too."""
    files = dict(read_tar(made[0]).files)
    name = "runtime/src/runtime/crt/microtvm_rpc_server/rpc_server.c"
    files[name] += b"/* of this archive */\n"
    write_tar(Bundle(files), tmp_path / "own.tar")
    template = get_microtvm_template_projects("host")
    generate_project_from_mlf(template, tmp_path / "own", tmp_path / "own.tar").close()
    text = (tmp_path / "own/crt" / name.removeprefix("runtime/")).read_bytes()
    assert text == files[name]
    bare = {n: data for n, data in files.items() if not n.startswith("runtime/")}
    write_tar(Bundle(bare), tmp_path / "bare.tar")
    generate_project_from_mlf(template, tmp_path / "bare", tmp_path / "bare.tar").close()
    installed = crt_root() / name.removeprefix("runtime/")
    copied = tmp_path / "bare/crt" / name.removeprefix("runtime/")
    assert copied.read_bytes() == installed.read_bytes()


def test_a_project_stands_alone(made: tuple[Path, Path], tmp_path: Path) -> None:
    """Moved elsewhere, with a Python that has no mlftool."""
    moved = tmp_path / "moved"
    shutil.copytree(made[1], moved, ignore=shutil.ignore_patterns("build"))
    bare = [sys.executable, "-I", "-S"]
    assert subprocess.run([*bare, "-c", "import mlftool"], capture_output=True).returncode == 1
    launcher = moved / "launch_microtvm_api_server.sh"
    launcher.write_text(f'#!/bin/sh\nexec {" ".join(bare)} "$@"\n')
    launcher.chmod(0o755)
    with GeneratedProject.from_directory(moved, {"verbose": "true"}) as project:
        project.build()
        assert inferred(project) == expected(made[0])


def test_a_project_of_a_module_that_was_built(tmp_path: Path) -> None:
    """TVM's scripts give what relay.build returned."""
    mod, params = mlftool.from_onnx(INT8)
    lib = mlftool.build(
        mod,
        target="host",
        params=params,
        executor=mlftool.Executor("graph"),
        runtime=mlftool.Runtime("crt", {"system-lib": True}),
    )
    template = get_microtvm_template_projects("crt")
    options = {"project_type": "host_driven", "workspace_size_bytes": 1 << 20}
    with generate_project(template, lib, tmp_path / "p", options) as project:
        assert project.options["workspace_size_bytes"] == 1 << 20
    text = (tmp_path / "p/CMakeLists.txt").read_text()
    assert "TVM_WORKSPACE_SIZE_BYTES=1048576" in text


def test_a_simulated_boards_project(tmp_path: Path) -> None:
    for program in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    tar = archive(tmp_path, "cortex-m4")
    template = get_microtvm_template_projects("qemu")
    options = {"board": "mps2_an386"}
    with generate_project_from_mlf(template, tmp_path / "p", tar, options) as project:
        project.build()
        project.flash()
        assert inferred(project) == expected(tar)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option board is required by generate_project"),
        ({"board": "nosuch"}, "board: got 'nosuch', expected one of microbit"),
        ({"board": "mps2_an386", "compile_definitions": "-Dx;y"}, "expected -DNAME=VALUE"),
        ({"board": "mps2_an386", "project_type": "other"}, "expected one of host_driven"),
    ],
)
def test_wrong_options_leave_no_project(
    options: dict[str, str], said: str, made: tuple[Path, Path], tmp_path: Path
) -> None:
    template = get_microtvm_template_projects("qemu")
    with pytest.raises(MicroError, match=said) as refused:
        generate_project_from_mlf(template, tmp_path / "p", made[0], options)
    assert refused.value.exit_code == 2
    assert not (tmp_path / "p").exists()


def test_archives_that_are_none_are_refused(made: tuple[Path, Path], tmp_path: Path) -> None:
    template = get_microtvm_template_projects("host")
    (tmp_path / "no.tar").write_bytes(b"no archive" * 100)
    with tarfile.open(tmp_path / "out.tar", "w") as tar:
        tar.addfile(member := tarfile.TarInfo("../outside"), io.BytesIO(b""))
        assert member.size == 0
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "link.tar", "w") as tar:
        tar.addfile(link)
    for name, said in (
        ("no", "cannot be read"), ("out", "not a plain file"), ("link", "not a plain file"),
        ("missing", "FileNotFoundError"),
    ):  # fmt: skip
        with pytest.raises(MicroError, match=said):
            generate_project_from_mlf(template, tmp_path / "p", tmp_path / f"{name}.tar")
        assert not (tmp_path / "p").exists()
    with pytest.raises(MicroError, match="exists already"):
        generate_project_from_mlf(template, made[1], made[0])
    write_tar(compile_modules([ModuleSpec(INT8, "d")]), tmp_path / "plain.tar")
    with pytest.raises(MicroError, match="compile it with --runtime-crt-system-lib 1"):
        generate_project_from_mlf(template, tmp_path / "p", tmp_path / "plain.tar")
    assert not (tmp_path / "p").exists()


def test_what_does_not_compile_is_told(made: tuple[Path, Path], tmp_path: Path) -> None:
    template = get_microtvm_template_projects("host")
    with generate_project_from_mlf(template, tmp_path / "p", made[0]) as project:
        with pytest.raises(MicroError, match=r"open_transport: .*has not been built"):
            project.transport().open()
        line = project.transport()
        with pytest.raises(MicroError, match="read_transport: TransportClosedError"):
            line.read(1, 0.1)
        (tmp_path / "p/src/host_line.c").write_text("#error this line\n")
        with pytest.raises(MicroError, match=r"build: .*cmake failed with status .*this line"):
            project.build()
        shutil.copy(crt_root() / "rpc/host_line.c", tmp_path / "p/src")
        project.build()  # and the server goes on
        assert inferred(project) == expected(made[0])


EXACT = """
import time
import cmake_project, server
from pathlib import Path

class Exact(cmake_project.CMakeHandler):
    '''Reads as TVM's templates do: all that it is asked for, or a time-out.'''

    def read_transport(self, n, timeout_sec):
        end = time.monotonic() + (timeout_sec or 1e9)
        data = b""
        while len(data) < n:
            data += super().read_transport(n - len(data), max(0.0, end - time.monotonic()))
        return data

del server.ServerInfo.to_json
server.ServerInfo.to_json = lambda self: {
    "platform_name": "exact", "is_template": self.is_template,
    "model_library_format_path": str(self.model_library_format_path),
    "project_options": [option.to_json() for option in self.project_options],
    "protocol_version": 1,
}
server.main(Exact(Path(__file__).resolve().parent))
"""


def test_a_server_that_reads_exactly(made: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(made[1], tmp_path / "p")
    (tmp_path / "p/microtvm_api_server.py").write_text(EXACT)
    with GeneratedProject.from_directory(tmp_path / "p") as project:
        assert "reads_what_is_there" not in project.info()
        assert inferred(project) == expected(made[0])


def test_tensors_of_seven_dimensions(tmp_path: Path) -> None:
    net = Net()
    turned = net.node("Transpose", net.input("x", np.float32, (2, 1, 2, 1, 2, 1, 3)))
    onnx.save(net.model(net.node("Relu", turned)), str(tmp_path / "m.onnx"))
    spec = ModuleSpec(tmp_path / "m.onnx", "m", interface_api="packed", system_lib=True)
    write_tar(compile_modules([spec]), tmp_path / "m.tar")
    x = np.arange(-12, 12, dtype=np.float32).reshape(2, 1, 2, 1, 2, 1, 3)
    template = get_microtvm_template_projects("host")
    with generate_project_from_mlf(template, tmp_path / "p", tmp_path / "m.tar") as project:
        project.build()
        with Session(project.transport()) as session:
            module = create_aot_executor(session, "m")
            module.set_input(0, x)
            module.run()
            assert (module.get_output(0).numpy() == np.maximum(x.transpose(), 0)).all()


@pytest.fixture
def terminal(made: tuple[Path, Path]) -> Iterator[str]:
    """A board on a serial port: firmware behind a pseudo-terminal."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    board = subprocess.Popen([made[1] / "build/main"], stdin=ours, stdout=ours)
    yield os.ttyname(theirs)
    board.kill()
    board.wait()
    os.close(ours)
    os.close(theirs)


def test_a_board_of_the_users_on_a_serial_port(
    made: tuple[Path, Path], terminal: str, tmp_path: Path
) -> None:
    board = tmp_path / "board"
    board.mkdir()
    shutil.copy(crt_root() / "rpc/host_line.c", board)
    shutil.copy(crt_root() / "platform/host/platform.c", board)
    (board / "platform.cmake").write_text("target_compile_definitions(main PRIVATE OURS)\n")
    template = get_microtvm_template_projects("cmake")
    options = {
        "board_dir": str(board), "port": terminal, "baudrate": "57600",
        "flash_cmd": "touch flashed",
    }  # fmt: skip
    with generate_project_from_mlf(template, tmp_path / "p", made[0], options) as project:
        project.build()
        project.flash()
        assert (tmp_path / "p/flashed").exists()
        for _ in range(2):
            assert inferred(project) == expected(made[0])
        project.options["flash_cmd"] = "false"
        with pytest.raises(MicroError, match="flash_cmd ended with status 1"):
            project.flash()
        project.options["port"] = str(tmp_path / "no port")
        with pytest.raises(MicroError, match="no port"):
            project.transport().open()
        project.options["port"] = None  # instead, the program itself
        assert inferred(project) == expected(made[0])


def test_a_client_that_disappears_ends_the_server_and_its_program(made: tuple[Path, Path]) -> None:
    project = GeneratedProject.from_directory(made[1])
    project.transport().open()
    server = project._client._process
    assert server is not None
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    assert len(children) == 2  # the program, and what ends it if the server is killed
    project._client._write_file.close()
    assert server.wait(10) == 0
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


# the command line


def command(*words: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "mlftool", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=300)


def test_the_commands_of_tvmc(made: tuple[Path, Path], tmp_path: Path) -> None:
    folder, tar = tmp_path / "p", made[0]
    listed = command("micro", "create-project", folder, tar, "qemu", "--list-options")
    assert "board (microbit, " in listed.stdout
    create = ("micro", "create", folder, tar, "host", "--project-option")
    assert command(*create, "workspace_size_bytes=300000", "verbose=false").returncode == 0
    again = command(*create, "workspace_size_bytes=300000")
    assert (again.returncode, "-f replaces it" in again.stderr) == (2, True), again.stderr
    assert command(*create, "workspace_size_bytes=400000", "-f").returncode == 0
    flash = command("micro", "flash", folder, "host")
    assert "has not been built" in flash.stderr
    for action in (("build",), ("build", "-f"), ("flash",)):
        done = command("micro", action[0], folder, "host", *action[1:])
        assert done.returncode == 0, done.stderr
    assert "-f builds it anew" in command("micro", "build", folder).stderr
    np.savez(tmp_path / "in.npz", image=IMAGE[np.newaxis])
    reference = np.frombuffer(expected(tar), np.int8).reshape(1, 1, -1)
    np.savez(tmp_path / "ref.npz", probability=reference)
    files = ("-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz", "--print-top", 2)
    done = command("micro", "run", folder, *files)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "out.npz")["output_0"].tobytes() == expected(tar)
    best = int(reference.argmax())
    assert done.stdout.startswith(f"output_0: [{best}] {reference.max()}, ")
    filled = [command("micro", "run", folder, "--fill-mode", m).stdout for m in ("zeros", "ones")]
    assert filled[0] != filled[1]
    project = ("run", "--device", "micro", "--project-dir", folder)
    done = command(*project, "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "ref.npz")
    assert done.returncode == 0, done.stderr
    assert f"(project {folder})" in done.stdout
    assert "equal to the reference within 0" in done.stdout
    # As tvmc has it.
    files = ("-i", tmp_path / "in.npz", "--outputs", tmp_path / "named.npz")
    done = command("run", "--device", "micro", folder, *files, "--print-time", "--print-top", 1)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "named.npz")["probability"].tobytes() == expected(tar)
    assert f"\nprobability: [{best}] {reference.max()}\n" in done.stdout
    done = command("run", "--device", "micro", folder, "--fill-mode", "ones", "--print-top", 1)
    assert ", inputs: ones)" in done.stdout
    assert "takes no options" in command("micro", "run", folder, "--list-options").stdout


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("micro", "create", "p", "x.tar", "zephyr"), 2, "no template 'zephyr'"),
        (("micro", "create", "p", "x.tar", "template"), 2, "needs --template-dir"),
        (("micro", "create", "p", "x.tar", "host", "--project-option", "a"), 2, "NAME=VALUE"),
        (("micro", "create", "p", "MADE", "host", "--project-option", "a=b=c"), 2, "option 'a'"),
        (("micro", "build", "nosuch"), 2, "microtvm_api_server.py"),
        (("run", "--device", "micro", "--inputs", "x.npz"), 2, "needs the folder of a project"),
        (
            ("run", "--device", "micro", "nosuch"),
            2,
            "nosuch: error[MLF0501]: is not a generated project",
        ),
        (("run", "x.tar", "--profile"), 2, "mlftool profile MODEL.onnx"),
        (("run", "x.tar", "--rpc-key", "k", "--rpc-tracker", "h:9190"), 2, "--device micro DIR"),
        (("run", "x.tar", "--print-top", "0"), 2, "expected 1 or more"),
        (("run", "x.tar", "--repeat", "0"), 2, "1 to 999,999"),
        (("run", "--inputs", "x.npz"), 2, "the archive or model is missing"),
        (("run", "x.tar", "--project-dir", "p", "--inputs", "x.npz"), 2, "goes with no file"),
    ],
)
def test_wrong_commands_say_what_is_wrong(
    words: tuple[str, ...], status: int, said: str, made: tuple[Path, Path]
) -> None:
    """MADE is an archive that is there."""
    done = command(*(str(made[0]) if word == "MADE" else word for word in words))
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr


def test_a_folder_that_is_no_project_is_not_replaced(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = command("micro", "create", tmp_path, made[0], "host", "-f")
    assert "is not a generated project" in done.stderr
    assert (tmp_path / "mine.txt").exists()


def test_a_project_stays_if_the_next_one_cannot_be_made(
    made: tuple[Path, Path], tmp_path: Path
) -> None:
    """An archive that has no system library, which only the template finds out."""
    old = tmp_path / "project"
    old.mkdir()
    (old / "model.tar").write_bytes(b"mine")
    command("compile", OWN / "gesture_int8.onnx", "-o", tmp_path / "plain.tar")
    for wrong in ("plain.tar", "missing.tar"):
        done = command("micro", "create", old, tmp_path / wrong, "host", "-f", "-q")
        assert done.returncode == 2
        line, *help = done.stderr.splitlines()
        assert "error[MLF" in line
        assert len(help) <= 1
        assert (old / "model.tar").read_bytes() == b"mine"
        assert sorted(p.name for p in tmp_path.iterdir()) == ["plain.tar", "project"]


HOST = """import sys, time
sys.path.insert(0, sys.argv[1])
import cmake_project
handler = cmake_project.CMakeHandler(cmake_project.Path(sys.argv[2]))
handler.open_transport({})
print(handler.read_transport(20, 20).decode().split()[0], flush=True)
time.sleep(600)
"""
# As QEMU: it goes on when its input ends. It says its process id.
DEAF = "import os, sys, time; print(os.getpid(), ' ' * 30, flush=True); time.sleep(600)"


def test_a_simulator_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    """A project's server, with nothing of mlftool but the files that it has copies of."""
    (tmp_path / "build").mkdir()
    for file in ("model.tar", "build/main"):
        (tmp_path / file).touch()
    command = [sys.executable, "-c", DEAF]
    (tmp_path / "project.json").write_text(json.dumps({"options": {}, "command": command}))
    files = REPO / "mlftool" / "micro" / "project_api"
    words = [sys.executable, "-I", "-c", HOST, str(files), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        process = int(host.stdout.readline())
        os.kill(process, 0)  # it runs
        host.kill()
    until = time.monotonic() + 20
    while is_running(process) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(process)


def is_running(process: int) -> bool:
    """A process that nobody has waited for yet has ended, too."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(
    "MLFTOOL_TVM_MICRO" not in os.environ,
    reason="an outside check: MLFTOOL_TVM_MICRO is the folder python/tvm/micro of a TVM",
)
def test_tvms_own_client_drives_our_templates(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(os.environ["MLFTOOL_TVM_MICRO"])
    client = importlib.import_module("project_api.client")
    template = client.instantiate_from_dir(get_microtvm_template_projects("host"))
    info = template.server_info_query("0.14.0")
    assert info["is_template"]
    options = {option["name"]: option["default"] for option in info["project_options"]}
    folder = tmp_path / "p"
    template.generate_project(str(made[0]), str(crt_root()), str(folder), options)
    project = client.instantiate_from_dir(folder)
    assert not project.server_info_query("0.14.0")["is_template"]
    project.build(options)
    project.flash(options)
    timeouts = project.open_transport(options)["timeouts"]
    assert set(timeouts) == {
        "session_start_retry_timeout_sec", "session_start_timeout_sec",
        "session_established_timeout_sec",
    }  # fmt: skip
    # The reference's handshake: Terminate of the board, Init of nonce 43, and its Reply.
    project.write_transport(bytes.fromhex("fffd04000000430000016b2c"), 5)
    data = b""
    while b"\x43" not in data:
        data += project.read_transport(1, 5)["data"]
    assert data.startswith(bytes.fromhex("fefffd030000000000026677"))
    project.close_transport()
    assert issubclass(client.server.IoTimeoutError, client.server.ServerError)
    thread = threading.Thread(target=project.shutdown)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_codes_of_projects_say_what_is_there(
    made: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A project that is there, is not one, is not built, or is built."""
    project, other = tmp_path / "project", tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").touch()

    def said(status: int, *words: object) -> str:
        assert main(["micro", *map(str, words)]) == status
        return capsys.readouterr().err

    said(0, "create", project, made[0], "host")
    assert f"{project}: error[MLF0402]: exists already; -f" in said(
        2, "create", project, made[0], "host"
    )
    assert f"{other}: error[MLF0402]: is not a generated project" in said(
        2, "create", other, made[0], "host", "-f"
    )
    for action in ("build", "flash", "run"):
        assert "error[MLF0501]: is not a generated project" in said(2, action, other)
        assert "help: " in said(2, action, tmp_path / "missing")
    for words in (["flash"], ["run"]):
        text = said(2, *words, project)
        assert f"{project}: error[MLF0609]: the project has not been built" in text
        assert f"help: mlftool micro build {project}" in text
    (project / "build").mkdir()
    assert f"{project / 'build'}: error[MLF0402]: the project is built already; -f" in said(
        2, "build", project
    )
