"""The key `quantize`: what it says and refuses, what `mlftool build` makes of it, and its rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float_nets import mobile, samples

from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.manifest import load
from mlftool.manifest.bazel import packages

TEXT = """version: 1
models:
  net:
    model: net.onnx
    targets: [host, cortex-m4]
    quantize: {data: train.npz, accuracy: {metric: agreement, at_least: 90%}, budget: {flash: 8KiB}}
archives:
  both: {models: [net], target: cortex-m4}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    onnx.save(mobile(), tmp_path / "net.onnx")
    np.savez(tmp_path / "train.npz", x=samples())
    (tmp_path / "models.yaml").write_text(TEXT)
    return tmp_path / "models.yaml"


def test_the_key_is_read(manifest: Path) -> None:
    asked = load(manifest).models["net"].quantize
    assert asked is not None
    assert (asked.data, asked.metric, asked.at_least) == ("train.npz", "agreement", 0.9)
    assert asked.flash == 8192


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("train.npz", "other.npz", "MLF0116"),
        ("90%", "much", "MLF0109"),
        ("90%", "-1", "MLF0109"),
        ("90%", "30dB", "MLF0109"),
        ("90%", "97", "MLF0109"),
        ("agreement", "sqnr", "MLF0109"),
        ("90%", "[1]", "MLF0108"),
        ("agreement", "luck", "MLF0109"),
        ("flash: 8KiB", "flash: 8K", "MLF0109"),
        ("flash: 8KiB", "rom: 8KiB", "MLF0106"),
        ("data: train.npz, ", "", "MLF0107"),
    ],
)
def test_mistakes_are_found_where_they_are(manifest: Path, old: str, new: str, code: str) -> None:
    manifest.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(MlfError) as error:
        load(manifest)
    assert code in [p.code for p in error.value.problems]
    assert all(p.line == 6 for p in error.value.problems)


def test_build_makes_integers_once(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["build", str(manifest), "-o", str(tmp_path / "out"), "-j", "1"]
    assert main(arguments) == 0
    made = (tmp_path / "out" / "net" / "cortex-m4-aot.tar").read_bytes()
    assert b"int8_t" in made
    capsys.readouterr()
    assert main(arguments) == 0
    assert capsys.readouterr().err.count("up to date") == 3
    # Other samples make another model.
    np.savez(tmp_path / "train.npz", x=2 * samples(seed=7))
    assert main(arguments) == 0
    assert (tmp_path / "out" / "net" / "cortex-m4-aot.tar").read_bytes() != made


def test_what_cannot_be_reached_is_said(
    manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write_text(TEXT.replace("8KiB", "8B"))
    assert main(["build", str(manifest), "-o", str(tmp_path / "out"), "-j", "1"]) == 2
    said = capsys.readouterr().err
    column = TEXT.splitlines()[5].index("90%") + 1
    place = f"models.yaml:6:{column}: error[MLF0412]: models.net.quantize.accuracy.at_least: "
    assert f"{place}cannot be reached" in said
    assert "\nhelp: ask for no more than that" in said
    assert not [f for f in (tmp_path / "out").rglob("*") if f.is_file()]


def test_build_keeps_the_report_and_the_model_of_all_targets(
    manifest: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mlftool.quantize import quantizer

    calls, quantized = [], quantizer.quantized

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return quantized(*arguments)

    monkeypatch.setattr(quantizer, "quantized", counted)
    folder = tmp_path / "out"
    arguments = ["build", str(manifest), "-o", str(folder), "-j", "1"]
    assert main(arguments) == 0
    assert len(calls) == 1
    assert capsys.readouterr().err.count("; net: agreement 100.00 %, of the float model 100") == 3
    report = json.loads((folder / "net" / "quantized.json").read_text())
    assert (report["metric"], report["accuracy_after"]) == ("agreement", 1)
    assert len(report["layers"]) == 7
    model = (folder / "net" / "quantized.onnx").read_bytes()

    # Another target takes the same model; a report that is lost is made again.
    manifest.write_text(TEXT.replace("cortex-m4]", "cortex-m4, cortex-m7]"))
    assert main(arguments) == 0
    assert len(calls) == 1
    (folder / "net" / "quantized.json").unlink()
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    assert len(calls) == 2
    assert (folder / "net" / "quantized.onnx").read_bytes() == model
    (one, *_) = json.loads(capsys.readouterr().out)["entries"]
    assert one["quantized"] == [
        {
            **{"model": "net", "metric": "agreement", "before": 1, "after": 1},
            "report": str(folder / "net" / "quantized.json"),
        }
    ]


def test_the_rule_has_what_the_key_says(manifest: Path) -> None:
    (manifest.parent / "BUILD.bazel").touch()
    found = packages(load(manifest), "@//:models.yaml", "@mlftool")
    model, archive = found["net/BUILD.bazel"], found["both/BUILD.bazel"]
    (rule,) = (part for part in model.split("\n\n") if part.startswith("mlf_quantize("))
    for line in (
        'name = "quantized.model"',
        'model = "@//:net.onnx"',
        'samples = "@//:train.npz"',
        'target = "cortex-m4"',
        'metric = "agreement"',
        'at_least = "0.9"',
        "flash_bytes = 8192",
    ):
        assert f"    {line},\n" in rule, line
    assert model.count('model = ":quantized.model"') == 2
    assert 'model = "//net:quantized.model"' in archive
