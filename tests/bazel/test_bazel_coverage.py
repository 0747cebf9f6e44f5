"""`bazel coverage` of a consumer's own tests, against gcov's report of the same program."""

from __future__ import annotations

import subprocess

import pytest
from nested import Workspace

pytestmark = pytest.mark.sampled(4, table="long builds")

FILES = {
    "BUILD.bazel": 'cc_library(name = "l", srcs = ["l.c"])\n'
    + "".join(
        f'cc_test(name = "t{i}", srcs = ["t.c"], args = ["{i}"], deps = [":l"])\n' for i in (0, 1)
    ),
    "l.c": "int l(int x) {\n  if (x)\n    return 7;\n  return 8;\n}\nint not_called(void) {\n"
    "  return 1;\n}\n",
    "t.c": "int l(int);\nint main(int argc, char **argv) {\n  (void)argc;\n"
    "  return l(argv[1][0] == '1') - 7 + (argv[1][0] == '1') - 1;\n}\n",
}


@pytest.fixture(scope="module")
def covered(built: Workspace) -> Workspace:
    folder = built.folder / "covered"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    models = [f"@models//gesture_int8:{target}_test" for target in ("host", "cortex-m4")]
    tests = ("//covered:t0", "//covered:t1", *models)
    wide = ("--combined_report=lcov", "--instrumentation_filter=.")
    built.bazel("coverage", *built.options(), *wide, *tests)
    return built


def lines(report: str) -> dict[int, int]:
    """Line -> count of l.c in an lcov report."""
    (part,) = (p for p in report.split("end_of_record\n") if "SF:covered/l.c\n" in p)
    pairs = (line[3:].split(",") for line in part.splitlines() if line.startswith("DA:"))
    return {int(line): int(count) for line, count in pairs}


def test_counts_are_those_of_gcov(covered: Workspace) -> None:
    folder = covered.folder / "gcov"
    folder.mkdir()
    for name in ("l.c", "t.c"):
        (folder / name).write_text(FILES[name])
    subprocess.run(["gcc", "--coverage", "l.c", "t.c", "-o", "t"], cwd=folder, check=True)
    for i in ("0", "1"):
        subprocess.run(["./t", i], cwd=folder, check=True)
    subprocess.run(["gcov", "t-l.c"], cwd=folder, check=True, capture_output=True)
    rows = [row.split(":", 2) for row in (folder / "l.c.gcov").read_text().splitlines()]
    expected = {
        int(line): 0 if "#" in count else int(count)
        for count, line, _ in rows
        if count.strip() != "-"
    }

    # What rules make in the output base has no coverage of its own.
    merged = (covered.folder / "bazel-out" / "_coverage" / "_coverage_report.dat").read_text()
    assert lines(merged) == expected
    assert "FNDA:0,not_called" in merged
    assert "FNDA:2,l" in merged


def test_a_test_has_a_report_of_its_own(covered: Workspace) -> None:
    for i, (seven, eight) in enumerate([(0, 1), (1, 0)]):
        report = covered.folder / "bazel-testlogs" / "covered" / f"t{i}" / "coverage.dat"
        found = lines(report.read_text())
        assert (found[3], found[4]) == (seven, eight)


def test_images_of_boards_have_no_counters(covered: Workspace) -> None:
    """They have no library for gcov's counters, and their instructions are counted."""
    images = list(covered.folder.glob("bazel-out/*/bin/external/models/*/cortex-m4_firmware.elf"))

    assert images
    assert [image for image in images if b"gcov" in image.read_bytes()] == []
