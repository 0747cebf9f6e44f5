"""A copy of examples/external_workspace that real Bazel builds, in a folder of its own.

Under Bazel this test sees its declared files only, so the workspaces are copies of those.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(os.path.abspath(__file__)).parents[2]
PARTS = ("crt", "mlftool", "rules")
# As a repository of the outer Bazel, because .bazelignore hides the folder from it.
EXAMPLE = ROOT.parent / "sensor_example"
# The wheels an outer Bazel has fetched already; on its own the inner one asks pip for them.
WHEELS = ROOT.parent / "mlf_python" / "site" / "numpy" / "__init__.py"
# Of every server: without the user's bazelrc; a small heap, since other servers run beside it; the
# JVM's quick compiler alone, since no server lives long enough to gain from the other one.
START = ("--nohome_rc", "--host_jvm_args=-Xmx1g", "--host_jvm_args=-XX:TieredStopAtLevel=1")


def copy_tree(source: Path, target: Path) -> None:
    """Copies files, following links: a runfiles tree consists of them."""
    ignored = shutil.ignore_patterns("__pycache__", "bazel-*")
    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)


@dataclass
class Workspace:
    """A workspace and the Bazel server that builds it."""

    folder: Path
    server: Path
    cache: Path
    first: dict[str, str] = field(default_factory=dict)  # what its first build made

    def bazel(self, command: str, *arguments: str, fails: bool = False) -> str:
        """Runs Bazel and returns what it said; `fails` says how it has to end."""
        start = (f"--output_user_root={self.server}", *START, "--max_idle_secs=60")
        line = ["bazel", *start, command, *arguments]
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
        """Offline, and sharing one disk cache between servers."""
        options = ["--experimental_repository_disable_download", f"--disk_cache={self.cache}"]
        if WHEELS.exists():
            options.append(f"--override_repository=mlf_python={WHEELS.resolve().parents[2]}")
        return options

    def shutdown(self) -> None:
        self.bazel("shutdown")


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
