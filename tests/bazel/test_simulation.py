"""Where boards are simulated, and by what tests are chosen."""

from __future__ import annotations

import re

import pytest
from nested import Workspace

SETTING = "--@mlftool//rules/settings:simulators"
REPORT = "@models//gesture_int8:{}_report"
TAGGED = """
load("@mlftool//rules:defs.bzl", "mlf_report")

mlf_report(
    name = "tagged",
    runner = "@models//gesture_int8:host_runner",
    tags = ["local", "no-cache", "somebody"],
    vectors = "models/gesture_int8.npz",
)
"""


def requirements(workspace: Workspace, target: str, *options: str) -> set[str]:
    """What the report's action asks of where it runs."""
    query = f'mnemonic("MlfReport", {target})'
    talk = workspace.bazel("aquery", *workspace.options(), *options, query)
    found = re.findall(r"^  ExecutionInfo: \{(.*)\}$", talk, re.MULTILINE)
    assert "Mnemonic: MlfReport" in talk
    return {word.partition(":")[0] for text in found for word in text.split(", ")}


def test_a_board_is_simulated_here_unless_the_build_says_otherwise(built: Workspace) -> None:
    board, host = REPORT.format("cortex-m4"), REPORT.format("host")
    assert requirements(built, board) == {"no-remote-exec"}
    assert requirements(built, board, f"{SETTING}=anywhere") == set()
    assert requirements(built, host) == set()


def test_tags_hold_for_the_action(built: Workspace) -> None:
    file = built.folder / "BUILD.bazel"
    before = file.read_text()
    file.write_text(before + TAGGED)
    try:
        assert requirements(built, "//:tagged") == {"local", "no-cache"}
    finally:
        file.write_text(before)


def test_another_place_is_refused(built: Workspace) -> None:
    words = ("--nobuild", f"{SETTING}=there", REPORT.format("cortex-m4"))
    talk = built.bazel("build", *built.options(), *words, fails=True)
    assert (
        "//rules/settings:simulators: error[MLF0414]: got 'there', expected anywhere or here"
        in talk
    )


@pytest.mark.parametrize(
    ("tag", "names"),
    [
        ("mlf_kind=device", {"cortex-m4_test"}),
        ("mlf_kind=host", {"host_test"}),
        ("mlf_board=mps2_an386", {"cortex-m4_test"}),
    ],
)
def test_tests_are_chosen_by_kind_and_board(built: Workspace, tag: str, names: set[str]) -> None:
    query = f'attr("tags", "[\\[ ]{tag}[,\\]]", tests(@models//gesture_int8:all))'
    talk = built.bazel("query", *built.loading(), query)
    found = {line.rpartition(":")[2] for line in talk.splitlines() if line.startswith("@models")}
    assert {name for name in found if not name.endswith("_budget_test")} == names
