"""`mlftool profile`: what it counts is what `run`, the archive and binutils say of the whole."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from looks import GESTURE, MANIFEST, data_of, loop_model, needs_board, refused, said
from shared import NETWORKS

from mlftool.compile import ModuleSpec, compile_module
from mlftool.insight import cycles
from mlftool.insight.cores import CORES
from mlftool.insight.layers import Layer, least
from mlftool.insight.profile import Cost, Profile, measured, text
from mlftool.ir.dtype import BY_NAME
from mlftool.runtime.boards import BOARDS
from mlftool.targets import TARGETS

VECTORS = GESTURE.with_suffix(".npz")
TICK = 40  # instructions of the boards of MPS2


def only(data: dict[str, Any]) -> dict[str, Any]:
    (profile,) = data["profiles"]
    assert isinstance(profile, dict)
    return profile


@pytest.fixture
def gesture(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return only(data_of(capsys, "profile", GESTURE, "--inputs", VECTORS))


@needs_board
@pytest.mark.parametrize("target", ["cortex-m3", "cortex-m55", "rv32imc"])
def test_layers_add_up_to_what_a_run_takes(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = only(data_of(capsys, "profile", GESTURE, "--inputs", VECTORS, "--target", target))
    layers, totals = whole["layers"], whole["totals"]
    counted = sum(layer["instructions"] for layer in layers)
    assert totals["instructions"] == counted + totals["between_instructions"]
    out = said(capsys, "run", GESTURE, "--inputs", VECTORS, "--on", target, "--json")
    run = json.loads(out)  # the mean over its samples
    # That of all samples; a tick for each mark.
    assert abs(totals["instructions"] - run["instructions"]) <= TICK * (len(layers) + 4)
    assert abs(totals["between_instructions"]) <= TICK * len(layers)


@needs_board
def test_layers_have_their_names_and_bytes(gesture: dict[str, Any]) -> None:
    nodes = {n.name for n in onnx.load(GESTURE).graph.node}
    layers, totals = gesture["layers"], gesture["totals"]
    assert [layer["step"] for layer in layers] == list(range(len(layers)))
    assert {layer["name"] for layer in layers} <= nodes
    spec = ModuleSpec(GESTURE, "m", "cortex-m4")
    module = compile_module(spec)
    assert totals["macs"] == sum(c.kernel.macs for c in module.program.calls)
    assert totals["weights_bytes"] == module.sources.constants_bytes
    wide = next(layer for layer in layers if layer["name"] == "wide_Conv")
    assert wide["least_instructions"] == wide["macs"] / 2  # two products for each SMLAD
    assert wide["weights_bytes"] == sum(wide["constants"].values())
    graph = module.program.graph
    call = next(c for c in module.program.calls if c.node.name == "wide_Conv")
    tensors = graph.types[call.node.inputs[0]].bytes + graph.types[call.node.result].bytes
    assert wide["moved_bytes"] == tensors + wide["weights_bytes"]


@needs_board
def test_code_is_what_nm_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path))
    layers = only(data_of(capsys, "profile", GESTURE))["layers"]
    every = [
        subprocess.check_output(["arm-none-eabi-nm", "-S", firmware], text=True)
        for firmware in tmp_path.glob("*/firmware.elf")
    ]
    (lines,) = (names.splitlines() for names in every if "mlf_marks" in names)
    sizes: dict[str, int] = {}
    for line in lines:
        if found := re.fullmatch(r"\w+ (\w+) [tT] (\w+)(\..*)?", line):
            sizes[found[2]] = sizes.get(found[2], 0) + int(found[1], 16)
    for layer in layers:
        assert layer["code_bytes"] == sizes[layer["function"]] > 0


@needs_board
def test_every_executor_has_the_same_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    forms: list[list[str]] = [[], ["--executor", "graph"], ["--executor", "vm"]]
    found = [only(data_of(capsys, "profile", GESTURE, *form)) for form in forms]
    assert found[0]["layers"] == found[1]["layers"] == found[2]["layers"]


@needs_board
def test_an_archive_says_what_it_cannot(
    gesture: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tar = tmp_path / "g.tar"
    said(capsys, "compile", GESTURE, "--target", "cortex-m4", "-o", tar)
    whole = only(data_of(capsys, "profile", tar, "--inputs", VECTORS))
    assert [m.split(":")[0] for m in whole["missing"]] == ["the instructions of each layer"]
    assert whole["totals"]["instructions"] == gesture["totals"]["instructions"]
    for ours, other in zip(whole["layers"], gesture["layers"], strict=True):
        same = ("name", "kernel", "function", "macs", "code_bytes", "weights_bytes")
        assert [ours[k] for k in same] == [other[k] for k in same]
        assert ours["instructions"] is None
    assert "not known: the instructions of each layer" in said(capsys, "profile", tar)


@needs_board
def test_the_text_is_sorted_by_cost_and_names_are_whole(
    gesture: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(capsys, "profile", GESTURE, "--inputs", VECTORS).splitlines()
    count = len(gesture["layers"])
    assert lines[0] == "gesture_int8.onnx on cortex-m4 (Arm MPS2+ AN386, Cortex-M4F), gcc -O2"
    rows = [line.split() for line in lines[3 : 3 + count]]
    costs = [int(row[1].replace(",", "")) for row in rows]
    assert costs == sorted(costs, reverse=True)
    whole, between = (gesture["totals"][f"{k}instructions"] for k in ("", "between_"))
    assert sum(costs) + between == whole
    assert {row[-1] for row in rows} == {layer["name"] for layer in gesture["layers"]}
    assert lines[3 + count].split()[1] == f"{between:,}"
    assert lines[5 + count].split()[0] == f"{whole:,}"
    table = said(capsys, "profile", GESTURE, "--inputs", VECTORS, "--markdown").splitlines()
    assert table[2].startswith("| step | instructions |")
    assert {line.count("|") for line in table[2 : 6 + count]} == {14}


def test_why_columns_are_more_than_their_sums_is_said() -> None:
    def cost(step: int, function: str, **constants: int) -> Cost:
        layer = Layer(step, f"l{step}", "Add", "k", function, 0, constants, 0, None)
        return Cost(layer, 40, 10, 1)

    whole = Profile("n", "m", "t", "b", "-O2", 160, (cost(0, "f", a=8), cost(1, "g", b=4)))
    assert "shared" not in text(whole)
    costs = (*whole.costs, cost(2, "f", a=8), cost(3, "h", a=8, b=4))
    costs = tuple(replace(c, sharers=1 + (c.layer.function == "f")) for c in costs)
    shared = replace(whole, costs=costs)
    assert shared.weights_bytes == 12
    assert shared.code_bytes == 30
    assert "1 function is shared by several layers: the sum has its bytes once." in text(shared)
    assert "2 constants are shared by several layers: the sum has their bytes once." in text(shared)


@needs_board
def test_cycles_are_those_of_the_table(gesture: dict[str, Any]) -> None:
    """Each layer's, and in all what the whole program's functions take."""
    totals = gesture["totals"]
    layers = sum(layer["cycles"] for layer in gesture["layers"])
    assert totals["cycles"] == layers + totals["between_cycles"]
    for layer in gesture["layers"]:
        # An instruction of Cortex-M4 takes 1 to 3 cycles, but for divisions and lists.
        assert 1 <= layer["cycles"] / layer["instructions"] < 4, layer
    module = compile_module(ModuleSpec(GESTURE, "m", "cortex-m4"))
    whole = measured(module, BOARDS["cortex-m4"], "-O2")
    assert whole.cycles is None  # nobody asked


@needs_board
def test_cycles_of_known_instructions(tmp_path: Path) -> None:
    """Three instructions, of which the second is a load behind a load, and a branch back."""
    listing = [
        cycles.Instruction(k, "kernel", name, operands)
        for k, (name, operands) in enumerate(
            [("ldr", "r0, [r1]"), ("ldr", "r2, [r1, #4]"), ("smlad", "r3, r0, r2, r3"),
             ("udiv", "r0, r1, r2"), ("ldmia", "r0!, {r1, r2-r4}"), ("bne", "0"), ("bx", "lr")]
        )
    ]  # fmt: skip
    counts = {0: 10, 1: 10, 2: 10, 3: 10, 4: 10, 5: 10, 6: 1}
    found = cycles.priced(listing, counts, CORES["cortex-m4"])
    # 2 + 1 + 1 + 7 + 5, and the branch: 1, and 2 more for the nine times that it is taken.
    assert found == {"kernel": cycles.Clocks(61, 10 * 16 + 10 + 2 * 9 + 3)}


@needs_board
def test_without_a_compiler_for_this_computer_instructions_remain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "nosuchcc")
    whole = only(data_of(capsys, "profile", GESTURE, "--inputs", VECTORS))
    assert whole["totals"]["instructions"] > 0
    assert whole["totals"]["cycles"] is None
    assert whole["missing"][0].startswith("cycles: 'nosuchcc' (from $CC) is not installed")
    assert " cycles " not in said(capsys, "profile", GESTURE).splitlines()[2]


@needs_board
def test_csv_has_a_line_for_each_layer_of_each_entry(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "profile", MANIFEST, "--entry", "gesture_int8", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    # The entry for the host has no simulated board and is left out.
    assert list(dict.fromkeys(r["target"] for r in rows)) == [
        "cortex-m3",
        "cortex-m4",
        "cortex-m55",
    ]
    told = json.loads(said(capsys, "profile", MANIFEST, "--entry", "gesture_int8", "--json"))
    totals = {p["target"]: p["totals"]["instructions"] for p in told["profiles"]}
    for row in rows:  # of the whole inference, what is between the layers among it
        share = float(row["instructions"]) / totals[row["target"]]
        assert float(row["share"]) == pytest.approx(share)
    assert all(int(r["instructions"]) > 0 for r in rows)


@needs_board
def test_subgraphs_count_with_the_node_that_has_them(tmp_path: Path) -> None:
    """The weights inside a Loop, too."""
    module = compile_module(ModuleSpec(loop_model(), "m", "cortex-m4"))
    whole = measured(module, BOARDS["cortex-m4"], "-O2")
    assert whole.weights_bytes == module.sources.constants_bytes
    (loop,) = (c for c in whole.costs if c.layer.op == "Loop")
    assert loop.layer.weights_bytes >= 4 * 64


@needs_board
def test_odd_models(tmp_path: Path) -> None:
    """One without a single layer, and one whose names try to forge lines."""
    net = Net()
    nothing = net.model(net.node("Identity", net.input("x", np.float32, (4,))))
    for node in nothing.graph.node:
        node.name = "a\n\x1b[31mforged | error"
    module = compile_module(ModuleSpec(nothing, "m", "cortex-m4"))
    whole = measured(module, BOARDS["cortex-m4"], "-O2")
    assert "\x1b" not in text(whole)
    empty = replace(whole, costs=(), instructions=0)
    assert text(empty).splitlines()[2].startswith("step")


@needs_board
def test_a_wide_model_is_answered_within_ten_seconds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processor time, and nothing in the cache."""
    kws = next(n for n in NETWORKS if n.name == "kws_int8").path
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path))
    before, start = os.times(), time.monotonic()
    assert only(data_of(capsys, "profile", kws))["totals"]["macs"] == 2_656_768
    after = os.times()
    spent = sum(after[:4]) - sum(before[:4])
    assert spent < 10, f"{spent:.1f} s of processor time, {time.monotonic() - start:.1f} s in all"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["profile", "no.onnx"], "MLF0201"),
        (["profile", "no.tar"], "MLF0501"),
        (["profile", "no.yaml"], "MLF0100"),
        (["profile", "x.onnx"], "MLF0202"),
        (["profile", "x.tar"], "MLF0502"),
        (["profile", GESTURE, "--target", "cortex-m9"], "did you mean"),
        (["profile", GESTURE, "--target", "host"], "choose with --on one of: cortex-m"),
        (["profile", GESTURE, "--on", "cortex-m44"], "did you mean 'cortex-m4'?"),
        (["run", GESTURE, "--on", "cortexm4"], "did you mean 'cortex-m4'?"),
        (["bench", GESTURE, "--on", "hots"], "did you mean 'host'?"),
        (["profile", GESTURE, "--on", "mars"], "got 'mars'"),
        (["profile", GESTURE, "--module", "m"], "--module: it names a module of an archive"),
        (["profile", GESTURE, "--entry", "m"], "--entry: it names an entry of a manifest"),
        (["profile", MANIFEST, "--optimize", "size"], "--optimize: set it in the manifest"),
        (["profile", f"{MANIFEST}:gesture_int8"], f"{MANIFEST} --entry gesture_int8"),
        (["profile", MANIFEST, "--entry", "gestur_int8"], "did you mean 'gesture_int8'"),
        (["profile", MANIFEST, "--target", "cortex-m5"], "did you mean 'cortex-m55'"),
        (["profile", MANIFEST, "--entry", "vibration_float32", "--target", "cortex-m3"], "none of"),
        (["profile", GESTURE, "--inputs", "x.onnx"], "MLF0600"),
    ],
)
def test_bad_input(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.onnx").write_bytes(b"\x08\x07junk")
    Path("x.tar").write_bytes(b"junk")
    assert said in refused(capsys, *words)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.onnx", "x.tar"]


@pytest.mark.parametrize(
    ("target", "of_type"),
    [
        ("cortex-m0", {"int8": 2, "int16": 2, "float32": 2}),  # MULS and ADDS
        ("cortex-m3", {"int8": 1, "int16": 1, "int32": 1}),
        ("cortex-m4", {"uint8": 1 / 2, "int16": 1 / 2, "int32": 1, "float32": 2}),
        ("cortex-m55", {"int8": 1 / 16, "int16": 1 / 8, "int32": 1 / 4, "float32": 2}),
        ("rv32imac", {"int8": 2, "int16": 2}),
    ],
)
def test_the_least_of_each_type(target: str, of_type: dict[str, float]) -> None:
    """A lower limit: with that of floats, layers of int16 took less than the least."""
    assert {t: least(TARGETS[target], BY_NAME[t]) for t in of_type} == of_type
