"""Things written twice because Starlark and Python cannot read each other must agree."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.sources import FOREIGN_CFLAGS
from mlftool.targets import TARGETS
from rules.private.tools import probe

ROOT = Path(os.path.abspath(__file__)).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import rules_doc  # noqa: E402


def bzl(name: str) -> dict[str, Any]:
    """The globals of one of our .bzl files."""
    return rules_doc.run_bzl(f"//rules/private:{name}.bzl", {})


CPUS = bzl("cpus")["CPUS"]


@pytest.mark.parametrize("cpu", CPUS)
def test_toolchain_flags_are_the_targets(cpu: str) -> None:
    assert tuple(CPUS[cpu].flags) == TARGETS[cpu].cflags


def test_host_flags_are_the_targets() -> None:
    hosts = {name: tuple(flags) for name, flags in bzl("cpus")["HOSTS"].items()}
    assert hosts == {name: t.cflags for name, t in TARGETS.items() if t.is_host}


def test_foreign_flags_are_those_of_the_runtime() -> None:
    assert tuple(bzl("import")["FOREIGN_COPTS"]) == FOREIGN_CFLAGS


def test_compilers_of_objects_are_fingerprinted() -> None:
    programs = (toolchain.CC, toolchain.ARM_GCC, toolchain.RISCV_GCC, toolchain.AARCH64_GCC)
    assert {p.name for p in programs} == set(probe.COMPILERS)


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


def test_boards_are_those_of_the_runtime() -> None:
    ours = {cpu: row.board for cpu, row in CPUS.items() if row.board}
    assert ours == {cpu: board.name for cpu, board in BOARDS.items()}


def test_every_cross_target_has_a_constraint() -> None:
    """mlf_cc_library names one for each target but the host; //rules/platforms makes them."""
    assert {*CPUS, *bzl("cpus")["OTHERS"]} == {n for n, t in TARGETS.items() if not t.is_host}


def test_manifest_repository_watches_every_file_of_the_reader() -> None:
    folder = ROOT / "mlftool" / "manifest"
    assert bzl("manifest_repository")["READER_FILES"] == sorted(p.name for p in folder.glob("*.py"))


def test_manifest_packages_know_the_simulated_boards() -> None:
    from mlftool.manifest.bazel import SIMULATED

    assert {"host", *BOARDS} == SIMULATED


def test_the_page_about_the_rules_is_current() -> None:
    assert (ROOT / "docs" / "rules.md").read_text() == rules_doc.page(), (
        "run: python3 tools/rules_doc.py"
    )


def test_everything_public_is_documented() -> None:
    """No attribute, argument or field without a sentence."""
    empty = [line for line in rules_doc.page().splitlines() if line.endswith("|  |")]
    assert empty == []


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-test.lock"])
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

    assert pins("requirements.lock") <= pins("requirements-test.lock")


def test_bazelw_without_root_prints_the_line_to_run(tmp_path: Path) -> None:
    """A PATH with nothing but a shell, `id` that is not root, and an apt-get that must not run."""
    for name in ("dirname", "python3"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    for name, body in {"id": "echo 1000", "apt-get": "echo ran; exit 9"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)

    run = subprocess.run(
        ["/bin/sh", str(ROOT / "bazelw"), "build", "//..."],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert run.returncode == 3
    assert run.stdout == ""
    assert "apt-get install --no-install-recommends -y bazel-bootstrap gcc g++" in run.stderr
    assert "gcc-arm-none-eabi" in run.stderr
    assert "qemu-system-arm" in run.stderr


def test_the_example_of_a_workspace_has_the_models_of_the_others() -> None:
    # A repository of its own, which Bazel puts beside ours.
    beside = ROOT.parent / "sensor_example"
    example = beside if beside.exists() else ROOT / "examples" / "external_workspace"
    copies = sorted((example / "models").iterdir())
    assert copies
    for copy in copies:
        assert copy.read_bytes() == (ROOT / "examples" / "models" / copy.name).read_bytes()


def test_module_bazel_registers_what_the_workspace_does() -> None:
    """register_toolchains in MODULE.bazel takes no loop."""
    calls = [
        node
        for node in ast.walk(ast.parse((ROOT / "MODULE.bazel").read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "register_toolchains"
    ]
    names = [ast.literal_eval(a) for a in calls[0].args]
    assert names == [f"//rules/toolchains:{name}" for name in ("mlftool", *CPUS)]
