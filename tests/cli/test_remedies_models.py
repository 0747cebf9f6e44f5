"""The remedies of `mlftool explain MLF02nn` and `MLF03nn`: each mends a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from remedies import Trial, covered, trial

__all__ = ["trial"]

TO = "-o m.tar"
COMPILE = f"compile m.onnx {TO}"
WIDE = "float[1,n] x) => (float[1,n] y"

# code -> (body, head) of a model with the fault, and of the mended one
EDITS = {
    "MLF0207": (("y = Add(x, w9)",), ("y = Add(x, x)",)),
    "MLF0301": (("y = MyOp(x)",), ("y = Relu(x)",)),
    "MLF0303": (
        ("y = MatMul(x, w)", "float[4,5] x, float[6,3] w) => (float[4,3] y"),
        ("y = MatMul(x, w)", "float[4,6] x, float[6,3] w) => (float[4,3] y"),
    ),
    "MLF0315": ((RELU := "y = Relu(x)", "float[1,4] x) => (float[2,4] y"), (RELU,)),
    "MLF0316": (
        ("y = Relu(x)", "float[1,4] x) => (float[1,4] y, float[1,4] x"),
        ("y = Relu(x) z = Identity(x)", "float[1,4] x) => (float[1,4] y, float[1,4] z"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", EDITS)
def test_edits(code: str, trial: Trial) -> None:
    for model, there in zip(EDITS[code], (True, False), strict=True):
        trial.model("m", *model)
        trial.says(code, there, COMPILE)


def test_files(trial: Trial) -> None:
    trial.says("MLF0201", True, COMPILE)
    path = trial.model("m")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    trial.says("MLF0202", True, COMPILE)
    path.write_bytes(whole)
    trial.says("MLF0202", False, COMPILE)


def test_external_data(trial: Trial) -> None:
    model = onnx.load(trial.model("m", "y = Add(x, w)"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    onnx.save(model, "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    data = (trial.folder / "m.bin").rename(trial.folder / "elsewhere")
    trial.says("MLF0203", True, COMPILE)
    (trial.folder / "m.bin").symlink_to(data)
    trial.says("MLF0203", True, COMPILE)
    trial.says("MLF0203", False, f"{COMPILE} --data m.bin")
    (trial.folder / "m.bin").unlink()
    (trial.folder / "m.bin").write_bytes(data.read_bytes()[:-1])
    assert "\nhelp: is the copy complete?" in trial.says("MLF0203", True, COMPILE)
    (trial.folder / "m.bin").write_bytes(data.read_bytes())
    trial.says("MLF0203", False, COMPILE)


def test_opsets(trial: Trial) -> None:
    trial.model("m", opset=99)
    trial.says("MLF0204", True, COMPILE)
    trial.model("m", opset=21)
    trial.says("MLF0204", False, COMPILE)


def test_kinds(trial: Trial) -> None:
    path = trial.model("m")
    model = onnx.load(path)
    model.graph.input[0].type.CopyFrom(
        onnx.helper.make_sparse_tensor_type_proto(onnx.TensorProto.FLOAT, [1, 4])
    )
    path.write_bytes(model.SerializeToString())
    trial.says("MLF0205", True, COMPILE)
    trial.model("m")
    trial.says("MLF0205", False, COMPILE)


def test_options(trial: Trial) -> None:
    trial.model("m", "y = Relu(x)", WIDE)
    trial.says("MLF0206", True, COMPILE)
    trial.says("MLF0208", True, f"{COMPILE} --input-shape z:1,4")
    trial.says("MLF0209", True, f"{COMPILE} --input-shape x:1,4 --input-value z:1")
    trial.says("MLF0206", False, f"{COMPILE} --input-shape x:1,4")
    trial.says("MLF0209", False, f"{COMPILE} --input-shape x:1,4 --input-value x:1")
    trial.model("m", "y = Identity(x)", "string[2] x) => (string[2] y")
    packed = "--executor aot --executor-aot-interface-api packed"
    said = trial.says("MLF0304", True, f"{COMPILE} {packed}")
    assert "c" in said
    trial.says("MLF0304", False, COMPILE)
    trial.model("m", "z = Softmax(x) y = Softmax(z)", "float[64] x) => (float[64] y")
    trial.says("MLF0305", True, f"{COMPILE} --pool tiny=16")
    trial.says("MLF0305", False, f"{COMPILE} --pool tiny=1024")


@pytest.mark.parametrize(
    ("code", "body", "head"),
    [
        ("MLF0302", "y = OptionalGetElement(x)", "float x) => (float[1,4] y"),
        ("MLF0319", "y = OptionalHasElement(x)", "float x) => (bool y"),
    ],
)
def test_optionals(code: str, body: str, head: str, trial: Trial) -> None:
    path = trial.model("m", body, head, 18)
    model = onnx.load(path)
    of = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    model.graph.input[0].type.CopyFrom(onnx.helper.make_optional_type_proto(of))
    path.write_bytes(model.SerializeToString())
    trial.says(code, True, COMPILE)
    trial.says(code, False, f"{COMPILE} --input-shape x:1,4")


def test_every_code_is_here() -> None:
    assert covered(Path(__file__)) == []
