"""Which entry of a manifest is meant where a command looks at one, and nothing says which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from looks import GESTURE, data_of, needs_board, refused

from mlftool.cli import main, parser_of
from mlftool.cli.subject import one_subject

VECTORS = GESTURE.with_suffix(".npz")


def manifest(folder: Path, targets: str, tolerance: str = "") -> Path:
    file = folder / "models.yaml"
    for given in (GESTURE, VECTORS):
        (folder / given.name).write_bytes(given.read_bytes())
    entry = (
        f"model: {GESTURE.name}, test: {{vectors: {VECTORS.name}{tolerance}}}, targets: [{targets}]"
    )
    file.write_text(f"version: 1\nmodels:\n  gesture: {{{entry}}}\n")
    return file


@pytest.mark.parametrize(
    ("targets", "meant"), [("host, cortex-m3", "cortex-m3"), ("x86-64-v3", "x86-64-v3")]
)
def test_the_entry_of_the_only_board_is_meant(tmp_path: Path, targets: str, meant: str) -> None:
    file = manifest(tmp_path, targets)
    for command in ("graph", "report", "trace"):
        subject = one_subject(parser_of(command).parse_args([str(file), *OUTPUT[command]]), file)
        assert subject.interface.target == meant
        assert subject.vectors == tmp_path / VECTORS.name


OUTPUT = {"graph": ["-o", "x.svg"], "report": ["-o", "x.html"], "trace": []}


@pytest.mark.parametrize(
    ("targets", "named"),
    [
        ("host, x86-64-v3", "gesture/host-aot or --entry gesture/x86-64-v3-aot"),
        ("host, cortex-m3, cortex-m4", "gesture/cortex-m3-aot or --entry gesture/cortex-m4-aot"),
    ],
)
def test_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], targets: str, named: str
) -> None:
    file = manifest(tmp_path, targets)
    assert named in refused(capsys, "graph", file, "-o", tmp_path / "x.svg")


@needs_board
@pytest.mark.parametrize(("tolerance", "passed"), [(", absolute: 200", True), ("", False)])
def test_a_report_judges_as_the_manifests_test_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tolerance: str, passed: bool
) -> None:
    file = manifest(tmp_path, "host, cortex-m3", tolerance)
    with np.load(VECTORS) as given:
        arrays = {name: given[name] for name in given.files}
    (output,) = (o.name for o in onnx.load(GESTURE).graph.output)
    arrays[output] = arrays[output] ^ 1  # no output as expected, each by one
    np.savez(tmp_path / VECTORS.name, **arrays)
    found = data_of(capsys, "report", file, "-o", tmp_path / "x.html")
    assert (found["passed"], found["max_abs_error"]) == (passed, 1)


@needs_board
@pytest.mark.parametrize("command", ["profile", "size", "diff"])
def test_a_model_is_compiled_for_the_board(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code for a Cortex-M4 was measured on a Cortex-M3, where C stands in for its instructions."""
    words = [command, GESTURE, *[GESTURE] * (command == "diff")]
    named = data_of(capsys, *words, "--target", "cortex-m3")
    assert data_of(capsys, *words, "--on", "mps2_an385") == named
    assert data_of(capsys, *words, "--on", "cortex-m3") == named
    other = (*words, "--on", "cortex-m3", "--target", "cortex-m4")
    assert "the code is for cortex-m4" in refused(capsys, *other)


@needs_board
@pytest.mark.parametrize("command", ["size", "profile", "bench", "report", "diff"])
def test_code_of_another_core_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Whose figures are not those of the board's own code. One line, whatever is asked."""
    words = {"report": ["-o", str(tmp_path / "x.html")], "diff": [str(GESTURE), "--no-run"]}
    asked = [command, str(GESTURE), *words.get(command, []), "--target", "cortex-m3"]
    if command == "bench":  # which compiles a model for the place
        made = str(tmp_path / "m.tar")
        assert main(["compile", str(GESTURE), "-o", made, "--target", "cortex-m3", "-q"]) == 0
        asked = [command, made]
    assert main([*asked, "--on", "mps2_an386"]) == 0
    said = capsys.readouterr().err
    assert said.count("warning[MLF0613]: the code is for cortex-m3; ") == 1
    assert main([*asked, "--on", "cortex-m3", "-q"]) == 0
    assert capsys.readouterr().err == ""
