"""Models with external data as Bazel's sandbox shows them: every input is a symbolic link."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from mlftool.cli import main

ROOT = Path(__file__).parents[2]
ALSO = "; 1 more tensor is in it"  # one message for one fault


def two_weights() -> ModelProto:
    """y = x * scale + offset, both weights large enough to lie outside."""
    weights = [
        numpy_helper.from_array(np.arange(8, dtype=np.float32) + k, n)
        for k, n in enumerate(["scale", "offset"])
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "scale"], ["m"]),
            helper.make_node("Add", ["m", "offset"], ["y"]),
        ],
        "g",
        [info("x", TensorProto.FLOAT, [1, 8])],
        [info("y", TensorProto.FLOAT, [1, 8])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the real files lie: a model whose weights are in weights.bin, written by onnx."""
    folder = tmp_path / "store"
    folder.mkdir()
    onnx.save_model(
        two_weights(),
        folder / "model.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    return folder


@pytest.fixture
def sandbox(tmp_path: Path, store: Path) -> Path:
    folder = tmp_path / "sandbox"
    folder.mkdir()
    for name in ("model.onnx", "weights.bin"):
        (folder / name).symlink_to(store / name)
    return folder


def compile_(folder: Path, *flags: str | Path) -> int:
    arguments = ["compile", folder / "model.onnx", "-o", folder.parent / "out.tar", *flags]
    return main(list(map(str, arguments)))


def refusal(folder: Path, capsys: pytest.CaptureFixture[str], *flags: str | Path) -> list[str]:
    assert compile_(folder, *flags) == 2
    assert not (folder.parent / "out.tar").exists()
    return capsys.readouterr().err.replace(str(folder / "model.onnx"), "FILE").splitlines()


@pytest.fixture
def inside(tmp_path: Path) -> bytes:
    """The archive of the same model with its weights inside."""
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(two_weights().SerializeToString())
    assert compile_(folder) == 0
    return (tmp_path / "out.tar").read_bytes()


def test_external_data_change_nothing(inside: bytes, store: Path, sandbox: Path) -> None:
    out = store.parent / "out.tar"
    for folder, flags in ((store, ()), (sandbox, ("--data", sandbox / "weights.bin"))):
        out.unlink()
        assert compile_(folder, *flags) == 0
        assert out.read_bytes() == inside


def test_in_a_process_with_relative_paths(inside: bytes, sandbox: Path) -> None:
    arguments = ["compile", "model.onnx", "--data", "weights.bin", "-o", "out.tar"]
    subprocess.run(
        [sys.executable, "-m", "mlftool", *arguments],
        cwd=sandbox,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        check=True,
    )
    assert (sandbox / "out.tar").read_bytes() == inside


def test_declared_data_may_lie_elsewhere(inside: bytes, store: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (store / "weights.bin").rename(tmp_path / "other" / "weights.bin")
    assert compile_(store, "--data", tmp_path / "other" / "weights.bin") == 0
    assert (tmp_path / "out.tar").read_bytes() == inside


def test_undeclared_link(sandbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    help = "help: replace the link by the file, or declare it (--data FILE)"
    said = "external data 'weights.bin' is a symbolic link"
    assert refusal(sandbox, capsys) == [f"FILE: error[MLF0203]: tensor 'scale': {said}{ALSO}", help]


def test_a_file_beside_the_model_where_all_must_be_declared(
    inside: bytes, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store.parent / "out.tar").unlink()
    said = "external data 'weights.bin' is not declared"
    assert refusal(store, capsys, "--only-declared") == [
        f"FILE: error[MLF0203]: tensor 'scale': {said}{ALSO}",
        "help: list the file in `data` (--data FILE)",
    ]
    assert compile_(store, "--only-declared", "--data", store / "weights.bin") == 0
    assert (store.parent / "out.tar").read_bytes() == inside


def test_undeclared_file_behind_the_models_link(
    sandbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lies beside the file that model.onnx points to, where an action must not reach."""
    (sandbox / "weights.bin").unlink()
    assert refusal(sandbox, capsys) == [
        "FILE: error[MLF0203]: tensor 'scale': external data 'weights.bin' cannot be read: "
        f"No such file or directory{ALSO}",
        "help: keep the data file in the model's own folder, or declare it (--data FILE)",
    ]


def test_hard_links_are_the_same(
    inside: bytes, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.link(store / "weights.bin", store / "second.bin")
    (store.parent / "out.tar").unlink()
    assert "has several hard links" in refusal(store, capsys)[0]
    assert compile_(store, "--data", store / "weights.bin") == 0
    assert (store.parent / "out.tar").read_bytes() == inside


def test_declared_data_that_are_missing(
    sandbox: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (store / "weights.bin").unlink()
    lines = refusal(sandbox, capsys, "--data", sandbox / "weights.bin")
    assert lines[0] == (
        "FILE: error[MLF0203]: tensor 'scale': external data 'weights.bin' cannot be read: "
        f"No such file or directory{ALSO}"
    )


def test_declared_data_that_are_a_folder(
    sandbox: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "weights.bin").mkdir()
    lines = refusal(sandbox, capsys, "--data", tmp_path / "weights.bin")
    assert "external data 'weights.bin' cannot be read: Is a directory" in lines[0]


def test_two_declared_files_of_one_name(
    sandbox: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--data", sandbox / "weights.bin", "--data", store / "weights.bin"]
    assert refusal(sandbox, capsys, *flags) == [
        "FILE: error[MLF0203]: two --data files have the same name",
        "help: a model has its data in files of different names; give each of them once",
    ]
