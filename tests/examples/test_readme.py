"""The figures and files that README.md, examples/README.md and its training page state are true."""

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


def test_the_tour_s_table_is_the_one_that_bazel_makes() -> None:
    """README.md shows examples/tour.txt, which //examples:tour_test compares with the build's."""
    text = (EXAMPLES.parent / "README.md").read_text()
    table = (EXAMPLES / "tour.txt").read_text()
    assert "".join(f"    {line}\n" for line in table.splitlines()) in text


def grid(page: Path, head: str) -> dict[str, dict[str, str]]:
    """The table whose first heading is `head`: row -> column -> cell."""
    lines = page.read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith(f"| {head} "))
    names = [c.strip() for c in lines[first].split("|")[1:-1]]
    found: dict[str, dict[str, str]] = {}
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        cells = [c.strip() for c in line.split("|")[1:-1]]
        found[cells[0]] = dict(zip(names[1:], cells[1:], strict=True))
    return found


def test_how_it_compares_has_the_figures_of_the_benchmarks() -> None:
    """README.md rounds what `benchmarks/bench.py` wrote into docs/benchmarks.md."""
    pages = EXAMPLES.parent
    lines = (pages / "README.md").read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("| | kws int8"))
    shown = [[c.strip(" *") for c in line.split("|")[1:-1]] for line in lines[first : first + 6]]
    names = [name.replace(" ", "_") for name in shown[0][1:]]
    table = {row[0]: dict(zip(names, row[1:], strict=True)) for row in shown[2:]}
    counted = grid(pages / "docs" / "benchmarks.md", "M instructions")
    fused = fused_on_m4(pages / "docs" / "benchmarks.md")
    memory = grid(pages / "docs" / "benchmarks.md", "on Cortex-M4")
    for name in names:
        assert table["best peer"][name] == counted[name]["best peer, M4"], name
        assert rounded(table["mlftool"][name], counted[name]["cortex-m4"]), name
        assert table["arena, bytes"][name] == f"{int(memory[name]['arena B']):,}", name
        if name in fused:
            assert rounded(table["with `--float-mode fused`"][name], fused[name]), name
    text = " ".join(lines)
    (helium,) = re.findall(r"On a Cortex-M55 int8 takes ([\d., and]+)\. ", text)
    figures = re.findall(r"\d+\.\d+", helium)
    for name, figure in zip(("kws_int8", "vww_int8", "ic_int8", "ad_int8"), figures, strict=True):
        assert rounded(figure, counted[name]["cortex-m55"]), name


def fused_on_m4(page: Path) -> dict[str, str]:
    """Network -> millions of instructions; its table has another's first heading."""
    text = page.read_text().partition("<!-- table fused -->")[2].partition("<!-- end -->")[0]
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in text.strip().splitlines()]
    column = rows[0].index("fused, cortex-m4")
    return {row[0]: row[column] for row in rows[2:]}


def rounded(shown: str, counted: str) -> bool:
    """Whether a figure is another with as many digits as it has itself."""
    digits = len(shown.partition(".")[2])
    return abs(float(shown) - float(counted)) <= 0.5001 * 10.0**-digits
