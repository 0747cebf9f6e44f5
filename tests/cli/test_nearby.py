"""A file that is not there: the message names what is, and what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlftool.cli import main


@pytest.mark.parametrize(
    ("words", "help"),
    [
        ("check valv.onnx", "did you mean 'valve.onnx'?"),
        ("check sub/valv.onnx", "'sub' has pump.onnx"),
        ("profile valv.tar", "did you mean 'valve.tar'?"),
        ("check no_such_value.onnx", "this folder has valve.onnx"),
        ("inspect other.tar", "this folder has valve.tar"),
        ("check model.tflite", "this folder has valve.onnx"),
        ("check valve.tflite", "did you mean 'valve.onnx'?"),
        ("check sub/models.yml", "did you mean 'sub/models.yaml'?"),
        ("profile valve.onx", "did you mean 'valve.onnx'?"),
        ("profile valve.onnx --tuning valve.jsn", "this folder has valve.onnx, valve.tar"),
        ("inspect valve", "this folder has valve.onnx, valve.tar"),
        ("inspect pump.json", "this folder has no .json file"),
        ("check model", "this folder has valve.onnx, valve.tar"),
        ("check empty/model", "'empty' has no file"),
        ("check nowhere/m.onnx", "there is no folder 'nowhere'"),
        ("check sub", "it is a folder; name a file, such as 'sub/models.yaml'"),
        ("check empty", "it is a folder; name a file"),
        ("check gone.onnx", "it is a link to 'away.onnx', which does not lead to a file"),
        (
            "check many/other.onnx",
            "'many' has a0.onnx, a1.onnx, a2.onnx, a3.onnx, a4.onnx and 2 more",
        ),
        ("check valv.onnx --format github", "did you mean 'valve.onnx'?"),
        ("check valv.onnx --format sarif", "did you mean 'valve.onnx'?"),
    ],
)
def test_a_file_that_is_not_there(
    tmp_path: Path,
    words: str,
    help: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("sub", "empty", "many"):
        Path(folder).mkdir()
    files = ["valve.onnx", "valve.tar", "sub/pump.onnx", "sub/models.yaml"]
    for name in [*files, *(f"many/a{k}.onnx" for k in range(7))]:
        Path(name).touch()
    Path("gone.onnx").symlink_to("away.onnx")
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    if "--format" in words:
        assert help in out
        assert err == ""
    else:
        assert err.splitlines()[1:] == [f"help: {help}"]
