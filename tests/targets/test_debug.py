"""MLF_DEBUG shows what the compiler decided: 1 stages, 2 bids and the memory map, 3 the graphs."""

from __future__ import annotations

import pytest
from batch import compile_model
from families import FAMILIES

from mlftool.passes import PIPELINE
from mlftool.targets import TARGETS


def told(level: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLF_DEBUG", level)
    compile_model(FAMILIES["dsp_pairs"][1](), "demo", "cortex-m4")
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_silent_by_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told("0", capsys, monkeypatch) == ""


def test_level_1_tells_stages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = told("1", capsys, monkeypatch).splitlines()
    stages = [line.split(": ")[2] for line in lines]
    names = [p.name for p in PIPELINE]
    assert stages == ["import", *names, "lower for cortex-m4", "emit", "proof"]
    assert all(line.startswith("mlftool: demo: ") for line in lines)


def test_level_2_adds_bids_and_memory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = told("2", capsys, monkeypatch)
    (bids,) = [x for x in text.splitlines() if "bids for" in x and "QLinearConv" in x]
    offers = [o.split() for o in bids.rpartition(": ")[2].split(", ")]
    kernels = ["dsp.pairs", "dsp.triples", "dsp.two_by_two", "portable.blocked"]
    assert [name for name, _ in offers] == kernels
    assert [float(cost) for _, cost in offers] == sorted(float(cost) for _, cost in offers)
    assert "mlftool: memory" in text
    assert "graph demo" not in text


def test_level_3_adds_the_graph_after_each_stage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = told("3", capsys, monkeypatch)
    assert text.count("graph demo(") == len(PIPELINE) + 4
    assert "QLinearConv(" in text


def test_features_decide_which_kernels_bid() -> None:
    make = FAMILIES["dsp_pairs"][1]
    for name, target in TARGETS.items():
        module = compile_model(make(), "demo", name)
        kernels = [c.kernel.name for c in module.program.calls]
        helium = "mve" in target.features
        assert ("helium.quads" in kernels) == helium, name
        assert ("dsp.pairs" in kernels) == ("dsp" in target.features and not helium), name
