"""Whether an archive that was compiled twice is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from batch import compile_model
from builders import Net

from mlftool.compile import bundle
from mlftool.mlf import write_tar
from rules.private.tools import reproduced


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    net = Net()
    x = net.input("x", "float32", (1, 4))
    write_tar(bundle([compile_model(net.model(net.node("Relu", x)))]), tmp_path / "first.tar")
    return tmp_path / "first.tar"


def test_the_same_bytes_pass(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduced.main([str(archive), str(archive), "//:x"]) == 0
    said = f"//:x: {archive.stat().st_size:,} bytes, the same both times\n"
    assert capsys.readouterr().out == said


def test_what_differs_is_named(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = archive.with_name("second.tar")
    other.write_bytes(archive.read_bytes().replace(b"Relu", b"ReLu"))
    assert other.read_bytes() != archive.read_bytes()
    assert reproduced.main([str(archive), str(other), "//:x"]) == 1
    first, *names = capsys.readouterr().err.splitlines()
    assert first == "//:x: compiled twice, these differ:"
    assert names
    assert all(name.startswith("  ./") or "/" in name for name in names)


def test_a_difference_outside_the_files_is_one(archive: Path) -> None:
    other = archive.with_name("second.tar")
    other.write_bytes(archive.read_bytes() + bytes(512))
    assert reproduced.differences(archive, other) == ["the order or the headers of the files"]
