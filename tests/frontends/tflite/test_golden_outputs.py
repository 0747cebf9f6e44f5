"""Networks and one-operator models with TensorFlow Lite Micro's outputs, in MLFTOOL_SHARED_MODELS:
integers are equal, floats within 1e-5 of the largest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shared import shared_folder

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.frontends.models import imported
from mlftool.runtime.load import LoadedArchive, LoadedModule

pytest.importorskip("tflite", reason="did not run: the package tflite is missing")
FOLDER = shared_folder() / "tflite"
FILES = sorted(FOLDER.rglob("*.tflite"))
# What is not computed yet, and says so: TensorFlow Lite Micro's own operators of signals.
NOT_YET = {"audio_preprocessor_float", "audio_preprocessor_int8"}


def loaded(model: Path) -> LoadedModule:
    return LoadedArchive(compile_modules([ModuleSpec(model, "m")]), "", None).module()


def arrays(vectors: dict[str, np.ndarray], kind: str) -> list[np.ndarray]:
    """`input`, `input_1` ..., which have a row for each call."""
    found = [vectors[kind]]
    while (name := f"{kind}_{len(found)}") in vectors:
        found.append(vectors[name])
    return found


def test_the_models_are_there() -> None:
    if not FILES:
        pytest.skip(f"did not run: no models in {FOLDER}; set MLFTOOL_SHARED_MODELS")
    assert len(FILES) >= 250


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(FOLDER).as_posix())
def test_outputs_are_those_of_tensorflow_lite_micro(file: Path) -> None:
    if file.stem in NOT_YET:
        with pytest.raises(MlfError, match="SignalWindow"):
            loaded(file)
        return
    with np.load(file.with_suffix(".npz")) as archive:
        vectors = dict(archive)
    module = loaded(file)
    given, wanted = arrays(vectors, "input"), arrays(vectors, "output")
    if "output_double" in vectors:  # what today's kernels give where upstream's file is older
        wanted[0] = vectors["output_double"]
    state = {state.input: state.start for state in imported(file, "m")[0].states}
    for call in range(len(given[0])):
        feeds = {
            t.name: rows[call].reshape(t.shape)
            for t, rows in zip(module.inputs[: len(given)], given, strict=True)
        }
        made = [np.asarray(v) for v in module.run({**feeds, **state}).values()]
        for got, rows in zip(made[: len(wanted)], wanted, strict=True):
            want = rows[call].reshape(got.shape)
            assert got.dtype == want.dtype
            if want.dtype.kind == "f":
                assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
            else:
                np.testing.assert_array_equal(got, want)
        state = dict(zip(state, made[len(wanted) :], strict=True))
