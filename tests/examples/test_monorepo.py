"""examples/monorepo is what its page says: teams, models, targets, budgets and owners."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from mlftool.manifest import load as load_manifest

ROOT = Path(os.path.abspath(__file__)).parents[2]
MONOREPO = ROOT / "examples" / "monorepo"
TEAMS = sorted(MONOREPO.glob("team_*/models.yaml"))
BOARDS = ("cortex-m0", "cortex-m3", "cortex-m4", "rv32imac")
sys.path.insert(0, str(MONOREPO))
import make_models  # noqa: E402


def test_twenty_models_on_five_targets() -> None:
    manifests = [load_manifest(path) for path in TEAMS]
    models = [model for manifest in manifests for model in manifest.models.values()]
    assert len(models) == 20
    assert {len(model.targets) for model in models} == {5}
    assert {target for model in models for target in model.targets} == {"host", *BOARDS}
    for model in models:
        assert model.test
        assert model.budget.flash
        assert model.budget.ram


@pytest.mark.parametrize("path", TEAMS, ids=lambda path: path.parent.name)
def test_a_team_is_known_wherever_teams_are_listed(path: Path) -> None:
    team = path.parent.name
    for name, said in {
        "WORKSPACE": f'"{team.removeprefix("team_")}",',
        "MODULE.bazel": f'manifest = "//examples/monorepo/{team}:models.yaml",',
        "examples/monorepo/BUILD.bazel": f'"{team.removeprefix("team_")}",',
        "examples/monorepo/CODEOWNERS": f"/examples/monorepo/{team}/ ",
    }.items():
        assert said in (ROOT / name).read_text(), name
    models = set(load_manifest(path).models)
    assert {file.stem for file in path.parent.glob("*.onnx")} == models
    assert {file.stem for file in path.parent.glob("*.npz")} == models
    assert set(re.findall(r"RUN\((\w+)\);", (path.parent / "main.c").read_text())) == models


@pytest.mark.parametrize("path", TEAMS, ids=lambda path: path.parent.name)
def test_the_baseline_has_every_image_and_model(path: Path) -> None:
    models = load_manifest(path).models
    rows = [f"{board}_image{name}" for board in BOARDS for name in ("", *(f" {m}" for m in models))]
    found = json.loads((path.parent / "sizes.json").read_text())
    assert sorted(found) == sorted(rows)
    # Whatever the linker leaves out would be nothing.
    assert min(row["flash_bytes"] for row in found.values()) > 300


def test_every_model_is_as_its_script_makes_it() -> None:
    made = list(make_models.made())
    assert len(made) == 20
    for place, data, vectors in made:
        assert place.with_suffix(".onnx").read_bytes() == data, place
        with np.load(place.with_suffix(".npz")) as committed:
            assert set(committed) == set(vectors)
            for name, values in vectors.items():
                np.testing.assert_allclose(committed[name], values, rtol=1e-6, atol=1e-6)


def test_all_of_it_is_small() -> None:
    assert sum(file.stat().st_size for file in MONOREPO.rglob("*") if file.is_file()) < 150_000
