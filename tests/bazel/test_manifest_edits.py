"""Thirty models, each in a package of its own: what Bazel configures when a manifest is edited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nested import Workspace

MODELS = [f"net{number:02d}" for number in range(30)]
# What loads the list of models, and targets that name them all, such as the hub's report.
OF_ALL = 10
BUILD = """load("@thirty//:defs.bzl", "MODELS", "TESTS")

exports_files(["models.yaml"])

filegroup(
    name = "libraries",
    srcs = ["@thirty//%s:host" % name for name in MODELS],
)

test_suite(
    name = "tests",
    tests = TESTS,
)
"""
ROW = "  {name}: {{model: networks/{file}/x.onnx, test: {{vectors: networks/{file}/x.npz}}}}\n"


def add_files(package: Path, name: str) -> None:
    """Files that are there, in a package; nothing reads them while targets are configured."""
    folder = package / "networks" / name
    folder.mkdir(parents=True)
    for file in ("x.onnx", "x.npz"):
        (folder / file).write_bytes(b"")
    (folder / "BUILD.bazel").write_text('exports_files(glob(["x.*"]))\n')


@pytest.fixture(scope="module")
def thirty(built: Workspace) -> Iterator[Path]:
    """The manifest of the models, in a package of the workspace."""
    folder = built.folder / "thirty"
    folder.mkdir()
    (folder / "BUILD.bazel").write_text(BUILD)
    rows = [ROW.format(name=name, file=name) for name in MODELS]
    head = "version: 1\ndefaults: {targets: [host, cortex-m4]}\nmodels:\n"
    manifest = folder / "models.yaml"
    manifest.write_text(head + "".join(rows))
    for name in MODELS:
        add_files(folder, name)
    with built.manifest("thirty"):
        yield manifest


def analyse(workspace: Workspace) -> tuple[int, int]:
    """Packages that are loaded and targets that are configured for everything there is."""
    everything = ("@thirty//...", "//thirty/...")
    talk = workspace.bazel("build", "--nobuild", *workspace.options(), *everything)
    # The last line is Bazel's result; those before it are its progress.
    found = re.findall(r"\((\d+) packages loaded, (\d+) targets? configured\)", talk)[-1]
    return int(found[0]), int(found[1])


def edit(workspace: Workspace, manifest: Path, old: str, new: str) -> tuple[int, int]:
    """Changes the manifest in one place; what `analyse` says then."""
    text = manifest.read_text()
    assert text.count(old) == 1
    manifest.write_text(text.replace(old, new))
    return analyse(workspace)


def names(workspace: Workspace) -> set[str]:
    """The models that have a library for the host."""
    talk = workspace.bazel("query", *workspace.loading(), "@thirty//...", "--output=label")
    return set(re.findall(r"@thirty//(\w+):host$", talk, re.M))


def test_an_edit_concerns_one_model(built: Workspace, thirty: Path) -> None:
    """Bazel counts what it configures: as much as one model has, out of thirty."""
    _, everything = analyse(built)
    again = analyse(built)
    row = ROW.format(name=MODELS[3], file=MODELS[3])
    packages, of_one = edit(built, thirty, row, row.replace("{model", "{float_mode: fused, model"))

    assert again == (0, 0)
    assert packages == 1
    # So many that it cannot be a few of a model's, so few that it is not two models'.
    assert 20 < of_one < 60
    assert everything > len(MODELS) * (of_one - OF_ALL)

    add_files(thirty.parent, "more")
    packages, added = edit(built, thirty, row := ROW.format(name="net04", file="net04"),
                           row + ROW.format(name="more", file="more"))  # fmt: skip
    assert names(built) == {*MODELS, "more"}
    # Its own, that of its files, the hub's with its report, and the one that loads the list.
    assert packages == 4
    assert added <= of_one + OF_ALL

    packages, renamed = edit(built, thirty, "  net05:", "  other:")
    assert names(built) == {*MODELS, "more", "other"} - {"net05"}
    assert packages == 3
    assert renamed <= of_one + OF_ALL

    packages, removed = edit(built, thirty, ROW.format(name="net06", file="net06"), "")
    assert names(built) == {*MODELS, "more", "other"} - {"net05", "net06"}
    assert packages == 2
    assert removed <= OF_ALL


def test_a_server_that_starts_finds_what_was_edited(built: Workspace, thirty: Path) -> None:
    """Between two servers nothing is remembered but files."""
    before = names(built)
    built.shutdown()
    thirty.write_text(thirty.read_text().replace("  net07:", "  seven:"))

    assert names(built) == (before | {"seven"}) - {"net07"}
    assert "no such package '@thirty//net07'" in built.bazel(
        "build", *built.options(), "--nobuild", "@thirty//net07:host", fails=True
    )
