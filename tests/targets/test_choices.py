"""Which kernel wins is decided by estimates, which must not drift from what boards count."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared import REPO

from mlftool.compile import ModuleSpec, compile_module

MODELS = REPO / "examples" / "models"


def kernels(model: Path, target: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The winners for quantised contractions, from what MLF_DEBUG=2 prints."""
    compile_module(ModuleSpec(model, "m", target))
    bids = [
        line.split(": ", 2)[2] for line in capsys.readouterr().err.splitlines() if "bids" in line
    ]
    return [bid.split()[0] for bid in bids if "portable.blocked" in bid]


@pytest.mark.parametrize("target", ["rv32imafc", "rv64gc"])
@pytest.mark.parametrize("model", ["digits_int8", "gesture_int8"])
def test_riscv_with_an_fpu_has_tiles(
    model: str, target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No instruction multiplies and adds integers there: the portable loops take 1.4 to 1.8 times
    the usual estimate. By that they won, and kws took half as many instructions more."""
    monkeypatch.setenv("MLF_DEBUG", "2")
    found = kernels(MODELS / f"{model}.onnx", target, capsys)
    assert set(found) == {"tiles.s8"}
