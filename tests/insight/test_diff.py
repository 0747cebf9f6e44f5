"""`mlftool diff`: figures are those of `run`, `size` and `profile`; limits hold to the byte."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from looks import GESTURE, MANIFEST, MODELS, data_of, needs_board, refused, said

from mlftool.cli import main
from mlftool.compile import ModuleSpec
from mlftool.errors import MlfError
from mlftool.insight.diff import (
    difference,
    exceeded,
    is_change,
    limit,
    markdown,
    paired,
    text,
    to_json,
)
from mlftool.insight.facts import Facts, LayerFacts, facts, read_facts
from mlftool.insight.subject import of_spec

TENSOR = {"name": "x", "c_name": "x", "dtype": "int8", "shape": [1, 4], "size_bytes": 4}
BUILD = Facts(
    *("a/m4.tar", "a", "cortex-m4", "aot"),
    {"flash": 1000, "weights": 0, "instructions": 5000},
    (LayerFacts("c", "plain", 10, 4000), LayerFacts("c", "plain", 5, 1000)),
    {"entry point": "tvmgen_a_run", "inputs": [TENSOR], "outputs": [TENSOR]},
    "00",
)


def only(data: dict[str, Any]) -> dict[str, Any]:
    (found,) = data["differences"]
    assert isinstance(found, dict)
    return found


@needs_board
def test_figures_are_those_of_the_other_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = only(data_of(capsys, "diff", GESTURE, GESTURE))
    figures = {name: f["after"] for name, f in found["figures"].items()}
    (size,) = data_of(capsys, "size", GESTURE)["sizes"]
    assert (figures["flash"], figures["ram"]) == (size["flash"]["bytes"], size["ram"]["bytes"])
    (profile,) = data_of(capsys, "profile", GESTURE)["profiles"]
    totals = profile["totals"]
    assert (figures["macs"], figures["weights"]) == (totals["macs"], totals["weights_bytes"])
    assert abs(figures["instructions"] - totals["instructions"]) < 400
    assert abs(figures["cycles"] - totals["cycles"]) < totals["cycles"] * 0.02
    (bench,) = data_of(capsys, "bench", GESTURE, "--target", "cortex-m4")["benches"]
    assert figures["cycles"] == bench["cycles"]
    assert figures["layers"] == len(profile["layers"])
    assert {f["change"] for f in found["figures"].values()} == {0}
    assert (found["layers"], found["interface"], found["same_results"]) == ([], [], True)


@needs_board
def test_an_archive_of_the_same_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its layers are not counted: they were compared with the model's instructions once."""
    tar = tmp_path / "g.tar"
    words = ["compile", str(GESTURE), "-o", str(tar), "--target", "cortex-m4"]
    assert main(words) == 0
    for pair in ((GESTURE, tar), (tar, GESTURE)):
        assert only(data_of(capsys, "diff", *pair))["layers"] == []


@needs_board
def test_another_objective(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same bits in less flash and more instructions; limits, and what they print."""
    base = tmp_path / "base.json"
    said(capsys, "diff", GESTURE, "--save", base)
    words = ("diff", base, GESTURE, "--optimize", "size")
    found = only(data_of(capsys, *words))
    assert found["same_results"] is True
    assert found["figures"]["flash"]["change"] < 0 < found["figures"]["instructions"]["change"]
    names = [layer["name"] for layer in found["layers"]]
    assert "wide_Conv" in names
    assert said(capsys, *words, "--fail-on", "flash>+0", "--fail-on", "ram>64KiB")
    assert main([*map(str, words), "--fail-on", "instructions>+1%", "--fail-on", "flash>1KiB"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1:3] for line in lines] == [
        [" error[MLF0616]", " instructions"],
        [" error[MLF0616]", " flash"],
    ]


@needs_board
def test_other_weights_compute_other_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(MODELS / "gesture_float32.onnx")
    for tensor in model.graph.initializer:
        if tensor.dims:
            values = onnx.numpy_helper.to_array(tensor)
            if values.dtype == np.float32:
                changed = onnx.numpy_helper.from_array(values * np.float32(1.5), tensor.name)
                tensor.CopyFrom(changed)
    onnx.save(model, tmp_path / "gesture_float32.onnx")
    found = only(data_of(capsys, "diff", MODELS / "gesture_float32.onnx",
                         tmp_path / "gesture_float32.onnx"))  # fmt: skip
    assert found["same_results"] is False
    assert found["interface"] == []
    (output,) = found["outputs"]
    assert output["max_abs_difference"] > 0
    told = {c["name"]: c for c in found["constants"]}
    floats = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    changed = {n: v for n, v in floats.items() if v.ndim and v.dtype == np.float32 and v.any()}
    assert told.keys() == changed.keys()
    for name, value in changed.items():  # which was multiplied by 1.5
        third = np.abs(value.astype(np.float64)) / 3
        assert told[name]["max_abs_difference"] == pytest.approx(third.max(), rel=1e-6)
        assert told[name]["rmse"] == pytest.approx(np.sqrt(np.mean(third**2)), rel=1e-6)
        assert told[name]["differing"] == np.count_nonzero(value)


@needs_board
def test_a_caller_learns_what_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "diff", GESTURE, MODELS / "gesture_float32.onnx")
    assert "a caller changes entry point: tvmgen_gesture_int8_run -> tvmgen_gesture_float32" in out
    assert "a caller changes input 'acceleration': type int8 -> float32, bytes 384 ->" in out
    assert "zero point 0 -> none" in out
    figures = {line.partition("  ")[0] for line in out.splitlines()}
    assert {"flash, bytes", "RAM, bytes", "instructions", "MACs"} <= figures
    assert "_" not in re.sub(r"tvmgen_\w+|\w+_(int8|float32|[A-Z]\w+)|[\w.]+_s8|\w+_softmax|"
                             r"\w+_pool", "", out)  # fmt: skip
    assert "outputs for one fixed input: not compared; types or shapes" in out


@needs_board
def test_archives_are_compared_with_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "compile", GESTURE, "--target", "cortex-m4", "-o", tmp_path / "g.tar")
    found = only(data_of(capsys, "diff", tmp_path / "g.tar", GESTURE))
    assert {f["change"] for f in found["figures"].values()} == {0}
    assert found["same_results"] is True


def test_options_of_models_beside_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are for the model alone, in either order; two archives take none of them."""
    tar, base = tmp_path / "g.tar", tmp_path / "base.json"
    said(capsys, "compile", GESTURE, "--target", "cortex-m4", "-o", tar)
    model = ("--no-run", "--target", "cortex-m4", "--optimize", "size")
    for pair, sign in (((tar, GESTURE), 1), ((GESTURE, tar), -1)):
        found = only(data_of(capsys, "diff", *pair, *model, "--module", "gesture_int8"))
        assert found["figures"]["weights"]["change"] * sign > 0
    said(capsys, "diff", GESTURE, "--no-run", "--save", base)
    for pair in ((tar, tar), (base, tar), (tar, base)):
        assert main(["diff", *map(str, pair), *model, "--tuning", "t.json"]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert sorted(line.split(": ", 2)[2] for line in lines) == [
            f"{flag}: an archive is already compiled"
            for flag in ("--optimize", "--target", "--tuning")
        ]
    assert "names an entry of a manifest" in refused(capsys, "diff", tar, GESTURE, "--entry", "g")


@needs_board
def test_sizes_of_a_model_against_an_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tar = tmp_path / "g.tar"
    said(capsys, "compile", GESTURE, "--target", "cortex-m4", "-o", tar)
    words = ("size", GESTURE, "--against", tar, "--target", "cortex-m4")
    assert said(capsys, *words) != said(capsys, *words, "--optimize", "size")
    assert "already compiled" in refused(capsys, "size", tar, "--against", tar, *words[4:])


@needs_board
def test_a_manifest_against_its_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same figures are the same bytes; entries without a board have what is known."""
    for model in ("gesture_int8", "vibration_int8"):
        shutil.copy(MODELS / f"{model}.onnx", tmp_path)
    text = "version: 1\nmodels:\n"
    for model in ("gesture_int8", "vibration_int8"):
        text += f"  {model}: {{model: {model}.onnx, targets: [host, cortex-m4]}}\n"
    manifest, base, again = (tmp_path / n for n in ("m.yaml", "base.json", "again.json"))
    manifest.write_text(text)
    said(capsys, "diff", manifest, "--save", base)
    assert said(capsys, "diff", base, manifest, "--markdown", "--save", again) == (
        "4 builds unchanged.\n"
    )
    assert base.read_bytes() == again.read_bytes()
    small = "targets: [cortex-m4], optimize: size"
    manifest.write_text(text.replace("targets: [host, cortex-m4]", small, 1))
    out = said(capsys, "diff", base, manifest, "--markdown")
    assert out.splitlines()[2].startswith("| gesture_int8/cortex-m4-aot.tar | ")
    assert "2 builds unchanged." in out
    assert "- `gesture_int8/host-aot.tar: is gone`" in out


def test_without_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--no-run",), ("--target", "host")):
        found = only(data_of(capsys, "diff", GESTURE, GESTURE, *words))
        assert found["figures"]["flash"] == {"before": None, "after": None, "change": None}
        assert found["figures"]["weights"]["change"] == 0
        assert found["same_results"] is None
    assert main(["diff", str(GESTURE), str(GESTURE), "--no-run", "--fail-on", "flash>+1%"]) == 1
    assert "flash: not known of both builds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [(("--target", "host"), "give --on BOARD"), (("--no-run",), "leave --no-run out")],
)
def test_what_was_not_measured_says_what_measures_it(
    words: tuple[str, ...], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text and a limit that cannot be checked."""
    assert main(["diff", *map(str, (GESTURE, GESTURE)), *words, "--fail-on", "flash>+1%"]) == 1
    out, err = capsys.readouterr()
    assert f"such as flash; {remedy}" in " ".join(out.split())
    assert f"help: {remedy}" in " ".join(err.split())


@needs_board
def test_limits_of_a_manifest_with_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are for the builds that a board measures; without any, there is nothing to hold."""
    entry = ("--entry", "gesture_int8")
    base = tmp_path / "base.json"
    said(capsys, "diff", MANIFEST, *entry, "--save", base)
    said(capsys, "diff", base, MANIFEST, *entry, "--fail-on", "flash>+0", "--fail-on", "ram>+0")
    words = ["diff", str(GESTURE), str(GESTURE), "--target", "host", "--fail-on", "flash>+0"]
    assert main(words) == 1
    capsys.readouterr()
    words = ["diff", str(base), str(MANIFEST), *entry, "--fail-on", "flash>1KiB"]
    assert main(words) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert not any("host-aot" in line for line in lines)


def test_limits_hold_to_the_byte() -> None:
    def over(flash: int, *limits: str) -> list[str]:
        after = replace(BUILD, figures={**BUILD.figures, "flash": flash})
        problems = exceeded(difference(BUILD, after), [limit(text) for text in limits])
        return [p.message for p in problems]

    assert over(1020, "flash>+2%", "flash>+20", "flash>1020B") == []
    assert len(over(1021, "flash>+2%", "flash>+20", "flash>1020B")) == 3
    assert over(900, "flash>+0", "flash>+0%", "weights>+0%", "weights>+0") == []
    assert over(1025, "flash>1KiB") == [
        "flash: was 1,000, is 1,025 bytes (+2.5 %); expected at most what 'flash>1KiB' allows"
    ]
    assert limit(" flash > +1.5 KiB ").value == 1536


WRONG = ["flash", "flash>", "flash<+2%", "flash>2%", "flesh>+2%", "flash>+-2", "flash>+2GB"]


@pytest.mark.parametrize("wrong", [*WRONG, "flash>+1e9"])
def test_limits_that_are_none(wrong: str) -> None:
    with pytest.raises(MlfError, match="--fail-on"):
        limit(wrong)


def test_a_baseline_from_before_cycles_is_no_change() -> None:
    """An estimate is no reason to accept a baseline again, but a limit of it is not kept."""
    after = replace(BUILD, figures={**BUILD.figures, "cycles": 7000})
    found = difference(BUILD, after)
    assert not is_change(found)
    assert [p.message for p in exceeded(found, [limit("cycles>+1%")])] == [
        "estimated cycles: not known of both builds, so 'cycles>+1%' cannot be checked"
    ]
    (problem,) = exceeded(difference(after, replace(after, figures={"cycles": 8000})),
                          [limit("cycles>+1%")])  # fmt: skip
    assert problem.message.startswith("estimated cycles: was 7,000, is 8,000 (+14.3 %)")


def test_layers_of_one_name_and_changes_of_kernels() -> None:
    """The second layer of a name is compared with the second; a tick is no change."""
    layers = (LayerFacts("c", "plain", 10, 4040), LayerFacts("c", "fast", 5, 400))
    found = difference(BUILD, replace(BUILD, layers=(*layers, LayerFacts("d", "plain", 1, 900))))
    assert [(c.name, c.change) for c in found.layers] == [("d", 900), ("c", -600)]
    shown = text(found)
    assert "plain -> fast" in shown
    assert "new: plain" in shown
    json.dumps(to_json(found))
    assert difference(BUILD, BUILD).layers == ()


def test_builds_are_paired_by_name() -> None:
    other = replace(BUILD, name="b/m4.tar")
    pairs, alone = paired([BUILD, other], [replace(BUILD, name="c"), other])
    assert [d.after.name for d in pairs] == ["b/m4.tar"]
    assert alone == ["c: is new", "a/m4.tar: is gone"]
    assert markdown([], alone).splitlines()[-1] == "- `a/m4.tar: is gone`"


def test_names_cannot_break_out_of_markdown() -> None:
    hostile = "a`|\n<script>"
    after = replace(BUILD, name=hostile, interface={**BUILD.interface, "entry point": hostile},
                    figures={**BUILD.figures, "flash": 7})  # fmt: skip
    made = markdown([difference(BUILD, after)])
    row = made.splitlines()[2]
    assert row.count("|") - row.count("\\|") == 8
    assert len(made.splitlines()) == 5
    note = made.splitlines()[-1]
    assert note.count("`") == 4


def test_pieces_that_only_one_side_has() -> None:
    before = replace(BUILD, figures={"weights": 4})
    shown = text(difference(before, BUILD))
    assert "flash" in shown
    two = {**BUILD.interface, "inputs": [TENSOR, TENSOR]}
    assert "inputs: 1 -> 2" in difference(BUILD, replace(BUILD, interface=two)).interface


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(schema_version=2),
        lambda d: d.update(facts=[[]]),
        lambda d: d["facts"][0].pop("figures"),
        lambda d: d["facts"][0]["figures"].update(flash=-1),
        lambda d: d["facts"][0]["figures"].update(flash="7"),
        lambda d: d["facts"][0].update(layers=[{"name": "x"}]),
        lambda d: d["facts"][0]["interface"].pop("inputs"),
        lambda d: d["facts"][0]["interface"]["inputs"][0].pop("dtype"),
        lambda d: d["facts"][0]["interface"].update(inputs=[7]),
    ],
)
def test_foreign_baselines_are_refused(
    change: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "base.json"
    said(capsys, "diff", GESTURE, "--no-run", "--save", base)
    data = json.loads(base.read_text())
    change(data)
    base.write_text(json.dumps(data))
    assert "MLF0502" in refused(capsys, "diff", base, base)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([GESTURE], "nothing to compare with"),
        ([GESTURE, "no.onnx"], "MLF0201"),
        (["no.json", GESTURE], "MLF0501"),
        ([GESTURE, GESTURE, "--fail-on", "flash"], "flash>+2%"),
        ([GESTURE, GESTURE, "--fail-on", "flsh>+2%"], "did you mean 'flash'"),
        ([GESTURE, GESTURE, "--target", "cortex-m9"], "did you mean"),
    ],
)
def test_bad_input(
    words: list[object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, "diff", *words)
    assert list(tmp_path.iterdir()) == []


def test_what_is_saved_is_what_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "diff", GESTURE, "--no-run", "--save", tmp_path / "a.json")
    (found,) = read_facts(tmp_path / "a.json")
    subject = of_spec(ModuleSpec(GESTURE, "gesture_int8", "cortex-m4"), "", "gesture_int8.onnx")
    assert found == facts(subject, run=False)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (("uint8", 0.5, 128), ("int8", 0.5, 0), "; the same real values, stored -128"),
        (("int8", 0.5, -128), ("uint8", 0.5, 0), "; the same real values, stored +128"),
        (("uint8", 0.5, 128), ("int8", 0.5, 128), "; real values -64 to 63.5 -> -128 to -0.5"),
        (("int8", 0.5, 0), ("int8", 0.25, 0), "; real values -64 to 63.5 -> -32 to 31.75"),
        (("int16", 0.5, 0), ("int8", 0.5, 0), "; real values -16384 to 16383.5 -> -64 to 63.5"),
        (("float32", None, None), ("int8", 0.5, 0), ""),
        (("int8", 0.5, 3), ("int8", 0.5, 3), ""),
    ],
)
def test_zero_points_of_unlike_types(
    before: tuple[str, float | None, int | None],
    after: tuple[str, float | None, int | None],
    said: str,
) -> None:
    """The same number means another value where the type is another."""
    keys = ("dtype", "scale", "zero_point")
    tensors = (
        {**TENSOR, **{k: v for k, v in zip(keys, t, strict=True) if v is not None}}
        for t in (before, after)
    )
    old, new = (replace(BUILD, interface={**BUILD.interface, "inputs": [t]}) for t in tensors)
    (change, *_) = [*difference(old, new).interface, ""]
    assert change.partition(";")[1:] == (said[:1], said[1:])
