"""Good manifests load, and every value arrives typed, with defaults applied and places kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from manifest_corpus import HERE, Place, corpus

from mlftool.manifest import Archive, Budget, Model, UserTarget, load
from mlftool.manifest import Test as Check  # pytest would collect a class named Test

GOOD = HERE / "good"


@pytest.mark.parametrize("manifest", corpus("good"))
def test_good_manifest(manifest: Path, put: Place) -> None:
    loaded = load(put(manifest))
    assert loaded.models
    for model in loaded.models.values():
        assert model.targets
        assert model.executors == ("aot",)
        assert loaded.locate(model.model).is_file()


def test_everything(put: Place) -> None:
    loaded = load(put(GOOD / "everything.yaml"))
    assert loaded.version == 1
    assert loaded.models["kws"] == Model(
        name="kws",
        model="models/kws.onnx",
        module_name="keywords",
        targets=("host", "my-board"),
        executors=("aot",),
        input_shapes={"input": (1, 49, 10, 1), "odd: name": ()},
        input_values={"rate": (16000,), "gains": (0.5, 1, -2)},
        data_files=("kws.npz",),
        tags=("nightly", "cpu:2"),
        size="large",
        timeout="eternal",
        exec_properties={"OSFamily": "linux", "container-image": "docker://x y"},
        visibility=("//app:__pkg__", "@other//:friends"),
        test=Check(vectors="models/kws.npz", absolute=1e-3, relative=0.5),
        budget=Budget(flash=65536, ram=16000),
    )
    assert loaded.models["key-word"] == Model(
        name="key-word",
        model="vww.onnx",
        module_name="key_word",
        targets=("host", "cortex-m4"),
        executors=("aot",),
    )
    assert loaded.archives == {
        "both": Archive(name="both", models=("kws", "key-word"), target="my-board", executor="aot")
    }
    assert loaded.targets == {
        "my-board": UserTarget(
            name="my-board", base="cortex-m4", flash=1 << 20, ram=131072, board="//boards:mine"
        )
    }


def test_smallest(put: Place) -> None:
    loaded = load(put(GOOD / "smallest.yaml"))
    model = loaded.models["kws"]
    assert (model.module_name, model.targets, model.executors) == ("kws", ("host",), ("aot",))
    assert (model.input_shapes, model.test, model.budget) == ({}, None, None)
    assert (loaded.archives, loaded.targets) == ({}, {})


def test_scalars_are_yaml_1_2(put: Place) -> None:
    models = load(put(GOOD / "core_scalars.yaml")).models
    assert list(models) == ["on", "true", "null"]
    assert models["on"].input_shapes == {"on": (10, 15, 3)}
    assert [m.module_name for m in models.values()] == ["no_", "yes", "off"]
    assert models["true"].test == Check(vectors="kws.npz", absolute=0.5, relative=1e-3)


def test_every_field_knows_its_place(put: Place) -> None:
    loaded = load(put(GOOD / "everything.yaml"))
    lines = (GOOD / "everything.yaml").read_text().split("\n")
    starts = {
        "version": "1",
        "models.kws": "kws:",
        "models.kws.model": "models/kws.onnx",
        "models.kws.targets[1]": "my-board",
        "models.kws.input_shapes.input": "[1, 49",
        "models.kws.input_shapes.input[2]": "10,",
        "models.kws.test": "test:",
        "models.kws.test.absolute": "1e-3",
        "models.kws.budget.ram": "16 kB",
        "archives.both.models[1]": "key-word]",
        "targets.my-board.ram": "131072",
    }
    for path, text in starts.items():
        line, column = loaded.place(path)
        assert lines[line - 1][column - 1 :].startswith(text), path
    assert loaded.place("models.key-word.targets") == loaded.places["models.key-word"]
    assert loaded.place("nowhere") == (1, 1)


def test_windows_line_ends_count_once(put: Place) -> None:
    assert load(put(GOOD / "windows_file.yaml")).place("models.kws.model") == (4, 12)


def test_paths_are_relative_to_the_manifest(folder: Path) -> None:
    (folder / "models" / "m.yaml").write_text("version: 1\nmodels:\n  kws: {model: kws.onnx}\n")
    loaded = load("models/m.yaml")
    assert loaded.locate(loaded.models["kws"].model) == Path("models/kws.onnx")


def test_bazel_can_load_with_pyyaml_alone(put: Place) -> None:
    """The repository rule runs the system's Python, which has no numpy and no onnx."""
    code = (
        "import sys; from mlftool.manifest import load; load(sys.argv[1]);"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'numpy', 'onnx', 'jinja2'}))"
    )
    here = os.pathsep.join([str(HERE.parent.parent), str(Path(yaml.__file__).parent.parent)])
    manifest = put(GOOD / "everything.yaml")
    command = [sys.executable, "-c", code, str(manifest)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": here})
    assert (done.stdout, done.stderr) == ("[]\n", "")
