"""A build whose interpreter and wheels are files of the workspace."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nested import Workspace, digests, make_workspace

pytestmark = pytest.mark.sampled(6)

INTERPRETER = Path("/usr/bin/python3")
REPOSITORY = """
local_repository(name = "our_python", path = "{}")
"""
TOOLCHAIN = """
load("@mlftool//rules:defs.bzl", "mlftool_toolchain")

mlftool_toolchain(name = "files", python = "python3")
toolchain(
    name = "mlftool",
    toolchain = ":files",
    toolchain_type = "@mlftool//rules/toolchains:mlftool_type",
)
"""
ARGUMENTS = """mlf_dependencies(
    interpreter = "@our_python//:bin/python3",
    interpreter_files = ["@our_python//:files"],
)"""


@pytest.fixture(scope="module")
def hermetic(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Workspace]:
    """The workspace with a copy of an interpreter; what MLF_PYTHON names would fail."""
    tmp_path = tmp_path_factory.mktemp("hermetic")
    made = make_workspace(tmp_path, cache)
    python = tmp_path / "our_python"
    (python / "bin").mkdir(parents=True)
    shutil.copy(INTERPRETER.resolve(), python / "bin" / "python3")
    (python / "WORKSPACE").write_text("")
    (python / "BUILD.bazel").write_text(
        'package(default_visibility = ["//visibility:public"])\n'
        'exports_files(["bin/python3"])\nfilegroup(name = "files", srcs = glob(["**"]))\n'
    )
    workspace = made.folder / "WORKSPACE"
    text = workspace.read_text()
    assert "mlf_dependencies()\n" in text
    text = text.replace("load(", REPOSITORY.format(python) + "\nload(", 1)
    workspace.write_text(text.replace("mlf_dependencies()", ARGUMENTS))
    rc = made.folder / ".bazelrc"
    rc.write_text(rc.read_text() + "\nbuild --repo_env=MLF_PYTHON=/bin/false\n")
    yield made
    made.shutdown()


def test_the_interpreter_is_a_file_of_a_repository(hermetic: Workspace, built: Workspace) -> None:
    wanted = ("@models//gesture_int8:host_test", "@models//gesture_int8:cortex-m4_report")

    actions = hermetic.build(*wanted)

    ours = [a for a in actions if a["mnemonic"].startswith("Mlf") and "-S" in a["commandArgs"]]
    assert {"MlfCompile", "MlfRunner", "MlfReport"} <= {a["mnemonic"] for a in ours}
    assert {a["commandArgs"][0] for a in ours} == {"external/our_python/bin/python3"}
    inputs = {i["path"] for a in ours for i in a["inputs"]}
    assert "external/our_python/bin/python3" in inputs
    archives = {p: d for p, d in digests(actions).items() if p.endswith(".tar")}
    assert archives
    assert {Path(p).name: d for p, d in archives.items()}.items() <= {
        Path(p).name: d for p, d in built.first.items() if "gesture_int8" in p
    }.items()
    hermetic.bazel("test", *hermetic.options(), wanted[0])


def test_a_toolchain_of_a_package_of_the_workspace(built: Workspace) -> None:
    """It says what is other than ours, and goes before ours; the archive is the same."""
    folder = built.folder / "own_toolchain"
    folder.mkdir()
    shutil.copy(INTERPRETER.resolve(), folder / "python3")
    (folder / "BUILD.bazel").write_text(TOOLCHAIN)

    actions = built.build(
        "--extra_toolchains=//own_toolchain:mlftool", "@models//gesture_int8:host_archive"
    )

    (compile_,) = (a for a in actions if a["mnemonic"] == "MlfCompile")
    assert compile_["commandArgs"][0] == "own_toolchain/python3"
    made = digests([compile_])
    assert made.items() <= built.first.items()


# What would keep Python from its own library, or gcc from its headers, were it seen.
NONSENSE = {
    **dict.fromkeys(("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONPLATLIBDIR"), "/nowhere"),
    "PYTHONOPTIMIZE": "2",
    "PYTHONWARNINGS": "error",
    "PYTHONHASHSEED": "nonsense",
    **dict.fromkeys(("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH"), "/nowhere"),
    "LC_ALL": "tlh_KX",
}
# Of another user, elsewhere.
STRANGE = {"LANG": "C", "TZ": "Asia/Tokyo", "USER": "x"}


def test_the_shell_does_not_reach_repositories(built: Workspace) -> None:
    words = [f"--repo_env={name}=/nowhere" for name in ("PYTHONHOME", "PYTHONPATH", "CPATH")]
    built.bazel("build", *built.options(), *words, "--nobuild", "@models//gesture_int8:host")


def test_another_folder_and_user_with_a_shell_of_nonsense_get_the_same_bytes(
    tmp_path: Path, built: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every repository is fetched and every action runs, from no cache: libraries, programs, images
    and maps are the same."""
    (tmp_path / "home").mkdir()
    for name, value in {**NONSENSE, **STRANGE, "HOME": str(tmp_path / "home")}.items():
        monkeypatch.setenv(name, value)
    other = make_workspace(tmp_path / "a-longer-name", tmp_path / "no-cache")
    umask = os.umask(0o077)

    actions = other.build("//:sensor", "@models//gesture_int8:host_runner")
    os.umask(umask)

    assert {"MlfCompile", "MlfRunner"} <= {a["mnemonic"] for a in actions}
    variables = {v["name"] for a in actions for v in a["environmentVariables"]}
    assert variables & NONSENSE.keys() <= {"LC_ALL", "PYTHONHASHSEED"}
    ours = {v["value"] for a in actions for v in a["environmentVariables"]}
    assert not ours & set(NONSENSE.values()) - {"2"}
    made = digests(actions)
    assert {path: built.first.get(path) for path in made} == made
    kinds = {Path(path).suffix for path in made}
    assert {".tar", ".elf", ".bin", ".hex", ".map", ".a", ".o", ".c"} <= kinds
    other.bazel("test", *other.options(), "@models//gesture_int8:host_test")
    other.shutdown()


def test_a_wheel_house_without_wheels_is_refused(hermetic: Workspace) -> None:
    workspace = hermetic.folder / "WORKSPACE"
    text = workspace.read_text()
    workspace.write_text(
        text.replace(
            "    interpreter = ", '    wheel_house = "//:BUILD.bazel",\n    interpreter = '
        )
    )
    words = [o for o in hermetic.options() if "mlf_python" not in o]
    talk = hermetic.bazel("build", *words, "--nobuild", "@models//gesture_int8:host", fails=True)
    assert "mlf_python: wheel_house: got //:BUILD.bazel, which cannot be used" in talk
    assert "the folder has no such wheel; run: python3 -m pip download" in talk
    workspace.write_text(text)
