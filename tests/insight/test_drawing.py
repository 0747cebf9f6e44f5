"""`mlftool graph`: the picture holds every node and edge, nothing overlaps, and bytes repeat."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from builders import Layers
from looks import (
    GESTURE,
    MANIFEST,
    data_of,
    needs_board,
    needs_chromium,
    photographed,
    refused,
    said,
)
from shared import NETWORKS

from mlftool.cli import main
from mlftool.insight.graph import Box, Drawing, after, before, drawing
from mlftool.insight.layout import placed
from mlftool.insight.subject import of_spec
from mlftool.module import ModuleSpec

NETWORK = next(n for n in NETWORKS if n.name == "ic_int8")


def boxes(text: str) -> list[tuple[float, float, float, float]]:
    root = ElementTree.fromstring(text)
    found = [e for e in root.iter() if e.tag.endswith("rect") and e.get("class") == "edge"]
    names = ("x", "y", "width", "height")
    return [tuple(float(e.get(k, "nan")) for k in names) for e in found]  # type: ignore[misc]


def wide(count: int) -> onnx.ModelProto:
    """Branches that split and join, `count` layers in all."""
    net = Layers()
    x = net.input("x", np.float32, (1, 4, 4, 4))
    for k in range(count // 4):
        a, b = net.node("Abs", x), net.conv(x, 4, 4, 1, 1)
        joined = net.node("Mul", a, b)
        x = net.node("Softmax" if k % 2 else "LpNormalization", joined, axis=1)
    return net.model(x)


@pytest.mark.parametrize("count", [8, 100, 1000])
def test_nothing_overlaps_and_all_is_there(count: int) -> None:
    subject = of_spec(ModuleSpec(wide(count), "m", "cortex-m4", opt_level=0), "", "m")
    for found in (before(subject), after(subject)):
        text = drawing(found)
        placed_boxes = boxes(text)
        assert len(placed_boxes) == len(found.boxes)
        root = ElementTree.fromstring(text)
        paths = [e for e in root.iter() if e.tag.endswith("path")]
        assert len(paths) == sum(len(b.reads) for b in found.boxes)
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        assert width < 20_000
        assert height < 6_000
        for x, y, w, h in placed_boxes:
            assert 0 <= x <= x + w <= width
            assert 0 <= y <= y + h <= height
        for (x, y, w, h), (u, v, _, _) in combinations(placed_boxes, 2):
            assert abs(x - u) >= w or abs(y - v) >= h


@pytest.mark.parametrize("count", [1, 500])
def test_the_dearest_layer_is_the_darkest_however_many_there_are(count: int) -> None:
    """And names that differ at their end differ in the picture."""
    path = "/backbone/stage3/block0/squeeze_excite/layers"
    made = tuple(
        Box("node", f"{path}.{k}/Conv", "Conv", "float32", "", "", (), 9 if k == count // 2 else 1)
        for k in range(count)
    )
    text = drawing(Drawing("m", made, "MACs"))
    root = ElementTree.fromstring(text)
    fills = [e.get("fill") for e in root.iter() if e.get("class") == "edge"]
    assert fills.count("#e88050") == 1
    assert fills[count // 2] == "#e88050"
    shown = {e.text for e in root.iter() if (e.text or "").endswith("/Conv")}
    assert len(shown) == count


def test_boxes_stand_below_what_they_read() -> None:
    reads = [(), (0,), (0,), (1, 2), (), (3, 4), (0, 5)]
    places = placed(reads)
    for box, read in enumerate(reads):
        for k in read:
            assert places[k].row < places[box].row
    assert places[4].row == places[5].row - 1  # a constant stands right above its reader
    assert placed([]) == []


def test_the_picture_is_of_the_compiled_model(capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(capsys, "graph", NETWORK.path)
    found = data["boxes"]
    layers = data_of(capsys, "ops", NETWORK.path)["layers"]
    kernels = [b["kernel"] for b in found if b["kind"] == "node"]
    assert kernels == [layer["kernels"]["cortex-m4"] for layer in layers]
    for k, box in enumerate(found):
        assert all(at < k for at in box["reads"])
    assert [b["name"] for b in found if b["kind"] in ("in", "out")] == ["input", "output"]
    assert any(b["quantisation"] for b in found if b["kind"] == "node")
    assert sum(b["cost"] or 0 for b in found) == 12_501_632


@needs_board
def test_instructions_are_the_profiles(capsys: pytest.CaptureFixture[str]) -> None:
    found = data_of(capsys, "graph", GESTURE, "--count")
    (profile,) = data_of(capsys, "profile", GESTURE)["profiles"]
    assert found["unit"] == "instructions"
    costs = [b["cost"] for b in found["boxes"] if b["kind"] == "node"]
    assert costs == [layer["instructions"] for layer in profile["layers"]]


def test_the_same_bytes_without_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k in range(2):
        assert said(capsys, "graph", GESTURE, "-o", tmp_path / f"{k}.svg") == ""
    text = (tmp_path / "0.svg").read_bytes()
    assert text == (tmp_path / "1.svg").read_bytes()
    assert b"script" not in text
    assert b"http" not in text.replace(b"http://www.w3.org/2000/svg", b"")


def test_archives_have_the_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "compile", GESTURE, "--target", "cortex-m4", "-o", tmp_path / "g.tar")
    data = data_of(capsys, "graph", tmp_path / "g.tar")
    assert [m.split(":")[0] for m in data["missing"]] == ["what reads what"]
    assert len(data["boxes"]) == 9


def test_hostile_names_stay_text() -> None:
    name = 'a\n\x1b[2J<script>alert(1)</script>"&]]>'
    node = onnx.helper.make_node("Neg", ["x"], [name], name=name)
    kind = onnx.TensorProto.FLOAT
    ends = [onnx.helper.make_tensor_value_info(n, kind, [2]) for n in ("x", name)]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    text = drawing(after(of_spec(ModuleSpec(model, "m", "cortex-m4"), "", name)))
    assert "<script>" not in text
    assert "\x1b" not in text
    assert not [e for e in ElementTree.fromstring(text).iter() if "script" in e.tag]


@needs_chromium
def test_a_browser_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "graph", GESTURE, "-o", tmp_path / "g.svg")
    shown = photographed(tmp_path / "g.svg", tmp_path)
    # The paper, the blue of an input, the frames and letters.
    colours = {tuple(c) for c in shown.reshape(-1, 3).tolist()}
    assert {(255, 255, 255), (0xCF, 0xE8, 0xF7), (0, 0, 0)} <= colours


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.onnx").write_text("nothing")
    out = tmp_path / "x.svg"
    assert "MLF0400" in refused(capsys, "graph", GESTURE)
    assert "MLF0405" in refused(capsys, "graph", GESTURE, "-o", out, "--before", "--count")
    assert "MLF0202" in refused(capsys, "graph", tmp_path / "x.onnx", "-o", out)
    assert main(["compile", str(GESTURE), "-o", str(tmp_path / "g.tar"), "-q"]) == 0
    assert "not in an archive" in refused(
        capsys, "graph", tmp_path / "g.tar", "-o", out, "--before"
    )
    (tmp_path / "g.tar").unlink()
    assert "several entries" in refused(capsys, "graph", MANIFEST, "-o", out)
    assert "MLF0402" in refused(capsys, "graph", GESTURE, "-o", tmp_path / "x.onnx" / "y.svg")
    assert [p.name for p in tmp_path.iterdir()] == ["x.onnx"]
