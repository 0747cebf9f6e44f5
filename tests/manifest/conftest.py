"""Folders in which the manifests of the corpus find the files they name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from manifest_corpus import Place

FILES = ("kws.onnx", "vww.onnx", "kws.npz", "kws.json", "models/kws.onnx", "models/kws.npz")


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
