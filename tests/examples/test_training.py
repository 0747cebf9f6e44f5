"""The training scripts need what their requirements say, and give the data the vectors hold."""

import ast
import sys
from pathlib import Path

import numpy as np
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
