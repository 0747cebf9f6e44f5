"""Faults that a command reports, and the remedies of `mlftool explain`, tried in turn."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx.parser
import pytest

from mlftool.cli import main
from mlftool.explain import devices, manifests, models
from mlftool.runtime.vectors import save_npz

Array = npt.NDArray[Any]
RELU = "y = Relu(x)"
# Where others try it, or why no test here does.
ELSEWHERE = {
    **dict.fromkeys(("MLF0311", "MLF0312", "MLF0313", "MLF0314"), "tests/cli/test_advice.py"),
    **dict.fromkeys(("MLF0317", "MLF0318"), "tests/cli/test_advice.py"),
    "MLF0407": "Bazel's worker",
    **dict.fromkeys(("MLF0408", "MLF0409"), "tests/tune"),
    "MLF0411": "tests/backends",
    **dict.fromkeys(("MLF0412", "MLF0413", "MLF0617"), "tests/quantize"),
    **dict.fromkeys(("MLF0503", "MLF0506"), "tests/mlf"),
    "MLF0414": "tests/bazel",
    **dict.fromkeys(("MLF0608", "MLF0612", "MLF0614", "MLF0615"), "of boards: tests/runtime"),
    **dict.fromkeys(("MLF0607", "MLF0611"), "of archives that another program made"),
    **dict.fromkeys(("MLF0605", "MLF0701", "MLF0703", "MLF0704"), "of crashes, memory and disk"),
    "MLF0705": "tests/cli/test_limits.py",
    "MLF0900": "a bug, which has no remedy of the user's",
}


class Trial:
    """A folder, and commands that are run in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys

    def says(self, code: str, there: bool, *lines: str) -> str:
        """Runs commands of mlftool, of which the last reports the code or, mended, succeeds. Its
        messages."""
        for line in lines:
            self._capsys.readouterr()
            status = main(shlex.split(line))
        said = self._capsys.readouterr().err
        assert (f"[{code}]" in said) == there, f"{lines[-1]}: {said}"
        assert there or status == 0, f"{lines[-1]}: {said}"
        return said

    def model(
        self, name: str, body: str = RELU, head: str = "float[1,4] x) => (float[1,4] y",
        opset: int = 17,
    ) -> Path:  # fmt: skip
        about = f'ir_version: 8, opset_import: ["": {opset}]'
        text = f"<{about}> m ({head}) {{ {body} }}"
        path = self.folder / f"{name}.onnx"
        path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
        return path

    def vectors(self, name: str, **arrays: Array) -> None:
        save_npz(self.folder / f"{name}.npz", arrays)


@pytest.fixture
def trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Trial:
    monkeypatch.chdir(tmp_path)
    return Trial(tmp_path, capsys)


def covered(file: Path) -> list[str]:
    """The codes of a file's part of `explain` that neither it nor ELSEWHERE names."""
    part = {"manifests": manifests, "models": models, "devices": devices}[file.stem.split("_")[-1]]
    named = set(re.findall(r"MLF\d{4}", file.read_text(encoding="utf-8")))
    return [code for code in part.EXPLANATIONS if code not in named | ELSEWHERE.keys()]
