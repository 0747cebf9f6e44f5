"""The figures and files that examples/README.md and its training page state are the true ones."""

import re
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
MODELS = EXAMPLES / "models"


def rows(page: str) -> dict[str, list[str]]:
    """The table rows of a page by their first cell, backticks removed; of two, the first."""
    lines = (EXAMPLES / page).read_text().splitlines()
    cells = [[c.strip().strip("`") for c in s.split("|")[1:-1]] for s in lines if s[:1] == "|"]
    return {row[0]: row[1:] for row in reversed(cells)}


def percent(name: str) -> str:
    """Share of samples a classifier gets right, as the pages write it."""
    with np.load(MODELS / f"{name}.npz") as file:
        right = np.mean(file["probability"][:, 0].argmax(axis=1) == file["labels"])
    return f"{100 * right:.1f} %"


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_stated_size_is_the_files(path: Path) -> None:
    stated = rows("README.md")[path.stem][-1]
    assert int(stated.replace(",", "")) == path.stat().st_size


@pytest.mark.parametrize("network", ["digits", "gesture"])
def test_stated_accuracies_are_the_vectors(network: str) -> None:
    for kind, column in (("float32", -2), ("int8", -1)):
        figure = percent(f"{network}_{kind}")
        assert figure in rows("README.md")[f"{network}_{kind}"][2]
        assert figure in rows("training/README.md")[network][column]


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_stated_detection_quality_is_the_vectors(kind: str) -> None:
    with np.load(MODELS / f"vibration_{kind}.npz") as file:
        levels, redrawn, faulty = file["levels"], file["reconstruction"], file["faulty"]
    error = ((levels.astype(np.float64) - redrawn) ** 2).sum(axis=(1, 2))
    area = np.mean(error[faulty][:, np.newaxis] > error[~faulty])
    assert f"{area:.3f}" in rows("README.md")[f"vibration_{kind}"][2]
    assert f"{area:.3f}" in rows("training/README.md")["vibration"][-2 if kind == "float32" else -1]


@pytest.mark.parametrize("page", ["README.md", "training/README.md"])
def test_linked_files_are_there(page: str) -> None:
    text = (EXAMPLES / page).read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    missing = [link for link in links if not (EXAMPLES / page).parent.joinpath(link).exists()]
    assert missing == []
