"""--config=asan and --config=ubsan by docs/rebuilds.md, and the filters of docs/remote.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from nested import EXAMPLE, ROOT, Workspace

PAGE = (ROOT / "docs" / "rebuilds.md").read_text()
LINES = re.findall(r"^    ((?:build|test):\w+ .*)$", PAGE, re.MULTILINE)
FAULTS = {
    "asan": ("heap-use-after-free", "int *p = malloc(4); free(p); *p = n; return 0;"),
    "ubsan": ("signed integer overflow", "return n + 0x7fffffff == 5;"),
}
BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_test")
[cc_test(name = name, srcs = [name + ".c"]) for name in ["asan", "ubsan"]]
"""
SUMMARY = re.compile(r"^(\S+:\S+) +(?:\(cached\) )?(PASSED|FAILED)", re.MULTILINE)


def outcomes(workspace: Workspace, *words: str, fails: bool = False) -> dict[str, str]:
    """Test -> outcome, of those that ran."""
    talk = workspace.bazel("test", *workspace.options(), "--color=no", *words, fails=fails)
    return {label.rpartition("//")[2]: outcome for label, outcome in SUMMARY.findall(talk)}


@pytest.fixture(scope="module")
def sanitized(built: Workspace) -> Iterator[Workspace]:
    """The workspace with the page's lines and no others of sanitizers, and with two faults."""
    rc = built.folder / ".bazelrc"
    before = rc.read_text()
    rest = [line for line in before.splitlines() if "san" not in line.partition(" ")[0]]
    rc.write_text("\n".join([*rest, *LINES]) + "\n")
    folder = built.folder / "faults"
    folder.mkdir()
    (folder / "BUILD.bazel").write_text(BUILD)
    for name, (_, body) in FAULTS.items():
        text = f"#include <stdlib.h>\nint main(int n, char **v) {{ (void)v; {body} }}\n"
        (folder / f"{name}.c").write_text(text)
    yield built
    rc.write_text(before)


def test_the_lines_are_the_same_wherever_they_are() -> None:
    assert len(LINES) == 4
    example = EXAMPLE if EXAMPLE.exists() else ROOT / "examples" / "external_workspace"
    for file in (ROOT / ".bazelrc", example / ".bazelrc", ROOT / "docs" / "tutorial.md"):
        found = re.findall(r"^(?:build|test):u?b?a?san .*$", file.read_text(), re.MULTILINE)
        assert sorted(found) == sorted(LINES), file


@pytest.mark.parametrize("name", FAULTS)
def test_a_sanitizer_finds_a_fault_and_none_in_models(sanitized: Workspace, name: str) -> None:
    fault = f"//faults:{name}"
    assert outcomes(sanitized, fault) == {f"faults:{name}": "PASSED"}

    words = (f"--config={name}", "--keep_going", "--test_output=errors", fault)
    talk = sanitized.bazel(
        "test", *sanitized.options(), *words, "@models//gesture_int8:all", fails=True
    )

    assert FAULTS[name][0] in talk
    found = {label.rpartition("//")[2]: outcome for label, outcome in SUMMARY.findall(talk)}
    # Boards have no library for sanitizers.
    assert found == {f"faults:{name}": "FAILED", "gesture_int8:host_test": "PASSED"}


@pytest.mark.parametrize(
    ("wanted", "tests"),
    [
        ("-mlf_kind=device", {"host_test"}),
        ("mlf_kind=host", {"host_test"}),
        ("mlf_kind=device", {"cortex-m4_test"}),
        ("mlf_board=mps2_an386", {"cortex-m4_test"}),
        ("-mlf_board=mps2_an386", {"host_test"}),
    ],
)
def test_filters_choose_tests(sanitized: Workspace, wanted: str, tests: set[str]) -> None:
    words = ("--build_tests_only", f"--test_tag_filters={wanted}", "@models//gesture_int8:all")
    found = outcomes(sanitized, *words)
    assert found == dict.fromkeys((f"gesture_int8:{name}" for name in tests), "PASSED")


def test_the_page_about_remote_builds_says_so() -> None:
    page = (ROOT / "docs" / "remote.md").read_text()
    assert "`--test_tag_filters=-mlf_kind=device` leaves the boards out" in page
    assert "`mlf_kind=host`, `mlf_kind=device` or `mlf_kind=budget`" in page
