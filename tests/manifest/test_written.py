"""A manifest as a BUILD file that is committed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.manifest import written
from rules.private.tools import committed

EXAMPLES = Path(os.path.abspath(__file__)).parents[2] / "examples"
MANIFEST = """version: 1
models:
  gesture_int8:
    model: models/gesture_int8.onnx
    test: {vectors: models/gesture_int8.npz, absolute: 0}
    targets: [host, cortex-m4, x86-64-v3]
  plain: {model: models/gesture_int8.onnx, tuning: models/plain.json}
archives:
  both: {models: [gesture_int8, plain], target: cortex-m4}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace whose manifest and models lie in different packages."""
    (tmp_path / "WORKSPACE").write_text("")
    (tmp_path / "BUILD.bazel").write_text("")
    (tmp_path / "app" / "models").mkdir(parents=True)
    (tmp_path / "app" / "models" / "BUILD").write_text("")
    for name in ("gesture_int8.onnx", "gesture_int8.npz"):
        shutil.copy(EXAMPLES / "models" / name, tmp_path / "app" / "models")
    (tmp_path / "app" / "models" / "plain.json").write_text('{"version": 1, "targets": {}}')
    (tmp_path / "app" / "models.yaml").write_text(MANIFEST)
    return tmp_path


def test_the_file_has_every_target_in_one_package(workspace: Path) -> None:
    (workspace / "gen").mkdir()
    text = written.build_file(
        workspace / "app" / "models.yaml", workspace / "gen" / "BUILD.bazel", "@mlftool"
    )

    for line in (
        "# Written from //:app/models.yaml; edit that, then",
        "#   bazel run //gen:up_to_date_test -- --update",
        '    name = "gesture_int8/cortex-m4",',
        '    model = "//app/models:gesture_int8.onnx",',
        '    archive = ":both/archive",',
        '        ":both/gesture_int8_module",',
        '    out = "both/cortex-m4.tar",',
        '    manifest = "//:app/models.yaml",',
        '    tuning = "//app/models:plain.json",',
        '        ":gesture_int8/host_tests",',
    ):
        assert line in text.splitlines(), text
    # Nothing can run these, or has vectors to run on.
    assert "x86-64-v3_tests" not in text
    assert "plain/host_tests" not in text
    compile(text, "BUILD.bazel", "exec")


def test_files_of_the_folder_that_is_written_are_its_own(workspace: Path) -> None:
    text = written.build_file(
        workspace / "app" / "models.yaml", workspace / "app" / "BUILD.bazel", ""
    )

    assert 'load("//rules:defs.bzl", ' in text
    assert '    manifest = "//app:models.yaml",' in text
    assert '    model = "//app/models:gesture_int8.onnx",' in text


def test_the_command_writes_and_checks(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace / "app")
    assert main(["bazel", "models.yaml", "--check", "BUILD.bazel"]) == 1
    assert "error[MLF0121]: does not match its manifest" in capsys.readouterr().err
    assert main(["bazel", "models.yaml", "--write", "BUILD.bazel"]) == 0
    assert main(["bazel", "models.yaml", "--check", "BUILD.bazel"]) == 0
    Path("models.yaml").write_text(MANIFEST.replace("absolute: 0", "absolute: 1"))
    assert main(["bazel", "models.yaml", "--check", "BUILD.bazel"]) == 1


def test_the_test_needs_no_file_but_the_manifest(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a sandbox: labels are told, and there is no BUILD file to find them by."""
    out = workspace / "app" / "BUILD.bazel"
    out.write_text(written.build_file(workspace / "app" / "models.yaml", out, "@mlftool"))
    known = {
        "app/models.yaml": "//app:models.yaml",
        "app/models/gesture_int8.onnx": "//app/models:gesture_int8.onnx",
        "app/models/gesture_int8.npz": "//app/models:gesture_int8.npz",
        "app/models/plain.json": "//app/models:plain.json",
    }
    (workspace / "known.json").write_text(json.dumps(known))
    for name in ("WORKSPACE", "BUILD.bazel", "app/models/BUILD", "app/models/gesture_int8.onnx"):
        (workspace / name).unlink()
    monkeypatch.chdir(workspace)
    arguments = ["app/models.yaml", "app/BUILD.bazel", "@mlftool", "known.json", "//app:t"]

    assert committed.main(arguments) == 0
    manifest = workspace / "app" / "models.yaml"
    manifest.write_text(MANIFEST.replace("[host, cortex-m4", "[cortex-m4"))
    assert committed.main(arguments) == 1
    assert "help: run: bazel run //app:t -- --update" in capsys.readouterr().err


def test_a_manifest_outside_of_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("version: 1\nmodels: {}\n")
    with pytest.raises(MlfError, match="MLF0122"):
        written.workspace_of(tmp_path / "m.yaml")


def test_a_board_in_a_folder_that_is_no_package(workspace: Path) -> None:
    """It is Bazel's to say which targets a package has, but not where a label came from."""
    file = workspace / "app" / "models.yaml"
    boards = "\ntargets:\n  mine: {base: cortex-m4, board: LABEL}\n"
    file.write_text(MANIFEST + boards.replace("LABEL", "//boards/nowhere"))
    out = workspace / "gen" / "BUILD.bazel"

    with pytest.raises(MlfError) as refused:
        written.build_file(file, out, "@mlftool")

    assert str(refused.value) == (
        f"{file}:{1 + MANIFEST.count(chr(10)) + 2}:34: error[MLF0123]: targets.mine.board: no such "
        "package; got '//boards/nowhere', expected the label of an mlf_board\n"
        "help: its folder has no BUILD.bazel or BUILD"
    )
    for label in ("//app/models:board", "//:board", "'@vendor//boards:x'"):
        file.write_text(MANIFEST + boards.replace("LABEL", label))
        assert "mlf_model" in written.build_file(file, out, "@mlftool")


def test_a_file_in_another_workspace(workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(MlfError, match="MLF0122"):
        written.build_file(workspace / "app" / "models.yaml", Path("/BUILD.bazel"), "@mlftool")
