"""`mlftool memmap`: the plan as it is, its peak, and options that really lower it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from builders import Net
from looks import GESTURE, MANIFEST, MODELS, data_of, refused, said
from shared import NETWORKS

from mlftool.compile import ModuleSpec, compile_module
from mlftool.insight.description import described
from mlftool.insight.memmap import drawing, memory_map, text
from mlftool.insight.subject import Subject, of_spec
from mlftool.insight.svg import COLOURS
from mlftool.mlf import Bundle, checksums, write_tar

FLOAT = MODELS / "vibration_float32.onnx"


def only(data: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = data["maps"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("model", sorted(MODELS.glob("*.onnx")), ids=lambda p: p.stem)
def test_maps_are_the_planners(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The peak is the planner's bound where that is met, and blocks alive together that neither
    takes over from the other do not overlap."""
    found = only(data_of(capsys, "memmap", model, "--no-advice"))
    memory = compile_module(ModuleSpec(model, "m", "cortex-m4")).program.memory
    (pool,) = found["pools"]
    assert pool["size_bytes"] == memory.size_bytes == found["workspace_bytes"]
    assert len(pool["blocks"]) == len(memory.buffers)
    if memory.proof == "liveness":
        assert max(pool["alive_bytes"]) == memory.size_bytes
    assert pool["alive_bytes"][pool["peak_step"]] == max(pool["alive_bytes"])
    assert pool["peak_node"] == found["steps"][pool["peak_step"]]
    for a, b in combinations(pool["blocks"], 2):
        together = a["first_step"] < b["last_step"] and b["first_step"] < a["last_step"]
        apart = (
            a["offset_bytes"] + a["size_bytes"] <= b["offset_bytes"]
            or b["offset_bytes"] + b["size_bytes"] <= a["offset_bytes"]
        )
        assert apart or not together


def test_what_is_said_to_lower_the_peak_does(capsys: pytest.CaptureFixture[str]) -> None:
    model = next(n for n in NETWORKS if n.name == "kws_int8").path
    found = only(data_of(capsys, "memmap", model))
    assert found["ways"]
    for way in found["ways"]:
        assert way["ram_bytes"] < found["ram_bytes"]
        again = only(data_of(capsys, "memmap", model, "--no-advice", *way["options"].split()))
        sizes = ("workspace_bytes", "ram_bytes")
        assert [again[k] for k in sizes] == [way[k] for k in sizes]
        assert f"{way['ram_bytes']:,} B in all" in said(capsys, "memmap", model)


def test_the_text_shows_each_block_and_the_peak(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "memmap", GESTURE, "--no-advice").splitlines()
    assert not any("what lowers it" in line for line in lines)  # nothing was tried
    (pool,) = only(data_of(capsys, "memmap", GESTURE, "--no-advice"))["pools"]
    steps = len(pool["alive_bytes"])
    charts = [re.search(r"^ *([\d,]+) +([\d,]+)  ([#.]+)  from", line) for line in lines]
    bars = [found[3] for found in charts if found]
    assert len(bars) == len(pool["blocks"])
    for bar, block in zip(bars, pool["blocks"], strict=True):
        first, last = block["first_step"], block["last_step"]
        expected = "." * first + "#" * (last - first + 1) + "." * (steps - last - 1)
        assert bar == expected
    assert any(f"at step {pool['peak_step']}, '{pool['peak_node']}'" in line for line in lines)


def test_long_models_fit_into_the_chart() -> None:
    net = Net()
    x = net.input("x", np.float32, (64,))
    for _ in range(300):
        x = net.node("Softmax", net.node("Transpose", x))
    spec = ModuleSpec(net.model(x), "m", "cortex-m4", opt_level=0)
    shown = text(memory_map(of_spec(spec, "", "m"), False))
    bars = re.findall(r"  ([#.]+)  from", shown)
    assert len(bars) > 250
    assert {len(bar) for bar in bars} == {len(bars[0])}
    assert all("#" in bar and len(bar) <= 72 for bar in bars)


def test_pools_have_a_map_each(capsys: pytest.CaptureFixture[str]) -> None:
    pools = ["--pool", "fast=512", "--pool", "slow=64KiB"]
    found = only(data_of(capsys, "memmap", GESTURE, *pools))
    assert [p["name"] for p in found["pools"]] == ["fast", "slow"]
    assert sum(p["size_bytes"] for p in found["pools"]) == found["workspace_bytes"]
    assert "pool fast: " in said(capsys, "memmap", GESTURE, *pools)


@pytest.mark.parametrize("model", [GESTURE, FLOAT], ids=lambda p: p.stem)
def test_the_picture_is_whole_and_the_same_again(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = []
    for k in range(2):
        assert said(capsys, "memmap", model, "--svg", tmp_path / f"{k}.svg") == ""
        pictures.append((tmp_path / f"{k}.svg").read_bytes())
    assert pictures[0] == pictures[1]
    root = ElementTree.fromstring(pictures[0])
    boxes = [e for e in root.iter() if e.get("class") == "edge block"]
    (pool,) = only(data_of(capsys, "memmap", model, "--no-advice"))["pools"]
    assert len(boxes) == len(pool["blocks"])
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for box in boxes:
        x, y, w, h = (float(box.get(k, -1)) for k in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    assert b"script" not in pictures[0]
    assert b"http" not in pictures[0].replace(b"http://www.w3.org/2000/svg", b"")


def archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    said(capsys, "compile", GESTURE, "--target", "cortex-m4", "-o", tmp_path / "g.tar")
    return tmp_path / "g.tar"


def test_archives_hold_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = only(data_of(capsys, "memmap", archive(tmp_path, capsys)))
    own = only(data_of(capsys, "memmap", GESTURE, "--no-advice"))
    assert found["pools"] == own["pools"]
    assert [m.split(":")[0] for m in found["missing"]] == ["what would lower it"]


def test_a_manifest_has_a_map_for_each_entry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("memmap", MANIFEST, "--entry", "gesture_int8", "--no-advice")
    assert "host" in {m["target"] for m in data_of(capsys, *words)["maps"]}
    assert "several entries" in refused(capsys, *words, "--svg", tmp_path / "x.svg")
    assert list(tmp_path.iterdir()) == []


def changed(subject: Subject, change: Any) -> Bundle:
    """The archive with another description."""
    name = f"executor-config/aot/{subject.interface.module}.json"
    data = json.loads(subject.bundle.text(name))
    change(data)
    files = {**subject.bundle.files, name: json.dumps(data).encode()}
    del files[checksums.MEMBER]  # which would be an attacker's own
    return Bundle(files)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("memory"),
        lambda d: d["memory"]["pools"].clear(),
        lambda d: d["memory"]["buffers"].append({"name": "x"}),
        lambda d: d["memory"]["buffers"][0].update(offset_bytes=-1),
        lambda d: d["memory"]["buffers"][0].update(size_bytes=1e300),
        lambda d: d["memory"]["buffers"][0].update(first_step=9, last_step=3),
        lambda d: d["memory"]["buffers"][0].update(last_step=10**12),
        lambda d: d["memory"]["buffers"][0].update(offset_bytes=10**12),
        lambda d: d["memory"].update(buffers=7),
        lambda d: d["nodes"][0].update(macs="many"),
        lambda d: d.update(nodes={}),
    ],
)
def test_foreign_plans_are_refused(
    change: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = of_spec(ModuleSpec(GESTURE, "g", "cortex-m4"), "", "")
    write_tar(changed(subject, change), tmp_path / "g.tar")
    assert "MLF0607" in refused(capsys, "memmap", tmp_path / "g.tar")


def test_hostile_names_stay_in_their_place() -> None:
    """In text, where they could forge lines, and in the picture, where they could be markup."""
    name = 'a\n\x1b[2J<script>"&]]>'
    subject = of_spec(ModuleSpec(GESTURE, "g", "cortex-m4"), "", "")

    def change(data: dict[str, Any]) -> None:
        for b in data["memory"]["buffers"]:
            b["name"] = name
        for n in data["nodes"]:
            n["name"] = name

    hostile = Subject("", "g", changed(subject, change), "g")
    assert described(hostile.record, "")
    shown = memory_map(hostile)
    assert "\x1b" not in text(shown)
    assert "<script>" not in drawing(shown)
    root = ElementTree.fromstring(drawing(shown))
    assert not [e for e in root.iter() if "script" in e.tag]


def _over(below: str, above: str, opacity: float) -> str:
    """The colour that shows where one lies on the other."""
    pairs = zip(_parts(below), _parts(above), strict=True)
    return "#" + "".join(f"{round(b + (a - b) * opacity):02x}" for b, a in pairs)


def _parts(colour: str) -> list[int]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    return [int(digits[k : k + 2], 16) for k in (0, 2, 4)]


def _contrast(one: str, two: str) -> float:
    """As the Web Content Accessibility Guidelines 2.2 define it, from 1 to 21."""

    def light(colour: str) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                  for c in (p / 255 for p in _parts(colour))]  # fmt: skip
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((light(one), light(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("model", sorted(MODELS.glob("*.onnx")), ids=lambda p: p.stem)
def test_names_in_blocks_do_not_overlap(model: Path) -> None:
    """Where an output takes over the bytes of an input, both blocks are in that step."""
    subject = of_spec(ModuleSpec(model, "m", "cortex-m4"), "", "")
    root = ElementTree.fromstring(drawing(memory_map(subject, False)))
    places = [
        (float(e.attrib["x"]), float(e.attrib["y"]), 6 * len(e.text or ""))
        for e in root.iter("{http://www.w3.org/2000/svg}text")
        if e.attrib.get("class") == "small in"
    ]
    assert len(places) > 1
    for (x, y, width), (other, above, wide) in combinations(places, 2):
        assert x + width <= other or other + wide <= x or abs(y - above) >= 9


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_names_in_blocks_can_be_read(is_dark: bool, capsys: pytest.CaptureFixture[str],
                                     tmp_path: Path) -> None:  # fmt: skip
    """On every colour, at the peak, too; names are drawn over its mark."""
    assert _contrast("#000", "#fff") == 21
    said(capsys, "memmap", GESTURE, "--svg", tmp_path / "m.svg")
    text = (tmp_path / "m.svg").read_text()
    assert text.index('class="mark"') < text.index('class="small in"')
    (css,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    light, _, dark = css.partition("@media")
    style: dict[str, dict[str, str]] = {}
    for name, body in re.findall(r"\.(\w+) \{ ([^}]*)\}", light + (dark if is_dark else "")):
        style.setdefault(name, {}).update(re.findall(r"([\w-]+): ([^; ]+)", body))
    for colour in COLOURS:
        block = _over(style["paper"]["fill"], colour, float(style["block"]["fill-opacity"]))
        peak = _over(block, style["mark"]["fill"], float(style["mark"]["fill-opacity"]))
        for ground in (block, peak):
            assert _contrast(style["in"]["fill"], ground) > 4, (colour, ground)
