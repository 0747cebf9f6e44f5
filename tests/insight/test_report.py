"""`mlftool report`: one page that needs nothing else, with the figures of the other commands."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from looks import (
    GESTURE,
    MANIFEST,
    data_of,
    dom,
    needs_board,
    needs_chromium,
    photographed,
    printed,
    refused,
    said,
)

from mlftool.cli import main
from mlftool.insight import curve, report
from mlftool.insight.subject import of_spec
from mlftool.module import ModuleSpec

VECTORS = GESTURE.with_suffix(".npz")
VOID = {"meta", "wbr"}


class Page(HTMLParser):
    """Tags that are open, and everything that could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "action")]
        self.links += [k for k, _ in attrs if k.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(path: Path) -> Page:
    data = path.read_bytes()
    assert len(data) < 1_000_000
    page = Page(data.decode())
    assert page.open == []
    assert page.links == []
    assert not page.tags & {"script", "link", "img", "iframe", "object", "form"}
    assert b"@import" not in data
    assert b"url(" not in data
    return page


@needs_board
def test_the_page_has_the_figures_of_the_other_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.html"
    words = ("report", GESTURE, "-o", out, "--inputs", VECTORS, "--expect", VECTORS, "--no-curve")
    figures = data_of(capsys, *words)["figures"]
    page = checked(out)
    (profile,) = data_of(capsys, "profile", GESTURE)["profiles"]
    (size,) = data_of(capsys, "size", GESTURE)["sizes"]
    assert (figures["flash"], figures["ram"]) == (size["flash"]["bytes"], size["ram"]["bytes"])
    for layer in profile["layers"]:
        for key in ("name", "kernel"):
            assert layer[key] in page.text
        assert f"{layer['instructions']:,}" in page.text
    assert f"{figures['flash']:,} B" in page.text
    assert "Equal to the reference" in page.text
    assert re.search(r"Measured with .*gcc.* 1\d\.", page.text)
    assert "Measured with QEMU emulator version" in page.text
    kernels = {layer["kernel"]: 0 for layer in profile["layers"]}
    for layer in profile["layers"]:
        kernels[layer["kernel"]] += layer["instructions"]
    for name, count in kernels.items():
        assert re.search(rf"{re.escape(name)}\s*\d+\s*{count:,}", page.text)
    # Shares of 500 layers added up to more than the whole in one of the two tables.
    between = profile["totals"]["between_instructions"]
    assert between
    assert len(re.findall(rf"between layers\s*{between:,}", page.text)) == 2
    assert hashlib.sha256(GESTURE.read_bytes()).hexdigest() in page.text
    first = out.read_bytes()
    command = re.search(r"^mlftool report .*$", page.text, re.MULTILINE)
    assert command
    assert main(shlex.split(command[0])[1:]) == 0  # the same command makes the same bytes
    assert out.read_bytes() == first


@needs_board
def test_results_that_differ_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load(VECTORS) as file:
        arrays = {name: file[name][:3] for name in file.files}
    arrays["probability"] = arrays["probability"] + 1
    np.savez(tmp_path / "v.npz", **arrays)
    words = ("--inputs", tmp_path / "v.npz", "--expect", tmp_path / "v.npz", "--no-curve")
    data = data_of(capsys, "report", GESTURE, "-o", tmp_path / "r.html", *words)
    assert data["passed"] is False
    assert "15 elements differ" in checked(tmp_path / "r.html").text


def test_without_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(
        capsys, "report", GESTURE, "-o", tmp_path / "r.html", "--target", "host", "--no-curve"
    )
    assert "instructions" not in data["figures"]
    assert any(m.startswith("instructions, flash and RAM") for m in data["missing"])
    page = checked(tmp_path / "r.html")
    assert "Not measured" in page.text
    assert "Working memory" in page.text


def test_a_large_model_stays_below_a_megabyte(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", np.float32, (2, 64))
    for _ in range(1500):
        x = net.node("Softmax", net.node("Transpose", x))
    spec = ModuleSpec(net.model(x), "m", "host", opt_level=0)
    made = report.report(of_spec(spec, "", "m"), None, None, [])
    (tmp_path / "r.html").write_text(report.page(made))
    assert "Too large for this page" in checked(tmp_path / "r.html").text


def test_counts_have_their_thousands_apart() -> None:
    """The page of a model of 1,000 layers said 1002."""
    template = Path(report.__file__).with_name("report.html.j2").read_text()
    assert re.findall(r"\{\{[^{}]*\| length \}\}", template) == []


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = 'a\n</style><script>alert(1)</script><img src=x onerror=1>"&{{ 7 * 7 }}'
    node = onnx.helper.make_node("Neg", ["x"], [name], name=name)
    ends = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in ("x", name)]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    subject = of_spec(ModuleSpec(model, "m", "host"), "", name)
    (tmp_path / "r.html").write_text(report.page(report.report(subject, None, None, [name])))
    page = checked(tmp_path / "r.html")
    assert "{{ 7 * 7 }}" in page.text


@needs_chromium
def test_a_browser_shows_it_light_and_dark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.html"
    said(capsys, "report", GESTURE, "-o", out, "--target", "host", "--no-curve")
    light = photographed(out, tmp_path)
    dark = photographed(out, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert tuple(light[-1, 0]) == (255, 255, 255)
    assert tuple(dark[-1, 0]) == (0x18, 0x18, 0x18)
    for shown in (light, dark):
        assert len({tuple(c) for c in shown.reshape(-1, 3).tolist()}) > 50  # letters, smoothed


@needs_board
@needs_chromium
def test_pictures_stay_readable_on_a_telephone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are as large as on a wide screen and scroll; to fit, letters would be of four pixels."""
    out = tmp_path / "r.html"
    said(capsys, "report", GESTURE, "-o", out, "--target", "cortex-m4", "--no-curve")
    text = re.sub(r'<section class="memory">.*?</section>', "", out.read_text(), flags=re.DOTALL)
    out.write_text(text)
    shown = photographed(out, tmp_path, size="400,1600").astype(int)
    blue = shown[:, :, 2] - shown[:, :, 0] > 80
    longest = max(len(run) for x in (320, 360) for run in _runs(blue[:, x]))
    assert longest >= 16  # a bar of 18, whose edges are smoothed


@needs_board
@needs_chromium
def test_no_table_is_cut_on_a_small_window(tmp_path: Path) -> None:
    """Of 900 pixels. The last column of options was outside, as were the operators of layers."""
    found = report.report(of_spec(ModuleSpec(GESTURE, "g", "cortex-m4"), "", "g"), None, None, [])
    assert found.plans
    figures = dict.fromkeys(curve.COUNTED, 11_170_400)
    points = tuple(
        curve.Point(options, 36_464, True, ("conv_22 to conv_44",), 11_170_400, figures)
        for options in ("", "--ram-budget 16896", "--ram-budget 16896 --workspace-io")
    )
    plans = curve.Curve(points[0], points[1:], "cycles")
    page = report.page(replace(found, plans=plans))
    page = re.sub(r"<td>\d+,\d+</td>", "<td>9,999,999</td>", page)
    page = page.replace("dsp.triples", "portable.average_pool_s8")
    script = """<script>document.title = [...document.querySelectorAll(".wide:has(table)")]
        .filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText.slice(0, 60))
        .join() + " at " + innerWidth</script></body>"""
    page = re.sub("<meta http-equiv.*?>", "", page).replace("</body>", script)
    (tmp_path / "r.html").write_text(page)
    title = re.search("<title>(.*?)</title>", dom(tmp_path / "r.html", tmp_path, 900), re.DOTALL)
    assert title
    assert title[1] == " at 900"


def _runs(column: Any) -> list[str]:
    return "".join("#" if c else " " for c in column.tolist()).split()


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        ("instructions", 2_000, "an inference"),
        ("instructions", 2_000_000, "2.00 million an inference"),
        ("cycles", 2_500_000, "2.50 million, estimated"),
        ("cycles", 12, "estimated"),
        ("ram", 80, ""),
        ("flash", 2_048, "2.0 KiB"),
    ],
)
def test_a_figure_has_a_unit_that_fits(name: str, value: int, other: str) -> None:
    assert report._sizes(name, value)[1] == other


@needs_chromium
def test_it_prints_on_few_pages(tmp_path: Path) -> None:
    """A network of 33 layers: its drawing shares a page with its heading and what follows, and is
    folded into columns that a page has room for."""
    net = Net()
    x = net.input("x", np.float32, (2, 64))
    for _ in range(15):
        x = net.node("Softmax", net.node("Transpose", x))
    subject = of_spec(ModuleSpec(net.model(x), "m", "host", opt_level=0), "", "m")
    text = report.page(report.report(subject, None, None, ["mlftool report"]))
    (tmp_path / "r.html").write_text(text)
    width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', text)[-1])
    assert 0.6 < width / height < 1.8
    pdf = printed(tmp_path / "r.html", tmp_path)
    assert len(re.findall(rb"/Type ?/Page\b", pdf)) == 2  # figures and memory; drawing and the rest


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.onnx").write_text("nothing")
    out = ("-o", tmp_path / "r.html")
    assert "MLF0202" in refused(capsys, "report", tmp_path / "x.onnx", *out)
    assert "MLF0400" in refused(capsys, "report", GESTURE, *out, "--inputs", VECTORS)
    assert "several entries" in refused(capsys, "report", MANIFEST, *out)
    wrong = ("--inputs", tmp_path / "x.onnx", "--expect", VECTORS)
    assert "MLF0600" in refused(capsys, "report", GESTURE, *out, *wrong)
    assert "MLF0610" in refused(capsys, "report", GESTURE, *out, "--on", "cortex-m44")
    assert [p.name for p in tmp_path.iterdir()] == ["x.onnx"]
