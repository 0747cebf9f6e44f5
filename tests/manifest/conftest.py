"""Folders in which the manifests of the corpus find the files they name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
FILES = ("kws.onnx", "vww.onnx", "kws.npz", "models/kws.onnx", "models/kws.npz")

# The same examples every run, unless MLF_FUZZ asks for that many random ones.
FUZZ = settings(
    max_examples=int(os.environ.get("MLF_FUZZ", "500")),
    derandomize="MLF_FUZZ" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

Place = Callable[[Path], Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with the (empty) models and vectors of the corpus."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.onnx").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def put(folder: Path) -> Place:
    """Copies a manifest of the corpus into the folder; its path is its bare name."""

    def copy(manifest: Path) -> Path:
        shutil.copy(manifest, folder / manifest.name)
        return Path(manifest.name)

    return copy


def corpus(kind: str) -> list[object]:
    files = sorted((HERE / kind).rglob("*.yaml"))
    assert files
    return [pytest.param(f, id=f"{f.parent.name}/{f.stem}") for f in files]
