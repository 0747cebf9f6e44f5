"""docs/hermetic.md, followed as it is written: wheels in a folder, a mirror, then no network."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from nested import IDLE, ROOT, Workspace, count, in_memory, make_workspace, start
from test_hermetic import REPOSITORY
from test_toolchains import make_compiler
from test_walkthroughs import BLOCK

pytestmark = pytest.mark.sampled(4, table="long builds")

PAGE = (ROOT / "docs" / "hermetic.md").read_text()
COMPILER = """
load("@mlftool//rules:repositories.bzl", "mlf_gcc_repository")
mlf_gcc_repository(
    name = "arm_gcc",
    prefix = "arm-none-eabi",
    sha256 = "{}",
    strip_prefix = "gcc-12",
    urls = ["{}/gcc.tar"],
)
register_toolchains("@arm_gcc//:all")
"""
# A network namespace has a loopback of its own, which Bazel's client and server talk over, and it
# is down.
ALONE = """
import fcntl, os, socket, struct, sys
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def blocks(language: str) -> list[str]:
    """The page's code in a language, in order."""
    return [text for _, kind, text in BLOCK.findall(PAGE) if kind == language]


def python_block(word: str) -> str:
    (found,) = (text for text in blocks("starlark") if text.startswith(word))
    return found


@dataclass(frozen=True)
class Reader:
    """Somebody who follows the page in a workspace."""

    workspace: Workspace
    home: Path

    def run(self, script: str, alone: bool = False, fails: bool = False) -> str:
        """A block of the page; `alone` without network."""
        options = f'--output_user_root="{self.home}/server" {" ".join(start())} {IDLE}'
        bazel = f'bazel() {{ command bazel {options} "$@"; }}\n'
        command = ["sh", "-ec", bazel + script]
        if alone:
            user = [] if os.getuid() == 0 else ["--map-root-user"]
            command = ["unshare", "--net", *user, sys.executable, "-c", ALONE, *command]
        given = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment: Mapping[str, str] = {**given, "MLFTOOL": str(ROOT), "HOME": str(self.home)}
        run = subprocess.run(
            command, cwd=self.workspace.folder, env=environment, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        talk = run.stdout + run.stderr
        assert (run.returncode != 0) == fails, talk
        return talk

    def forget(self) -> None:
        """As on another machine: only what the page says is kept is kept."""
        self.run('chmod -R u+w "$HOME/server"\nrm -r "$HOME/server"')


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server of files, and the folder that it serves, with the compiler in it."""
    folder = tmp_path_factory.mktemp("mirror")
    compiler = make_compiler(tmp_path_factory.mktemp("compiler") / "gcc-12")
    with tarfile.open(folder / "gcc.tar", "w") as archive:
        archive.add(compiler, "gcc-12")
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


@pytest.fixture(scope="module")
def reader(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, mirror: tuple[str, Path]
) -> Iterator[Reader]:
    """Who has done what the page says, up to the fetch, and has no network from here on."""
    folder = tmp_path_factory.mktemp("offline")
    made = make_workspace(folder, cache)
    python = folder / "our_python"
    (python / "bin").mkdir(parents=True)
    shutil.copy(Path("/usr/bin/python3").resolve(), python / "bin" / "python3")
    (python / "WORKSPACE").write_text("")
    (python / "BUILD.bazel").write_text(
        'package(default_visibility = ["//visibility:public"])\n'
        'exports_files(["bin/python3"])\nfilegroup(name = "files", srcs = glob(["**"]))\n'
    )
    url, served = mirror
    checksum = hashlib.sha256((served / "gcc.tar").read_bytes()).hexdigest()
    workspace = made.folder / "WORKSPACE"
    text = workspace.read_text().replace("load(", REPOSITORY.format(python) + "\nload(", 1)
    text = text.replace("mlf_dependencies()\n", python_block("mlf_dependencies("))
    text = text.replace(
        "mlf_register_toolchains()", COMPILER.format(checksum, url) + "mlf_register_toolchains()"
    )
    workspace.write_text(text)
    rc = made.folder / ".bazelrc"
    # No compile twice for this test; what is fetched is not in it.
    options = [f"--disk_cache={cache}", *in_memory()]
    rc.write_text(rc.read_text() + f"\nbuild {' '.join(options)}\n")
    reader = Reader(made, folder)
    wheels, fetch, *_ = blocks("sh")
    reader.run(wheels)
    reader.run(fetch)
    count(folder / "server")
    reader.run("bazel shutdown")
    yield reader
    reader.run("bazel shutdown")


def test_what_was_fetched_is_enough_without_network(reader: Reader) -> None:
    """On another machine, which has nothing else."""
    build = blocks("sh")[2]
    tests = "bazel test @models//gesture_int8:host_test"
    reader.forget()
    talk = reader.run(f"{build}\n{tests}\nbazel shutdown", alone=True)
    assert "Build completed successfully" in talk
    assert "1 test passes" in talk


def test_a_folder_of_files_is_a_mirror_too(reader: Reader, mirror: tuple[str, Path]) -> None:
    build = blocks("sh")[3]
    folder = re.findall(r"--distdir=(\S+)", build)[0]
    archive = mirror[1] / "gcc.tar"
    script = f"if {build.strip()}; then exit 9; fi\necho NOW >&2\n"
    # What could not be fetched is fetched again; nothing else is in the folder.
    script += f"mkdir -p {folder}\ncp {archive} {folder}\n{build}\nbazel shutdown"
    reader.forget()
    refused, _, then = reader.run(script, alone=True).partition("NOW")
    assert "gcc.tar" in refused
    assert "Build completed successfully" in then


def test_without_network_means_that(reader: Reader, mirror: tuple[str, Path]) -> None:
    """What other tests rely on: the mirror of this machine is out of reach, too."""
    script = f"{sys.executable} -c \"import urllib.request; urllib.request.urlopen('{mirror[0]}')\""
    assert "Connection refused" in reader.run(script, alone=True, fails=True)
    reader.run(script)
