"""Committed copies of what a build makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlftool.runtime.vectors import save_npz
from rules.private.tools import golden

X = np.arange(6, dtype=np.int8).reshape(2, 3)


def test_the_same_bytes_are_no_difference(tmp_path: Path) -> None:
    for name in ("made", "old"):
        save_npz(tmp_path / f"{name}.npz", {"x": X})

    assert list(golden.differences(tmp_path / "made.npz", tmp_path / "old.npz")) == []


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ({"x": X + 1, "y": X}, ["x: 6 of 6 elements differ"]),
        ({"x": X, "y": X, "z": X}, ["z: only committed"]),
        ({"x": X}, ["y: only made"]),
        ({"x": X.astype(float), "y": X}, ["x: int8[2, 3] is made, float64[2, 3] is committed"]),
    ],
)
def test_arrays_that_differ(tmp_path: Path, old: dict[str, np.ndarray], said: list[str]) -> None:
    save_npz(tmp_path / "made.npz", {"x": X, "y": X})
    save_npz(tmp_path / "old.npz", old)

    assert list(golden.differences(tmp_path / "made.npz", tmp_path / "old.npz")) == said


def test_a_file_that_another_program_wrote(tmp_path: Path) -> None:
    save_npz(tmp_path / "made.npz", {"x": X})
    np.savez_compressed(tmp_path / "old.npz", x=X)

    found = list(golden.differences(tmp_path / "made.npz", tmp_path / "old.npz"))

    assert found == ["the arrays are equal, the files are not"]


def test_text_is_shown_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "made.c").write_text("a\nb\n")
    (tmp_path / "old.c").write_text("a\n" + "c\n" * 100)
    files = [str(tmp_path / "made.c"), str(tmp_path / "old.c")]

    assert golden.main([*files, "x/old.c", "//x:t"]) == 1

    said = capsys.readouterr().out
    assert "+b\n" in said or "-c\n" in said
    assert "lines more" in said
    assert said.endswith("to accept this: bazel run //x:t -- --update\n")


def test_update_writes_to_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "made.c").write_text("new\n")
    (tmp_path / "old.c").write_text("old\n")
    arguments = [str(tmp_path / "made.c"), str(tmp_path / "old.c"), "old.c", "//:t", "--update"]

    monkeypatch.delenv("BUILD_WORKSPACE_DIRECTORY", raising=False)
    assert golden.main(arguments) == 3
    assert "start it with: bazel run //:t -- --update" in capsys.readouterr().err
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    assert golden.main(arguments) == 0
    assert (tmp_path / "old.c").read_text() == "new\n"
