"""Everything that takes a model takes a TensorFlow Lite model, and knows it by its content."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shared import REPO
from tfl_models import chain, dense
from tfl_writer import Op, Sub, T, model

import mlftool
from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.frontends.models import TFLite, imported
from mlftool.stamps import Stamp

X = np.linspace(-1, 1, 4, dtype=np.float32)
WANTED = np.sin(np.exp(X))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "waves.tflite"
    path.write_bytes(chain(["EXP", "SIN"]))
    return path


def test_compiled_and_run_by_the_command_line(file: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", t0=X[None])
    np.savez(tmp_path / "out.npz", t2=WANTED[None])
    assert main(["compile", str(file), "-o", str(tmp_path / "m.tar")]) == 0
    vectors = ["--inputs", str(tmp_path / "in.npz"), "--expect", str(tmp_path / "out.npz")]
    assert main(["run", str(tmp_path / "m.tar"), *vectors]) == 0
    assert main(["run", str(file), *vectors]) == 0
    assert main(["run", str(file), "--executor", "debug", *vectors]) == 0
    assert main(["check", str(file)]) == 0


def test_the_content_decides_and_not_the_name(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "waves.onnx"
    other.write_bytes(file.read_bytes())
    assert imported(other, "m")[0].outputs == ("t2",)


@pytest.mark.parametrize("given", [Path, str, lambda f: f.read_bytes()])
def test_from_tflite(file: Path, given: object) -> None:
    mod, params = mlftool.from_tflite(given(file))  # type: ignore[operator]
    assert params == {}
    assert [v.name_hint for v in mod["main"].params] == ["t0"]
    (made,) = mlftool.load(mod).module().run({"t0": X}).values()
    np.testing.assert_allclose(np.asarray(made), WANTED, rtol=1e-6)
    assert mlftool.build(given(file), "host", executor="aot")  # type: ignore[operator]


def test_weights_that_operators_make_of_constants() -> None:
    """16-bit floats, as post-training quantisation writes them, and parts of a grouped layer."""
    w = np.random.default_rng(4).normal(size=(6, 4)).astype(np.float16)
    tensors = [
        T("x", (1, 4), "float32"),
        T("w", (6, 4), "float16", data=w),
        T("wide", (6, 4), "float32"),
        T("axis", (), "int32", data=0),
        *(T(f"part{k}", (3, 4), "float32") for k in range(2)),
        *(T(f"y{k}", (1, 3), "float32") for k in range(2)),
    ]
    options = {"FusedActivationFunction": 0}
    layers = [
        Op("FULLY_CONNECTED", (0, 4 + k, -1), (6 + k,), "FullyConnectedOptions", options)
        for k in range(2)
    ]
    split = Op("SPLIT", (3, 2), (4, 5), "SplitOptions", {"NumSplits": 2})
    file = model(Sub(tensors, [Op("DEQUANTIZE", (1,), (2,)), split, *layers], (0,), (6, 7)))
    made = mlftool.load(mlftool.from_tflite(file)[0]).module().run({"x": X[None]}).values()
    got = np.concatenate([np.asarray(part)[0] for part in made])
    np.testing.assert_allclose(got, w.astype(np.float32) @ X, rtol=1e-5)


def test_what_from_tflite_refuses(file: Path) -> None:
    with pytest.raises(MlfError, match="is not a TensorFlow Lite model"):
        mlftool.from_tflite(b"something else")
    with pytest.raises(MlfError, match=r"from_tflite\(\) cannot take int"):
        mlftool.from_tflite(3)  # type: ignore[arg-type]
    with pytest.raises(MlfError, match=r"shape \[5\] does not fit the model's \[4\]"):
        str(mlftool.from_tflite(file, {"t0": [5]})[0])
    with pytest.raises(MlfError, match="the model says float32"):
        mlftool.from_tflite(file, dtype_dict={"t0": "int8"})


def test_in_a_manifest(file: Path, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text("version: 1\nmodels:\n  waves: {model: waves.tflite}\n")
    assert main(["build", str(tmp_path / "models.yaml"), "-o", str(tmp_path / "out")]) == 0
    (archive,) = (tmp_path / "out").rglob("*.tar")
    (made,) = mlftool.load(archive).module().run({"t0": X}).values()
    np.testing.assert_allclose(np.asarray(made), WANTED, rtol=1e-6)


def test_an_unchanged_model_keeps_its_stamp(file: Path, tmp_path: Path) -> None:
    (tmp_path / "waves.tar").write_bytes(b"archive")
    stamp = Stamp(tmp_path, "waves.tar", ["settings"], [(file, [])])
    stamp.write(stamp.before())
    assert stamp.holds()
    file.write_bytes(chain(["EXP", "COS"]))
    assert not stamp.holds()


def test_an_input_that_is_given_becomes_a_constant() -> None:
    graph, _ = imported(TFLite(chain(["EXP"])), "m", input_values={"t0": (1, 2, 3, 4)})
    assert graph.inputs == ()
    assert graph.consts["t0"].tolist() == [1, 2, 3, 4]
    with pytest.raises(MlfError, match=r"3 numbers for float32\[4\]"):
        imported(TFLite(chain(["EXP"])), "m", input_values={"t0": (1, 2, 3)})


def test_the_header_has_scales_and_zero_points() -> None:
    compiled = compile_module(ModuleSpec(TFLite(dense(np.random.default_rng(0))), "m"))
    assert compiled.imported.quantised["x"] == (float(np.float32(0.03)), -7)
    assert compiled.imported.quantised["y"] == (float(np.float32(0.21)), 5)


def test_a_signature_names_inputs_and_outputs() -> None:
    tensors = [T("serving_default_x:0", (4,), "float32"), T("Identity", (4,), "float32")]
    sub = Sub(tensors, [Op("EXP", (0,), (1,))], (0,), (1,))
    graph, _ = imported(TFLite(model(sub, names={0: "sound", 1: "words"})), "m")
    assert (graph.inputs, graph.outputs) == (("sound",), ("words",))


def test_without_the_package_one_line_says_what_to_install(file: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['tflite'] = None\n"
        "from mlftool.cli import main\n"
        f"sys.exit(main(['compile', {str(file)!r}, '-o', {str(tmp_path / 'm.tar')!r}]))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "pip install 'mlftool[tflite]'" in done.stderr


@pytest.mark.parametrize("kind", ["EXP", "DEQUANTIZE", "CUMSUM"])
def test_codes_of_operators_in_the_new_field_alone(kind: str) -> None:
    """As ai-edge-quantizer writes them; codes below 127 are in an older field, too, elsewhere."""
    x = T("x", (4,), "int8", 0.5, 3) if kind == "DEQUANTIZE" else T("x", (4,), "float32")
    axis = T("axis", (), "int32", data=np.array(0))
    table = "CumsumOptions" if kind == "CUMSUM" else ""
    op = Op(kind, (0, 2) if table else (0,), (1,), table)
    sub = Sub([x, T("y", (4,), "float32"), axis], [op], (0,), (1,))
    graphs = [imported(TFLite(model(sub, both=both)), "m")[0] for both in (True, False)]
    assert graphs[0].nodes == graphs[1].nodes


@pytest.mark.parametrize("given", ["m.onnx", b"TFL3", None, 3, []])
def test_what_is_no_model_at_all(given: object) -> None:
    with pytest.raises(MlfError, match="expected a path"):
        compile_module(ModuleSpec(given))  # type: ignore[arg-type]
    with pytest.raises(MlfError, match=f"the model is {type(given).__name__}"):
        imported(given, "m")  # type: ignore[arg-type]
