"""Statements of pages that can be compared with what they are about."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from shared import REPO

from mlftool.cli import main


def page(name: str) -> str:
    return " ".join((REPO / name).read_text().split())


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
def test_the_figures_of_the_vm_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path / "cache"))
    found = re.search(
        r"takes ([\d,]+) instructions and ([\d,]+) bytes of flash with `aot`, ([\d,]+) and "
        r"([\d,]+) with `vm`",
        page("docs/vm.md"),
    )
    assert found
    stated = [int(n.replace(",", "")) for n in found.groups()]
    model = REPO / "examples/models/gesture_int8.onnx"
    measured = []
    for executor in ("aot", "vm"):
        report = tmp_path / f"{executor}.json"
        files = ["--inputs", str(model.with_suffix(".npz")), "--report", str(report)]
        words = ["run", str(model), *files, "--on", "cortex-m4", "--executor", executor]
        assert main(words) == 0
        data = json.loads(report.read_text())
        measured += [data["instructions"], data["flash_bytes"]]
    assert stated == pytest.approx(measured, rel=0.02)


def test_pages_and_package_say_the_same_of_python() -> None:
    stated = re.search(r"Python (3\.\d+) or newer", page("COMPATIBILITY.md"))
    asked = re.search(r'requires-python = ">=(3\.\d+)"', (REPO / "pyproject.toml").read_text())
    assert stated
    assert asked
    assert stated[1] == asked[1]


def test_the_tutorial_has_the_bazelrc_of_the_example() -> None:
    # A repository of its own under Bazel, which puts it beside ours.
    beside = REPO.parent / "sensor_example"
    example = beside if beside.exists() else REPO / "examples/external_workspace"
    lines = (example / ".bazelrc").read_text()
    assert f"```\n{lines}```" in (REPO / "docs/tutorial.md").read_text()


def test_the_readme_s_workspace_exports_its_manifest() -> None:
    text = page("README.md")
    exported = re.search(r"exports_files\(\[(.*?)\]\)", text)
    assert exported
    for name in ("models.yaml", "digits.onnx", "digits.npz"):
        assert f'"{name}"' in exported[1]


def test_the_style_page_has_twenty_pairs() -> None:
    rows = [r for r in (REPO / "docs/style.md").read_text().splitlines() if r.startswith("| ")]
    pairs = [row.strip("| ").split(" | ") for row in rows[1:]]
    assert len(pairs) == 20
    for before, after in pairs:
        assert before != after
    readme = page("README.md")
    assert [before for before, _ in pairs if before.rstrip(".") in readme] == []
