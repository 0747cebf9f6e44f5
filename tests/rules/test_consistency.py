"""Things written twice because Starlark and Python cannot read each other must agree."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlftool.options import OPTIONS
from mlftool.runtime import toolchain
from mlftool.runtime.boards import NAMED, find
from mlftool.runtime.sources import FOREIGN_CFLAGS
from mlftool.targets import TARGETS
from rules.private.tools import probe

ROOT = Path(os.path.abspath(__file__)).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import boards_doc  # noqa: E402
import options_bzl  # noqa: E402
import rules_doc  # noqa: E402


def bzl(name: str) -> dict[str, Any]:
    """The globals of one of our .bzl files."""
    targets = {n: probe.target(t) for n, t in TARGETS.items()}
    machines = {"TARGETS": targets, "BOARDS": {}, "SIMULATORS": {}}
    loaded = {"@mlf_system//:machines.bzl": machines}
    return rules_doc.run_bzl(f"//rules/private:{name}.bzl", loaded)


def test_foreign_flags_are_those_of_the_runtime() -> None:
    assert tuple(bzl("import")["FOREIGN_COPTS"]) == FOREIGN_CFLAGS


@pytest.mark.parametrize(
    ("target", "device"),
    [
        ("cortex-m4", "cortex-m4"),
        ("llvm -mcpu=cortex-m4", "cortex-m4"),
        ("c -keys=arm_cpu,cpu -mcpu=cortex-m7", "cortex-m7"),
        ("llvm", "host"),
        ("c -march=rv32imc", "rv32imc"),
        ("llvm -mtriple=thumbv7em-none-eabihf", ""),
        ("", "host"),
    ],
)
def test_devices_of_targets(target: str, device: str) -> None:
    assert bzl("cpus")["device_of"](target) == device


def test_manifest_repository_watches_every_file_of_the_reader() -> None:
    folder = ROOT / "mlftool" / "manifest"
    assert bzl("manifest_repository")["READER_FILES"] == sorted(p.name for p in folder.glob("*.py"))


def test_bazel_knows_every_target_and_board() -> None:
    """What probe.py tells Bazel is enough to build and run for each."""
    targets = {n: probe.target(t) for n, t in TARGETS.items()}
    boards = {name: probe.board(b) for name, b in NAMED.items()}
    for name, row in targets.items():
        assert row["toolchain"] in ("", *toolchain.CROSS), name
        assert not row["board"] or name in boards[row["board"]]["targets"], name
    for other in toolchain.ALTERNATIVES:
        assert any(row["toolchain"] == other.toolchain for row in targets.values())
    for name, row in boards.items():
        # What the board's name means on the command line and as a platform.
        board = find(name)
        assert board
        assert board.target == row["targets"][0]
        assert row["simulator"][0] in toolchain.SIMULATORS
        assert all((ROOT / "crt" / name).is_file() for name in (*row["sources"], *row["scripts"]))


def test_a_compiler_of_your_own_may_be_any_that_we_know() -> None:
    attrs = bzl("gcc_repository")["mlf_gcc_repository"].given["attrs"]
    assert attrs["prefix"].given["values"] == sorted(toolchain.CROSS)
    names = [other.name for other in toolchain.ALTERNATIVES]
    assert attrs["constraint"].given["values"] == ["usual", *names]


def test_every_board_has_a_config() -> None:
    text = (ROOT / ".bazelrc").read_text()
    found = re.findall(r"^build:(\w+) --platforms=//rules/platforms:(\w+)$", text, re.MULTILINE)
    assert dict(found) == {name: name for name in NAMED}


def test_the_page_about_the_rules_is_current() -> None:
    assert (ROOT / "docs" / "rules.md").read_text() == rules_doc.page(), (
        "run: python3 tools/rules_doc.py"
    )


def test_the_rules_have_the_compilers_options() -> None:
    assert options_bzl.FILE.read_text() == options_bzl.text(), "run: python3 tools/options_bzl.py"
    for rule in ("_model_archive", "mlf_module"):
        assert OPTIONS.keys() < bzl("compile")[rule].given["attrs"].keys()


@pytest.mark.parametrize("file", boards_doc.PARTS, ids=lambda file: file.name)
def test_what_names_boards_and_compilers_is_current(file: Path) -> None:
    assert file.read_text() == boards_doc.written(file), "run: python3 tools/boards_doc.py"


def test_the_page_shows_the_board_of_the_example() -> None:
    """The example has a list of its files more, for the tests that copy it."""
    page = (ROOT / "docs" / "boards.md").read_text()
    beside = ROOT.parent / "sensor_example"
    example = beside if beside.exists() else ROOT / "examples" / "external_workspace"
    for name in ("BUILD.bazel", "board.h", "link.ld"):
        (shown,) = re.findall(rf"`boards/lm3s6965/{name}`:\n\n```\w+\n(.*?)```", page, re.DOTALL)
        text = (example / "boards" / "lm3s6965" / name).read_text()
        assert text.partition("\nfilegroup(")[0] == shown, name


def test_bazelw_names_every_package_of_compilers_and_simulators() -> None:
    programs = [toolchain.CC, toolchain.CXX, *toolchain.CROSS.values()]
    programs += [*toolchain.SIMULATORS.values(), *(a.program for a in toolchain.ALTERNATIVES)]
    named = set(re.findall(r"[\w.+-]+", (ROOT / "bazelw").read_text()))
    assert {package for p in programs for package in p.packages.split()} <= named


def test_everything_public_is_documented() -> None:
    """No attribute, argument or field without a sentence."""
    empty = [line for line in rules_doc.page().splitlines() if line.endswith("|  |")]
    assert empty == []


@pytest.mark.parametrize(
    "lock", ["requirements.lock", "requirements-quantize.lock", "requirements-test.lock"]
)
def test_every_locked_package_has_hashes(lock: str) -> None:
    text = (ROOT / lock).read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", " "))]
    assert lines
    assert [line for line in lines if "==" not in line or "--hash=sha256:" not in line] == []
    assert "http" not in text


def test_the_test_lock_agrees_with_the_lock() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / name).read_text()
        return {line.split()[0] for line in text.splitlines() if "==" in line.split("--")[0]}

    assert pins("requirements.lock") <= pins("requirements-quantize.lock")
    assert pins("requirements-quantize.lock") <= pins("requirements-test.lock")


@pytest.mark.parametrize(
    ("command", "tests"),
    [
        ("run //examples:tour", False),
        ("build //...", True),
        ("test //tests:crt", True),
        ("--output_base=/x test //tests:crt", True),
    ],
)
def test_bazelw_without_root_prints_the_line_to_run(
    tmp_path: Path, command: str, tests: bool
) -> None:
    """A PATH with nothing but a shell, `id` that is not root, and an apt-get that must not run."""
    for name in ("dirname", "python3"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    for name, body in {"id": "echo 1000", "apt-get": "echo ran; exit 9"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)

    run = subprocess.run(
        ["/bin/sh", str(ROOT / "bazelw"), *command.split()],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert run.returncode == 3
    assert run.stdout == ""
    assert "apt-get install --no-install-recommends -y bazel-bootstrap gcc g++" in run.stderr
    assert "gcc-arm-none-eabi" in run.stderr
    assert "qemu-system-arm" in run.stderr
    # What only tests need is gigabytes.
    for package in ("gcc-riscv64-unknown-elf", "qemu-system-misc", "qemu-user"):
        assert (package in run.stderr) == tests, package


def test_the_example_of_a_workspace_has_the_models_of_the_others() -> None:
    # A repository of its own, which Bazel puts beside ours.
    beside = ROOT.parent / "sensor_example"
    example = beside if beside.exists() else ROOT / "examples" / "external_workspace"
    copies = sorted((example / "models").iterdir())
    assert copies
    for copy in copies:
        assert copy.read_bytes() == (ROOT / "examples" / "models" / copy.name).read_bytes()


def test_module_bazel_registers_what_the_workspace_does() -> None:
    text = (ROOT / "MODULE.bazel").read_text()
    assert 'register_toolchains("//rules/toolchains:all")' in text


def test_the_compilers_inputs_are_all_it_imports() -> None:
    """What the worker imports is in `compiler_files`: a sandbox has nothing else."""
    listing = (ROOT / "mlftool" / "BUILD.bazel").read_text().partition('"runtime_files"')[0]
    excluded, added = re.findall(r"\[\n(.*?)\n +\]", listing, re.DOTALL)[-2:]
    folders = {e.split("/")[0] for e in re.findall(r'"(\w+/\*+)"', excluded)}
    single = {*re.findall(r'"(\w+\.py)"', excluded)}
    script = "import sys, rules.private.tools.worker as w\nprint(*sorted(sys.modules), sep='\\n')"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )  # fmt: skip
    names = [m[8:].replace(".", "/") for m in run.stdout.split() if m.startswith("mlftool.")]
    files = {f"{n}/__init__.py" if (ROOT / "mlftool" / n).is_dir() else f"{n}.py" for n in names}
    assert "cli/compile.py" in files
    missing = {
        f for f in files
        if (f.split("/")[0] in folders or f in single) and f'"{f}"' not in added
    }  # fmt: skip
    assert missing == set()


def test_arguments_that_are_checked_for_spelling_are_the_macro_s() -> None:
    tree = ast.parse((ROOT / "rules/private/firmware.bzl").read_text())
    (macro,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "mlf_firmware")
    (listed,) = (
        ast.literal_eval(n.value)
        for n in tree.body
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "_ARGUMENTS"
    )
    assert listed == sorted(a.arg for a in macro.args.args if a.arg != "name")
