"""The training scripts need what their requirements say, and give the data the vectors hold."""

import ast
import importlib
import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import onnx
import pytest
from quantise import to_int8
from synthesise import BANDS, GESTURE_WINDOW, GESTURES, gestures, vibration

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted((EXAMPLES / "training").glob("*.py"))
SEED = 20  # fit.SEED; fit itself needs torch
PACKAGES = {"scikit-learn": "sklearn"}  # where a package's import name is not its own


def test_all_scripts_are_looked_at() -> None:
    names = {"digits", "fit", "gesture", "quantise", "synthesise", "vectors", "vibration"}
    assert {path.stem for path in SCRIPTS} == names


def imported(path: Path) -> set[str]:
    """The top-level modules that a script imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_imports_only_what_the_requirements_pin(path: Path) -> None:
    lines = (EXAMPLES / "training" / "requirements.txt").read_text().splitlines()
    pinned = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in pinned)
    allowed = {PACKAGES.get(name, name) for name, _ in pinned} | {p.stem for p in SCRIPTS}
    assert imported(path) - allowed - sys.stdlib_module_names == set()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_does_nothing_when_imported(path: Path) -> None:
    """Only definitions, constants and the guarded call of main stand at the top level."""
    quiet = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)
    for node in ast.parse(path.read_text()).body:
        guard = isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert isinstance(node, quiet) or guard or docstring, ast.unparse(node)


def test_seed_is_the_one_the_scripts_use() -> None:
    assert f"SEED = {SEED}\n" in (EXAMPLES / "training" / "fit.py").read_text()


# The exporter begins names with "/", which the text of models has no way to say.
EXPORTED = """<ir_version: 9, opset_import: ["": 17]>
g (float[1,2] x) => (float[1,6] y) <float[1,2] w = {1, 2}, float[1,2] token = {3, 4}> {
  same = Identity(w)
  [a_Constant] _c = Constant<value = float[1,2] {5, 6}>()
  [a_Add] _Add_output_0 = Add(x, w)
  [a_Mul] _Mul_output_0 = Mul(_Add_output_0, same)
  [a_Sub] _Sub_output_0 = Sub(_Mul_output_0, w)
  [a_Identity] _copy = Identity(_Sub_output_0)
  [a_Concat] y = Concat<axis = 1>(token, _c, _copy)
}"""


def test_exported_names_of_every_kind_of_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of operators with any number of inputs, too, and with one parameter for two nodes."""
    monkeypatch.setitem(sys.modules, "torch", MagicMock())
    monkeypatch.delitem(sys.modules, "fit", raising=False)
    fit = importlib.import_module("fit")
    monkeypatch.delitem(sys.modules, "fit")
    model = onnx.parser.parse_model(EXPORTED)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [name.replace("_", "/", 1) for name in names]
    feed = {"x": np.array([[7, 8]], np.float32)}
    before = onnx.reference.ReferenceEvaluator(model).run(None, feed)
    fit._tidy(model)
    onnx.checker.check_model(model, full_check=True)
    assert [t.name for t in model.graph.initializer] == ["w", "same", "token", "a_Concat.inputs1"]
    np.testing.assert_array_equal(onnx.reference.ReferenceEvaluator(model).run(None, feed), before)


# sin, exp and the FFT may round differently elsewhere, so a reading may move by one count.


def test_gesture_vectors_are_the_synthesised_windows() -> None:
    windows, labels = gestures(SEED + 1, 160)
    assert windows.shape == (160, 3, GESTURE_WINDOW)
    with np.load(EXAMPLES / "models" / "gesture_int8.npz") as file:
        assert set(file["labels"]) == set(range(len(GESTURES)))
        np.testing.assert_array_equal(file["labels"], labels)
        moved = to_int8(windows, (1 / 32, 0)).astype(int) - file["acceleration"][:, 0]
    assert np.abs(moved).max() <= 1


def test_vibration_vectors_are_the_synthesised_windows() -> None:
    levels, faulty = vibration(SEED + 1, healthy=164, faulty=82)
    assert levels.shape == (246, BANDS)
    readings = to_int8(levels, (1 / 16, -32)).astype(int)
    with np.load(EXAMPLES / "models" / "vibration_int8.npz") as file:
        kept, worn = file["levels"][:, 0], file["faulty"]
    # The script leaves out windows that hang on a rounding tie; the rest keep their order.
    place = 0
    for window, bad in zip(kept, worn, strict=True):
        while np.abs(readings[place] - window).max() > 1:
            place += 1
        assert faulty[place] == bad
        place += 1


def test_generators_answer_to_their_seed_alone() -> None:
    np.testing.assert_array_equal(gestures(3, 5)[0], gestures(3, 5)[0])
    assert not np.array_equal(gestures(3, 5)[0], gestures(4, 5)[0])
    np.testing.assert_array_equal(vibration(3, 4, 2)[0], vibration(3, 4, 2)[0])
    assert not np.array_equal(vibration(3, 4, 2)[0], vibration(4, 4, 2)[0])
