"""Networks and one-operator models with TensorFlow Lite Micro's outputs, in MLFTOOL_SHARED_MODELS:
integers are equal, floats within 1e-5 of the largest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from batch import Build, Job, run_jobs
from shared import shared_folder

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.frontends.models import imported
from mlftool.runtime.load import LoadedArchive

pytest.importorskip("tflite", reason="did not run: the package tflite is missing")
FOLDER = shared_folder() / "tflite"
FILES = sorted(FOLDER.rglob("*.tflite"))
Calls = list[list[np.ndarray]]  # arrays of each call


def arrays(file: Path, kind: str) -> list[np.ndarray]:
    """`input`, `input_1` ..., which have a row for each call."""
    with np.load(file.with_suffix(".npz")) as archive:
        vectors = dict(archive)
    found = [vectors[kind]]
    while (name := f"{kind}_{len(found)}") in vectors:
        found.append(vectors[name])
    if kind == "output" and "output_double" in vectors:
        found[0] = vectors["output_double"]  # today's kernels, where upstream's file is older
    return found


def feeds(file: Path) -> list[dict[str, np.ndarray]]:
    """What each call is given; for a model with states without them."""
    graph, given = imported(file, "m")[0], arrays(file, "input")
    names = graph.inputs[: len(given)]
    return [
        {
            name: rows[call].reshape(graph.types[name].shape)
            for name, rows in zip(names, given, strict=True)
        }
        for call in range(len(given[0]))
    ]


def one_after_the_other(file: Path) -> Calls:
    """The calls of a model that leaves a state, which the next one is given."""
    state = {state.input: state.start for state in imported(file, "m")[0].states}
    module = LoadedArchive(compile_modules([ModuleSpec(file, "m")]), "", None).module()
    found: Calls = []
    for given in feeds(file):
        found.append([np.asarray(v) for v in module.run({**given, **state}).values()])
        state = dict(zip(state, found[-1][len(found[-1]) - len(state) :], strict=True))
    return found


@pytest.fixture(scope="module")
def jobs(
    tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]
) -> dict[Path, Job]:
    """The models without states, all in one program."""
    files = [f for f in FILES if selected(f.name) and not imported(f, "m")[0].states]
    made = {file: Job(file, feeds(file)) for file in files}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("golden"), Build())
    return made


def test_the_models_are_there() -> None:
    if not FILES:
        pytest.skip(f"did not run: no models in {FOLDER}; set MLFTOOL_SHARED_MODELS")
    assert len(FILES) >= 250


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(FOLDER).as_posix())
def test_outputs_are_those_of_tensorflow_lite_micro(file: Path, jobs: dict[Path, Job]) -> None:
    if file in jobs:
        assert not jobs[file].failure
        calls = [list(result.values()) for result in jobs[file].results]
    else:
        calls = one_after_the_other(file)
    wanted = arrays(file, "output")
    assert len(calls) == len(wanted[0])
    for call, made in enumerate(calls):
        for got, rows in zip(made[: len(wanted)], wanted, strict=True):
            want = rows[call].reshape(got.shape)
            assert got.dtype == want.dtype
            if want.dtype.kind == "f":
                assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
            else:
                np.testing.assert_array_equal(got, want)
