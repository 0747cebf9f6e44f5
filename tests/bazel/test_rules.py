"""Rules around models, in a package of the example workspace: sizes, output groups, budgets."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from nested import EXAMPLE, ROOT, Workspace

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf.archive import read
from mlftool.mlf.interface import decode

PACKAGE = """
load(
    "@mlftool//rules:defs.bzl",
    "mlf_arena_test", "mlf_benchmark", "mlf_board", "mlf_cc_library", "mlf_compile", "mlf_firmware",
    "mlf_golden_test", "mlf_import", "mlf_size_report", "mlf_vectors",
)
load("@rules_cc//cc:defs.bzl", "cc_library")

MODEL = "//:models/gesture_int8.onnx"
HOST_ARENA = {arena}

mlf_compile(
    name = "gesture",
    max_constants_bytes = 4000,
    max_workspace_bytes = HOST_ARENA,
    model = MODEL,
    out = "gesture.tar",
)
mlf_import(name = "imported", archive = "gesture.tar", modules = ["gesture"])
mlf_size_report(name = "gesture_size", program = "@models//gesture_int8:cortex-m4_firmware")

# Libraries do not know of the limits of what they are made of; Bazel does.
mlf_compile(
    name = "greedy",
    max_constants_bytes = 1000,
    max_workspace_bytes = HOST_ARENA - 1,
    model = MODEL,
)
mlf_cc_library(name = "greedy_library", archive = "greedy")
cc_library(name = "user", deps = ["greedy_library"])

[
    mlf_firmware(
        name = name,
        srcs = ["main.c"],
        flash_bytes = flash,
        platform = "@mlftool//rules/platforms:cortex-m4",
        ram_bytes = 1500,
        deps = ["@mlftool//crt:platform_headers", "@models//gesture_int8:cortex-m4"],
    )
    for name, flash in {"small": 8000, "large": 20000}.items()
]

[
    mlf_arena_test(
        name = name + "_arena_test",
        archive = "@models//gesture_int8:%s_archive" % name,
        library = "@models//gesture_int8:" + name,
        platform = platform,
        vectors = "//:models/gesture_int8.npz",
    )
    for name, platform in {"host": None, "cortex-m4": "@mlftool//rules/platforms:cortex-m4"}.items()
]

mlf_benchmark(
    name = "fast",
    repetitions = 3,
    runner = "@models//gesture_int8:host_runner",
    vectors = "//:models/gesture_int8.npz",
)
# What is made has the name of what is committed.
mlf_vectors(
    name = "golden",
    inputs = "//:models/gesture_int8.npz",
    runner = "@models//gesture_int8:host_runner",
)
mlf_golden_test(name = "vectors_test", size = "small", golden = "golden.npz", src = "golden")

cc_library(name = "hooks", srcs = ["main.c"])
mlf_board(name = "board", linker_script = "board.ld", target = "cortex-m4")
"""
FOLDER = EXAMPLE if EXAMPLE.exists() else ROOT / "examples" / "external_workspace"
MODEL = FOLDER / "models" / "gesture_int8.onnx"
SIZES = ("--aspects=@mlftool//rules:defs.bzl%mlf_size_aspect", "--output_groups=mlf_size")


@cache
def needs(target: str) -> tuple[int, int]:
    """Bytes of workspace and constants of the example's model: which kernels it gets is not what is
    tested here."""
    spec = ModuleSpec(MODEL, "gesture_int8", target)
    record = read(compile_modules([spec])).module("gesture_int8")
    assert record.interface
    found = decode(record.name, record.interface)
    return found.workspace_bytes, found.constants_bytes


def arena(target: str) -> int:
    return needs(target)[0]


def outputs(workspace: Workspace, pattern: str) -> list[Path]:
    """Files below bazel-out that match, of whatever configuration."""
    return sorted(p for p in (workspace.folder / "bazel-out").glob(f"*/bin/{pattern}"))


@pytest.fixture(scope="module")
def extras(built: Workspace) -> Workspace:
    """The workspace with a package of these rules."""
    folder = built.folder / "extras"
    folder.mkdir()
    (folder / "BUILD.bazel").write_text(PACKAGE.replace("{arena}", str(arena("host"))))
    shutil.copy(built.folder / "main.c", folder)
    (folder / "golden.npz").write_bytes(b"")
    return built


def test_an_aspect_measures_the_models_of_any_program(extras: Workspace) -> None:
    programs = ("//:sensor", "@models//gesture_int8:host_firmware")

    extras.build(*SIZES, *programs)

    host, board = (
        json.loads(path.read_text())
        for pattern in ("external/models/gesture_int8/host_firmware", "sensor")
        for path in outputs(extras, f"{pattern}.mlf_size.json")
    )
    for data, target in ((host, "host"), (board, "cortex-m4")):
        (row,) = data["models"]
        assert row["module"] == "gesture_int8"
        assert row["arena_bytes"] == row["bss_bytes"] == arena(target)
        assert row["code_bytes"] > 2000
        # The weights of the network and its softmax's tables, the same bytes wherever it runs.
        assert 3000 < row["constants_bytes"] < 4000
        assert data["other"]["flash_bytes"] > 0
    # The board's program is all of what is flashed.
    # Other tests may have built it in other modes.
    (image,) = (path for path in outputs(extras, "sensor.bin") if "fastbuild" in path.parts[-3])
    assert abs(image.stat().st_size - board["total"]["flash_bytes"]) < 64


def test_the_same_sizes_as_a_target_that_prints_them(extras: Workspace) -> None:
    table = extras.bazel("run", *extras.options(), "//extras:gesture_size")

    rows = [line.split() for line in table.splitlines() if line.startswith("gesture_int8")]
    assert len(rows) == 1
    assert rows[0][-1] == f"{arena('cortex-m4'):,}"


def test_output_groups_give_the_parts_of_an_archive(extras: Workspace) -> None:
    groups = ("archive", "sources", "headers", "objects", "report")

    extras.build(
        f"--output_groups={','.join(groups)}", "//extras:gesture", "//extras:imported_archive"
    )

    for name in ("gesture", "imported_archive"):
        (report,) = outputs(extras, f"extras/{name}.report.json")
        data = json.loads(report.read_text())
        assert data["total"]["workspace_bytes"] == arena("host")
        assert [module["module"] for module in data["modules"]] == ["gesture"]
        assert data["modules"][0]["inputs"][0]["name"] == "acceleration"
        (folder,) = outputs(extras, f"extras/{name}.files")
        files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
        assert {"src/gesture_lib0.c", "src/gesture_lib1.c", "include/tvmgen_gesture.h"} <= files


def test_every_build_checks_the_limits(extras: Workspace) -> None:
    targets = ("//extras:user", "//extras:small", "//extras:large")

    talk = extras.bazel("build", *extras.options(), "--keep_going", *targets, fails=True)

    for line in (
        "//extras:greedy: error[MLF0119]: max_constants_bytes: it is 1,000, and "
        f"{needs('host')[1]:,} are needed",
        f"//extras:greedy: error[MLF0119]: max_workspace_bytes: it is {arena('host') - 1:,}, and "
        f"{arena('host'):,} are needed",
        "//extras:small: error[MLF0119]: flash_bytes: it is 8,000, and ",
        "//extras:small: error[MLF0119]: ram_bytes: it is 1,500, and 1,712 are needed, 212 more",
        "help: raise the limit, or see what takes it: mlf_size_report",
    ):
        assert line in talk, talk
    assert "//extras:large: error[MLF0119]: flash_bytes" not in talk


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_the_reported_arena_is_enough_and_a_byte_less_is_refused(
    extras: Workspace, target: str
) -> None:
    test = ("--test_output=all", f"//extras:{target}_arena_test")

    talk = extras.bazel("test", *extras.options(), *test)

    first, _, second = talk.partition("with one byte less:")
    assert "equal to the reference within 0 (default for int8)" in first
    small = f"an arena of {arena(target) - 1} bytes is too small"
    assert f"error[MLF0605]: module 'gesture_int8': {small}" in second
    assert "refused, as it should be" in second


def test_bazel_run_prints_what_an_inference_costs(extras: Workspace) -> None:
    talk = extras.bazel("run", *extras.options(), "//extras:fast", "--", "--json")
    on_board = "@models//gesture_int8:cortex-m4_benchmark"
    board = extras.bazel("run", *extras.options(), on_board)

    (text,) = (line for line in talk.splitlines() if line.startswith("{"))
    host = json.loads(text)
    assert host["microseconds_min"] > 0
    (line,) = (line for line in board.splitlines() if line.startswith("  instructions"))
    assert int(line.split()[1].replace(",", "")) > 100_000
    assert "gesture_int8 on cortex-m4" in board


def test_committed_vectors_are_kept_by_bazel_run(extras: Workspace) -> None:
    golden = extras.folder / "extras" / "golden.npz"
    test = ("--test_output=all", "//extras:vectors_test")

    talk = extras.bazel("test", *extras.options(), *test, fails=True)
    assert "bytes are made, 0 are committed, and they differ" in talk
    assert "to accept this: bazel run //extras:vectors_test -- --update" in talk
    extras.bazel("run", *extras.options(), "//extras:vectors_test", "--", "--update")

    extras.bazel("test", *extras.options(), *test)
    made, given = np.load(golden), np.load(extras.folder / "models" / "gesture_int8.npz")
    assert set(made) == set(given)
    # The network is of integers, so what it gives is what was expected of it.
    assert all((made[name] == given[name]).all() for name in given)


def test_a_committed_build_file_is_kept_up_to_date(extras: Workspace) -> None:
    """The targets of a manifest without a repository rule."""
    folder, manifest = extras.folder / "committed", extras.folder / "models.yaml"
    folder.mkdir()
    command = [sys.executable, "-m", "mlftool", "bazel", "models.yaml", "--write"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    subprocess.run(
        [*command, "committed/BUILD.bazel"], cwd=extras.folder, env=environment, check=True
    )
    test = ("--test_output=all", "//committed:up_to_date_test")

    extras.bazel("test", *extras.options(), *test, "//committed:gesture_int8/host_tests")
    text = manifest.read_text()
    manifest.write_text(text.replace("absolute: 0", "absolute: 1", 1))
    talk = extras.bazel("test", *extras.options(), *test, fails=True)
    assert "committed/BUILD.bazel: error[MLF0121]: does not match its manifest" in talk
    assert "help: run: bazel run //committed:up_to_date_test -- --update" in talk
    extras.bazel("run", *extras.options(), "//committed:up_to_date_test", "--", "--update")
    assert 'absolute = "1",' in (folder / "BUILD.bazel").read_text()
    extras.bazel("test", *extras.options(), *test)
    manifest.write_text(text)


@pytest.mark.parametrize(
    ("setting", "program", "instead_of"),
    [
        (
            "platform_hooks=//extras:hooks",
            "@models//gesture_int8:host_firmware",
            "host_tvm_platform",
        ),
        ("board=//extras:board", "//:sensor", "mps2_an386"),
    ],
)
def test_a_setting_swaps_a_part_of_every_program(
    extras: Workspace, setting: str, program: str, instead_of: str
) -> None:
    flag = f"--@mlftool//rules/settings:{setting}"

    without, with_it = (
        extras.bazel("cquery", *extras.options(), *flags, f"deps({program})")
        for flags in ((), (flag,))
    )

    label = setting.partition("=")[2]
    assert (f"{label} (" in without, f"{instead_of} (" in without) == (False, True)
    assert (f"{label} (" in with_it, f"{instead_of} (" in with_it) == (True, False)


def test_copts_of_the_whole_build_reach_every_model(extras: Workspace) -> None:
    """Two words: were they one, the compiler would take the second for the value of the first."""
    flag = "--@mlftool//rules/settings:copts=-DFIRST=1 -fno-such-option"

    talk = extras.bazel("build", *extras.options(), flag, "@models//gesture_int8:host", fails=True)

    assert re.search(r"unrecognized command.line option .-fno-such-option.", talk), talk


def test_a_config_builds_a_library_for_its_board(extras: Workspace) -> None:
    library = "@models//gesture_int8:cortex-m4"
    line = "build:mps2_an386 --platforms=@mlftool//rules/platforms:mps2_an386\n"
    # The line that docs/rules.md gives.
    assert line in (ROOT / "docs" / "rules.md").read_text()
    bazelrc = extras.folder / ".bazelrc"
    bazelrc.write_text(bazelrc.read_text() + line)

    refused = extras.bazel("build", *extras.options(), library, fails=True)
    extras.bazel("build", *extras.options(), "--config=mps2_an386", library)

    assert "is incompatible and cannot be built" in refused
