"""The files that make a folder with a manifest a workspace of Bazel, old and new."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from mlftool.errors import MlfError, Problem
from mlftool.version import VERSION

RULES = "rules/repositories.bzl"  # where mlftool's sources are, this is

# examples/external_workspace/.bazelrc has the same; .bazelrc of mlftool has the reasons.
FLAGS = (
    *("incompatible_strict_action_env", "incompatible_enable_cc_toolchain_resolution"),
    *("nosandbox_debug", "experimental_sandbox_async_tree_delete_idle_threads=2"),
    *("worker_sandboxing", "noexperimental_worker_multiplex", "experimental_run_validations"),
)

_WORKSPACE = """\
workspace(name = "{name}")

local_repository(
    name = "mlftool",
    path = {path},
)

load(
    "@mlftool//rules:repositories.bzl",
    "mlf_dependencies",
    "mlf_manifest_repository",
    "mlf_register_toolchains",
)

mlf_dependencies()

mlf_register_toolchains()

mlf_manifest_repository(
    name = "models",
    manifest = "//:models.yaml",
)
"""

_MODULE = """\
module(name = "{name}")

bazel_dep(name = "mlftool", version = "{version}")
bazel_dep(name = "rules_cc", version = "0.0.17")

local_path_override(
    module_name = "mlftool",
    path = {path},
)

mlf = use_extension("@mlftool//rules:extensions.bzl", "mlf")
mlf.manifest(
    name = "models",
    manifest = "//:models.yaml",
)
use_repo(mlf, "models")
"""


def workspace_files(name: str, sources: Path) -> Mapping[str, bytes]:
    """WORKSPACE, MODULE.bazel and .bazelrc of a workspace whose rules are those of `sources`.

    `name` is a C identifier. Raises MlfError unless mlftool's sources are there.
    """
    if not os.path.isfile(sources / RULES):
        hint = "give the folder into which mlftool was cloned: the rules are not in the wheel"
        text = f"--workspace: has no {RULES}"
        raise MlfError(Problem("MLF0400", text, str(sources), help=hint))
    given = {
        "name": name,
        "path": json.dumps(str(sources.resolve()), ensure_ascii=False),
        "version": VERSION,
    }
    return {
        "WORKSPACE": _WORKSPACE.format(**given).encode(),
        "MODULE.bazel": _MODULE.format(**given).encode(),
        ".bazelrc": "".join(f"build --{flag}\n" for flag in FLAGS).encode(),
    }
