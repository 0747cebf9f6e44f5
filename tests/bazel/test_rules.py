"""Rules around models, in a package of the example workspace: sizes, output groups, budgets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nested import Workspace

PACKAGE = """
load("@mlftool//rules:defs.bzl", "mlf_size_report")

mlf_size_report(name = "gesture_size", program = "@models//gesture_int8:cortex-m4_firmware")
"""
SIZES = ("--aspects=@mlftool//rules:defs.bzl%mlf_size_aspect", "--output_groups=mlf_size")


def outputs(workspace: Workspace, pattern: str) -> list[Path]:
    """Files below bazel-out that match, of whatever configuration."""
    return sorted(p for p in (workspace.folder / "bazel-out").glob(f"*/bin/{pattern}"))


@pytest.fixture(scope="module")
def extras(built: Workspace) -> Workspace:
    """The workspace with a package of these rules."""
    folder = built.folder / "extras"
    folder.mkdir()
    (folder / "BUILD.bazel").write_text(PACKAGE)
    return built


def test_an_aspect_measures_the_models_of_any_program(extras: Workspace) -> None:
    programs = ("//:sensor", "@models//gesture_int8:host_firmware")

    extras.build(*SIZES, *programs)

    host, board = (
        json.loads(path.read_text())
        for pattern in ("external/models/gesture_int8/host_firmware", "sensor")
        for path in outputs(extras, f"{pattern}.mlf_size.json")
    )
    for data in (host, board):
        (row,) = data["models"]
        assert (row["module"], row["arena_bytes"], row["bss_bytes"]) == ("gesture_int8", 1536, 1536)
        assert row["code_bytes"] > 2000
        # The weights of the network, the same bytes wherever it runs.
        assert 3000 < row["constants_bytes"] < 4000
        assert data["other"]["flash_bytes"] > 0
    # The board's program is all of what is flashed.
    (image,) = outputs(extras, "sensor.bin")
    assert abs(image.stat().st_size - board["total"]["flash_bytes"]) < 64


def test_the_same_sizes_as_a_target_that_prints_them(extras: Workspace) -> None:
    table = extras.bazel("run", *extras.options(), "//extras:gesture_size")

    rows = [line.split() for line in table.splitlines() if line.startswith("gesture_int8")]
    assert len(rows) == 1
    assert rows[0][-1] == "1,536"
