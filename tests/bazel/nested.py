"""A copy of examples/external_workspace that real Bazel builds, in a folder of its own.

Under Bazel this test sees its declared files only, so the workspaces are copies of those.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kept

ROOT = Path(os.path.abspath(__file__)).parents[2]
PARTS = ("crt", "mlftool", "rules")
# As a repository of the outer Bazel, because .bazelignore hides the folder from it.
EXAMPLE = ROOT.parent / "sensor_example"
# The wheels an outer Bazel has fetched already; on its own the inner one asks pip for them.
WHEELS = ROOT.parent / "mlf_python" / "site" / "numpy" / "__init__.py"
QUANTISING = ROOT.parent / "mlf_python_quantize" / "site"
# Seconds that a server waits while another workspace is built: to start it again takes longer.
IDLE = "--max_idle_secs=300"
# Of every server: without the user's bazelrc; a small heap, since other servers run beside it; the
# JVM's quick compiler and plain collector, since no server lives long enough to gain from others.
START = (
    "--nohome_rc",
    "--host_jvm_args=-Xmx1g",
    "--host_jvm_args=-XX:TieredStopAtLevel=1",
    "--host_jvm_args=-XX:+UseSerialGC",
)


@contextlib.contextmanager
def one_at_a_time(place: Path) -> Iterator[None]:
    """Shards begin at the same time: what the first makes at `place`, the others find there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def start() -> tuple[str, ...]:
    """START, and where the classes are that an earlier server laid out: to map them takes a second
    of a processor less than to read them, of three that a server takes to start."""
    archive = kept.classes()
    if archive is None:
        return START
    with one_at_a_time(archive):
        if not (archive.exists() or _lay_out_classes(archive)):
            return START
    return (*START, f"--host_jvm_args=-XX:SharedArchiveFile={archive}")


def _lay_out_classes(archive: Path) -> bool:
    """Whether a server of a small workspace wrote its classes when it ended: Java knows how from
    version 13 on."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, "classes")
        Path(folder, "WORKSPACE").touch()
        Path(folder, "BUILD.bazel").write_text('genrule(name = "a", outs = ["b"], cmd = "> $@")\n')
        server = (f"--output_user_root={folder}/server", *START)
        line = ["bazel", *server, f"--host_jvm_args=-XX:ArchiveClassesAtExit={made}"]
        for command in (("build", "//:a"), ("shutdown",)):
            run = subprocess.run([*line, *command], cwd=folder, capture_output=True, check=False)
            if run.returncode != 0:
                return False
        if made.exists():
            made.replace(archive)
    return archive.exists()


def copy_tree(source: Path, target: Path) -> None:
    """Copies files, following links: a runfiles tree consists of them."""
    ignored = shutil.ignore_patterns("__pycache__", "bazel-*")
    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)


MANIFEST = """
mlf_manifest_repository(
    name = "{name}",
    manifest = "//{name}:models.yaml",
)
"""


@dataclass
class Workspace:
    """A workspace and the Bazel server that builds it."""

    folder: Path
    server: Path
    cache: Path
    first: dict[str, str] = field(default_factory=dict)  # what its first build made

    def bazel(self, command: str, *arguments: str, fails: bool = False) -> str:
        """Runs Bazel and returns what it said; `fails` says how it has to end."""
        line = ["bazel", f"--output_user_root={self.server}", *start(), IDLE, command, *arguments]
        run = subprocess.run(
            line, cwd=self.folder, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        talk = run.stdout + run.stderr
        assert (run.returncode != 0) == fails, talk
        return talk

    def build(self, *targets: str) -> list[dict[str, Any]]:
        """Builds, and returns the actions that Bazel executed or took from the disk cache."""
        log = self.folder.parent / "actions.json"
        log.unlink(missing_ok=True)
        self.bazel(
            "build", *self.options(), f"--execution_log_json_file={log}", *targets,
        )  # fmt: skip
        return read_log(log)

    def options(self) -> list[str]:
        """Of a build: offline, and sharing one disk cache between servers."""
        return [*self.loading(), f"--disk_cache={self.cache}", *in_memory()]

    def loading(self) -> list[str]:
        """Of a query, too: wheels that are here already are not fetched again."""
        options = ["--experimental_repository_disable_download"]
        if WHEELS.exists():
            for name, folder in (("", WHEELS.parents[1]), ("_quantize", QUANTISING)):
                found = (folder / "numpy/__init__.py").resolve().parents[2]
                options.append(f"--override_repository=mlf_python{name}={found}")
        return options

    @contextlib.contextmanager
    def manifest(self, name: str) -> Iterator[None]:
        """Within it @`name` has the models of //`name`:models.yaml."""
        file = self.folder / "WORKSPACE"
        text = file.read_text()
        file.write_text(text + MANIFEST.format(name=name))
        yield
        file.write_text(text)

    def shutdown(self) -> None:
        count(self.server)
        self.bazel("shutdown")


def in_memory() -> list[str]:
    """The option that bazelw takes from tools/memory.bazelrc: sandboxes where links cost little, if
    there is room and programs may be run there."""
    try:
        found = os.statvfs("/dev/shm")
    except OSError:
        return []
    roomy = found.f_bavail * found.f_frsize >= 4 << 30 and os.access("/dev/shm", os.W_OK)
    return ["--sandbox_base=/dev/shm"] if roomy and not found.f_flag & os.ST_NOEXEC else []


# Processor seconds of servers, with all that they started: nobody's children, so what the test run
# takes has them not.
SERVERS: list[float] = []


def count(root: Path) -> None:
    """Adds what the servers of an output user root took, which are about to end."""
    SERVERS.append(sum(map(seconds_of, root.glob("*/server/server.pid.txt"))))


def seconds_of(pid: Path) -> float:
    """Of the process that the file names, and of those that it waited for; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid.read_text()}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def read_log(log: Path) -> list[dict[str, Any]]:
    """The entries of an execution log, which are JSON objects one after the other."""
    text, entries, at = log.read_text(), [], 0
    while (rest := text[at:].lstrip()) != "":
        at = len(text) - len(rest)
        entry, length = json.JSONDecoder().raw_decode(rest)
        entries.append(entry)
        at += length
    return entries


def digests(actions: list[dict[str, Any]]) -> dict[str, str]:
    """Path -> digest of all that the actions made."""
    made = [output for action in actions for output in action["actualOutputs"]]
    return {output["path"]: output["digest"]["hash"] for output in made}


def make_workspace(folder: Path, cache: Path) -> Workspace:
    """`folder`/mlftool/... holds the rules and, where it always is, the example workspace."""
    rules = folder / "mlftool"
    for part in PARTS:
        copy_tree(ROOT / part, rules / part)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, rules / file.name)
    workspace = rules / "examples" / "external_workspace"
    copy_tree(EXAMPLE if EXAMPLE.exists() else ROOT / "examples" / "external_workspace", workspace)
    return Workspace(workspace, folder / "server", cache)


EVERYTHING = (
    "//:sensor",
    "@models//gesture_int8:host_runner",
    "@models//gesture_int8:cortex-m4_runner",
    "@models//vibration_int8:host_runner",
    "@models//vibration_int8:cortex-m4_runner",
)


def programs(folder: Path, workspace: Workspace) -> Path:
    """A folder with `bazel`, of its own server and offline, and `mlftool`."""
    options = "".join(f"build {option}\n" for option in workspace.options())
    (folder / "bazelrc").write_text(options)
    path = os.pathsep.join([str(ROOT), *sys.path])
    server = f"--output_user_root={folder}/server {' '.join(start())}"
    lines = {
        "bazel": f'{shutil.which("bazel")} {server} --bazelrc={folder}/bazelrc "$@"',
        "mlftool": f'env PYTHONPATH={path} {sys.executable} -m mlftool "$@"',
    }
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name, line in lines.items():
        (bin_folder / name).write_text(f"#!/bin/sh\nexec {line}\n")
        (bin_folder / name).chmod(0o755)
    return bin_folder
