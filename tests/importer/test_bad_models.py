"""Every bad model of the corpus: exact lines, exit 2, nothing written, under a second."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import bad_attributes  # noqa: F401  (each of these registers its cases)
import bad_external  # noqa: F401
import bad_files  # noqa: F401
import bad_graphs  # noqa: F401
import bad_tensors  # noqa: F401
import pytest
from bad_corpus import CASES, Case, expected_lines, model, node, value
from summaries import without_summary

from mlftool.cli import main

EXPECTED = expected_lines()
LINE = re.compile(r"FILE: error\[MLF0[2-4]\d\d\]: .+")
ROOT = Path(__file__).parents[2]
SECONDS = 1.0


@pytest.fixture(scope="module", autouse=True)
def _imports_are_paid_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The time limit is for the model, not for importing onnx."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "good.onnx").write_bytes(model().SerializeToString())
    assert main(["compile", str(folder / "good.onnx"), "-o", str(folder / "good.tar")]) == 0


def listing(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def errors(text: str, path: Path) -> list[str]:
    lines = without_summary(text.replace(str(path), "FILE").splitlines())
    return [line for line in lines if not line.startswith("help: ")]


def test_the_corpus_and_its_expected_lines_agree() -> None:
    assert len(CASES) >= 180
    assert len({c.name for c in CASES}) == len(CASES)
    assert {c.name for c in CASES} == EXPECTED.keys()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_bad_model(
    case: Case,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    folder = tmp_path / "model"
    folder.mkdir()
    path = case.write(folder)
    before = listing(tmp_path)
    start = time.process_time()
    code = main(["compile", str(path), "-o", str(folder / "out.tar")])
    seconds = time.process_time() - start
    out, err = capsys.readouterr()
    assert tuple(errors(err, path)) == EXPECTED[case.name]
    assert all(LINE.fullmatch(line) for line in errors(err, path))
    assert code == 2
    assert out == ""
    assert listing(tmp_path) == before
    assert seconds < SECONDS


SUBPROCESS = [
    "device_without_end",
    "empty_file",
    "five_problems",
    "messages_nested_a_thousand_deep",
    "tile_of_a_weight_to_terabytes",
    "weight_claims_a_gigabyte",
]


@pytest.mark.parametrize("name", SUBPROCESS)
def test_bad_model_in_a_process_of_its_own(name: str, tmp_path: Path) -> None:
    """The same through a real shell's eyes, with a gigabyte of address space at most."""
    path = next(c for c in CASES if c.name == name).write(tmp_path)
    before = listing(tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "mlftool", "compile", path, "-o", tmp_path / "out.tar"],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=20,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
    )
    assert tuple(errors(run.stderr, path)) == EXPECTED[name]
    assert run.returncode == 2
    assert "Traceback" not in run.stderr + run.stdout
    assert listing(tmp_path) == before


def test_the_old_archive_survives_a_bad_model(tmp_path: Path) -> None:
    (tmp_path / "out.tar").write_bytes(b"the old one")
    (tmp_path / "model.onnx").write_bytes(b"")
    assert main(["compile", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out.tar")]) == 2
    assert (tmp_path / "out.tar").read_bytes() == b"the old one"


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("x:1,4", ""),
        ("x:3,5", "FILE: error[MLF0208]: input 'x': shape 3,5 does not fit the model's N,4"),
        ("x:4", "FILE: error[MLF0208]: input 'x': shape 4 does not fit the model's N,4"),
        ("x:0,4", ""),
        (
            "z:1,4",
            "FILE: error[MLF0208]: shape given for 'z', which is not an input of the model",
        ),
        ("x", "mlftool: error[MLF0400]: --input-shape: got 'x', expected NAME:1,3,32,32"),
        ("x:-1,4", "mlftool: error[MLF0400]: --input-shape: got 'x:-1,4', expected NAME:1,3,32,32"),
        (
            "x:" + "9" * 5000,
            "mlftool: error[MLF0400]: --input-shape: a dimension of 'x' has over 18 digits",
        ),
    ],
    ids=["good", "other_shape", "other_rank", "zero", "other_name", "bare", "negative", "huge"],
)
def test_input_shape(
    flag: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    steps = [node("Relu", "x")]
    path.write_bytes(
        model(steps, [value("x", ("N", 4))], [value("y", ("N", 4))]).SerializeToString()
    )
    code = main(["compile", str(path), "-o", str(tmp_path / "o.tar"), "--input-shape", flag])
    found = [e for e in errors(capsys.readouterr().err, path) if "before run time" not in e]
    assert found == ([line] if line else [])
    assert code == (2 if line else 0)
