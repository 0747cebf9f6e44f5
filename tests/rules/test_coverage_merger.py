"""The stand-in for Bazel's merger of coverage reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).absolute().parents[2] / "rules" / "compat"))
import coverage

FIRST = (
    "SF:a.c\nFN:1,f\nFNDA:2,f\nFNF:1\nFNH:1\nBRDA:2,0,0,1\nBRDA:2,0,1,-\nDA:1,2\nDA:2,0\n"
    "end_of_record\n"
)
SECOND = FIRST.replace("DA:2,0\n", "DA:2,3\n") + "SF:external/b.c\nDA:1,1\nend_of_record\n"
BOTH = (
    "SF:a.c\nFN:1,f\nFNDA:4,f\nFNF:1\nFNH:1\nBRDA:2,0,0,2\nBRDA:2,0,1,0\nBRF:2\nBRH:1\nDA:1,4\n"
    "DA:2,3\nLH:2\nLF:2\nend_of_record\n"
)


@pytest.mark.parametrize("manifest", ["a.c\nbazel-out/a.gcno\n", ""])
def test_reports_are_added(tmp_path: Path, manifest: str) -> None:
    for i, text in enumerate((FIRST, SECOND)):
        (tmp_path / "in" / str(i)).mkdir(parents=True)
        (tmp_path / "in" / str(i) / "x.dat").write_text(text)
    (tmp_path / "manifest.txt").write_text(manifest)
    out = tmp_path / "in" / "out.dat"

    for _again in range(2):
        assert coverage.main([
            f"--coverage_dir={tmp_path / 'in'}", f"--output_file={out}",
            "--filter_sources=.*external/.+", f"--source_file_manifest={tmp_path / 'manifest.txt'}",
        ]) == 0  # fmt: skip
        assert out.read_text() == BOTH


def test_a_list_of_reports_without_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "one.dat").write_text(FIRST)
    (tmp_path / "list").write_text(f"{tmp_path / 'one.dat'}\n{tmp_path / 'none.dat'}\n")
    words = [f"--reports_file={tmp_path / 'list'}", f"--output_file={tmp_path / 'out'}"]

    assert coverage.main(words) == 0

    assert (tmp_path / "out").read_text().startswith("SF:a.c\nFN:1,f\nFNDA:2,f\n")
