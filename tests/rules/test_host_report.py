"""What the build writes of a measurement is the same each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shared import REPO

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import tar_bytes
from rules.private.tools.report import main

MODEL = REPO / "examples/models/vibration_int8.onnx"


def test_a_report_of_the_host_has_no_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path / "cache"))
    archive, report = tmp_path / "m.tar", tmp_path / "report.json"
    archive.write_bytes(tar_bytes(compile_modules([ModuleSpec(MODEL, "m")])))
    found = []
    for _ in range(2):
        inputs = str(MODEL.with_suffix(".npz"))
        assert main(["run", str(archive), "--inputs", inputs, "--report", str(report)]) == 0
        found.append(report.read_bytes())
    assert found[0] == found[1]
    assert json.loads(found[0])["samples"] > 0
