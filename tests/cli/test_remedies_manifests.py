"""The remedies of `mlftool explain MLF01nn`: each mends a manifest that has the fault."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from remedies import Trial, covered, trial

__all__ = ["trial"]

HEAD = "version: 1\nmodels:\n  m:\n    model: m.onnx\n"
ARCHIVES = f"{HEAD}archives:\n"
# code -> the fault and what its remedy makes of it, in places of HEAD
EDITS = {
    "MLF0102": (
        "version: 1\nmodels: {m: {model: m.onnx}",
        "version: 1\nmodels: {m: {model: m.onnx}}",
    ),
    "MLF0104": (
        "version: 1\nmodels:\n  m: &base\n    model: m.onnx\n    executor: vm\n  n: *base\n",
        "version: 1\ndefaults: {executor: vm}\n"
        "models:\n  m: {model: m.onnx}\n  n: {model: m.onnx}\n",
    ),
    "MLF0105": (f"{HEAD}    executor: aot\n    executor: graph\n", f"{HEAD}    executor: graph\n"),
    "MLF0106": (f"{HEAD}    executer: aot\n", f"{HEAD}    executor: aot\n"),
    "MLF0107": ("version: 1\nmodels:\n  m:\n    executor: aot\n", f"{HEAD}    executor: aot\n"),
    "MLF0108": (f"{HEAD}    module_name: 7\n", f"{HEAD}    module_name: m7\n"),
    "MLF0109": (f"{HEAD}    optimize: tiny\n", f"{HEAD}    optimize: size\n"),
    "MLF0110": ("version: 1\nmodels:\n  my m:\n    model: m.onnx\n", HEAD),
    "MLF0111": (
        f"{ARCHIVES}  m: {{target: host, models: [m]}}\n",
        f"{ARCHIVES}  all: {{target: host, models: [m]}}\n",
    ),
    "MLF0112": (
        f"{HEAD}    targets: [mine]\n",
        f"targets:\n  mine: {{base: cortex-m4}}\n{HEAD}    targets: [mine]\n",
    ),
    "MLF0113": (f"{HEAD}    executor: eot\n", f"{HEAD}    executor: aot\n"),
    "MLF0114": (
        f"{ARCHIVES}  a: {{target: host, models: [m, n]}}\n",
        f"{ARCHIVES}  a: {{target: host, models: [m]}}\n",
    ),
    "MLF0117": (HEAD.replace("1", "99"), HEAD),
    "MLF0118": (f"{HEAD}    targets: [host, host]\n", f"{HEAD}    targets: [host]\n"),
    "MLF0119": (
        f"{HEAD}    targets: [cortex-m4]\n    budget: {{ram: 16B}}\n",
        f"{HEAD}    targets: [cortex-m4]\n    budget: {{ram: 1KiB}}\n",
    ),
    "MLF0120": (f"{HEAD}    executor: vm\n    unpacked_api: true\n", f"{HEAD}    executor: vm\n"),
}


@pytest.mark.parametrize("code", EDITS)
def test_edits(code: str, trial: Trial) -> None:
    trial.model("m")
    for text, there in zip(EDITS[code], (True, False), strict=True):
        (trial.folder / "m.yaml").write_text(text)
        trial.says(code, there, "check m.yaml")


def test_files(trial: Trial) -> None:
    trial.says("MLF0100", True, "check m.yml")
    trial.model("m")
    (trial.folder / "m.yaml").write_text(HEAD.replace("m.onnx", "sub/m.onnx"))
    trial.says("MLF0116", True, "check m.yaml")
    (trial.folder / "sub").mkdir()
    (trial.folder / "m.onnx").rename(trial.folder / "sub/m.onnx")
    trial.says("MLF0100", False, "check m.yaml")
    trial.says("MLF0116", False, "check m.yaml")
    file = trial.folder / "m.yaml"
    file.write_text(HEAD.replace("m.onnx", str(trial.folder / "sub/m.onnx")))
    trial.says("MLF0115", True, "check m.yaml")
    (trial.folder / "m.onnx").write_bytes((trial.folder / "sub/m.onnx").read_bytes())
    file.write_text(HEAD)
    trial.says("MLF0115", False, "check m.yaml")


def test_encoding(trial: Trial) -> None:
    trial.model("m")
    file = trial.folder / "m.yaml"
    file.write_bytes(f"# für alle\n{HEAD}".encode("latin1"))
    trial.says("MLF0101", True, "check m.yaml")
    line = ["iconv", "-f", "latin1", "-t", "utf8", file]
    file.write_bytes(subprocess.run(line, capture_output=True, check=True).stdout)
    trial.says("MLF0101", False, "check m.yaml")


def test_large(trial: Trial) -> None:
    trial.model("m")
    entries = [f"  m{i}:\n    model: m.onnx\n    # {'-' * 900}\n" for i in range(300)]
    for name, part in (("all", entries), ("a", entries[:150]), ("b", entries[150:])):
        (trial.folder / f"{name}.yaml").write_text(f"version: 1\nmodels:\n{''.join(part)}")
    trial.says("MLF0103", True, "bazel all.yaml --write BUILD")
    (trial.folder / "WORKSPACE").touch()
    trial.says("MLF0103", False, "bazel a.yaml --write BUILD")


def test_workspaces(trial: Trial) -> None:
    trial.model("m")
    file = trial.folder / "m.yaml"
    file.write_text(HEAD)
    trial.says("MLF0122", True, "bazel m.yaml --write BUILD")
    (trial.folder / "WORKSPACE").touch()
    trial.says("MLF0122", False, "bazel m.yaml --write BUILD")
    file.write_text(f"{HEAD}    targets: [cortex-m4]\n")
    trial.says("MLF0121", True, "bazel m.yaml --check BUILD")
    trial.says("MLF0121", False, "bazel m.yaml --write BUILD")
    trial.says("MLF0121", False, "bazel m.yaml --check BUILD")
    board = "targets:\n  mine: {base: cortex-m4, board: //boards/mine}\n"
    file.write_text(f"version: 1\n{board}{HEAD.removeprefix('version: 1')}    targets: [mine]\n")
    trial.says("MLF0123", True, "bazel m.yaml --write BUILD")
    (trial.folder / "boards/mine").mkdir(parents=True)
    (trial.folder / "boards/mine/BUILD").touch()
    trial.says("MLF0123", False, "bazel m.yaml --write BUILD")


def test_every_code_is_here() -> None:
    assert covered(Path(__file__)) == []
