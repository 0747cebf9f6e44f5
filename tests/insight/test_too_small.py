"""Commands that measure several programs print those that fit their board, and say of each other
what it needs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from looks import needs_board, refused

from mlftool.cli import main

MANIFEST = "version: 1\nmodels: {m: {model: m.onnx, targets: [cortex-m0, cortex-m4]}}\n"
NEED = "does not fit: RAM is 16,384 bytes, "
BOARDS = ("--on", "cortex-m0", "--on", "cortex-m4")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Its inputs and outputs take more than a Cortex-M0's board has."""
    net = Net()
    x = net.input("x", np.float32, (1, 4096))
    onnx.save(net.model(net.node("Relu", x)), tmp_path / "m.onnx")
    (tmp_path / "models.yaml").write_text(MANIFEST)
    return tmp_path / "m.onnx"


@needs_board
@pytest.mark.parametrize("command", ["bench", "profile", "size"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_of_a_manifest(
    command: str, form: list[str], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(model.with_name("models.yaml")), *form, "-q"]) == 2
    out, err = capsys.readouterr()
    assert "for cortex-m0" in err
    assert NEED in err
    assert err.count("error[") == 1
    if form:
        data = json.loads(out)
        (found,) = next(v for v in data.values() if isinstance(v, list))
        assert found["name"] == "m/cortex-m4-aot.tar"
    else:
        assert "cortex-m4" in out
    assert main([command, str(model), "--target", "cortex-m0", *form, "-q"]) == 2
    out, err = capsys.readouterr()
    assert NEED in err
    assert not out


@needs_board
def test_on_several_boards(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(model), *BOARDS, "--csv", "-q"]) == 2
    out, err = capsys.readouterr()
    assert [line.split(",")[0] for line in out.splitlines()] == ["target", "cortex-m4"]
    assert NEED in err
    words = ("bench", model, "--on", "cortex-m0", "--inputs", "nowhere.npz")
    assert "nowhere.npz" in refused(capsys, *words)


@needs_board
def test_a_difference(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not fit is neither new nor gone; a limit fails by it, and no baseline lacks it."""
    manifest, base = model.with_name("models.yaml"), tmp_path / "base.json"
    words = ["diff", str(manifest), str(manifest), "-q"]
    assert main([*words, "--save", str(base)]) == 2
    out, err = capsys.readouterr()
    assert (err.count("error["), err.count(NEED)) == (1, 1)
    assert "m/cortex-m4-aot.tar (cortex-m4) -> m/cortex-m4-aot.tar" in out
    assert "cortex-m0" not in out
    assert not base.exists()
    assert main([*words, "--json", "--fail-on", "flash>+2%"]) == 1
    out, err = capsys.readouterr()
    assert len(json.loads(out)["differences"]) == 1
    assert json.loads(out)["unpaired"] == []
    assert NEED in err
    assert main(["diff", str(manifest), "--save", str(base), "-q"]) == 2
    assert NEED in capsys.readouterr().err
    assert not base.exists()
    fits = ("diff", manifest, "--target", "cortex-m4", "--save", base, "-q")
    assert main([*map(str, fits)]) == 0
    assert main(["diff", str(base), str(manifest), "-q", "--fail-on", "flash>1KiB"]) == 1
    out, err = capsys.readouterr()
    assert err.count("error[") == 2
    assert "is new" not in out
