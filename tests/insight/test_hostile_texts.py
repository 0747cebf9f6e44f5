"""Names in a model that are HTML, Markdown, formulas, commands of build services or escapes of a
terminal: nothing that a command prints or writes is more than text."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from looks import needs_board, said
from onnx import TensorProto, helper, numpy_helper

from mlftool.errors import one_line

NAMES = [
    *("a\nx.onnx: error[MLF0100]: forged", "\r\rover", "\x85next\u2028line", "\x1b[2J\x1b[31mred"),
    *("<script>alert(1)</script>", "]]><img src=x onerror=alert(1)>", "-->", "&lt;b&amp;"),
    *("|[x](javascript:alert(1))|`@octocat` #1 <b>", "www.example.com", "http://example.com"),
    *('=HYPERLINK("http://e","x")', "+1", "-1+cmd|'/c x'!A1", "@SUM(1)"),
    *("::error file=x::forged", "  ::add-mask::x", "##vso[task.complete]", "##[error]forged"),
    *("${HOME}$(id)`id`", "%s%n%d", "\"quote' \\ back\\", "*/ int main(void); /*", "??/", "\\\nb"),
    *("{{7*7}}{% raw %}", "\u202eevil\u202c", "x" * 10_000),
]
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "p", "section", "h2", "div", "span"),
    *("b", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "code", "pre", "wbr"),
    *("svg", "rect", "text", "g", "line", "path"),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of small convolutions: each name is a node's, a weight's and a tensor's."""
    nodes, weights, last = [], [], f"in {NAMES[0]}"
    first = helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, 1, 4, 4])
    for k, name in enumerate(NAMES):
        kernel = np.full((1, 1, 1 + k % 3, 1 + k % 3), 0.5, np.float32)
        weights.append(numpy_helper.from_array(kernel, f"{name}/w{k}"))
        ends = [k % 3 // 2, k % 3 // 2, (k % 3 + 1) // 2, (k % 3 + 1) // 2]
        made = f"{name}/y{k}"
        words = {"name": name, "pads": ends, "doc_string": name}
        nodes.append(helper.make_node("Conv", [last, f"{name}/w{k}"], [made], **words))
        last = made
    end = helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, 1, 4, 4])
    graph = helper.make_graph(nodes, NAMES[4], [first], [end], weights, doc_string=NAMES[4])
    about = {"producer_name": NAMES[4], "doc_string": NAMES[3], "ir_version": 9}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], **about)
    file = tmp_path_factory.mktemp("hostile") / "h.onnx"
    onnx.save(model, file)
    return file


PRINTED = (
    ("profile",),
    ("profile", "--markdown"),
    ("size", "--depth", "9"),
    ("memmap", "--no-advice"),
    ("trace",),
    ("ops",),
    ("compare", "--on", "cortex-m4", "--samples", "1"),
)


@needs_board
@pytest.mark.parametrize("words", PRINTED, ids=" ".join)
def test_a_terminal_and_a_log_show_text(
    words: tuple[str, ...], hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, words[0], hostile, *words[1:])
    assert len(out.splitlines()) > len(NAMES) // 2
    assert [c for c in set(out) if c != "\n" and not c.isprintable()] == []
    assert re.search(r"^\s*::|##\w*\[|^(x\.onnx|over|red)", out, re.MULTILINE) is None


@needs_board
def test_markdown_shows_names_as_code(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "profile", hostile, "--markdown")
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {14}
    outside = [re.sub(r"`[^`]*`", "", row) for row in rows]
    assert re.search(r"[<@#\[&]|://|www", "".join(outside)) is None
    assert "`<script>alert(1)</script>`" in out


@needs_board
def test_a_spreadsheet_computes_nothing(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "profile", hostile, "--csv")
    names = [row["layer"] for row in csv.DictReader(io.StringIO(out))]
    assert len(names) == len(NAMES)
    assert [n for n in names if n.startswith(("=", "+", "-", "@"))] == []
    assert "'+1" in names


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}


@needs_board
def test_pages_and_pictures_have_our_elements_only(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "report", hostile, "-o", tmp_path / "r.html")
    said(capsys, "memmap", hostile, "--svg", tmp_path / "m.svg")
    said(capsys, "graph", hostile, "-o", tmp_path / "a.svg")
    said(capsys, "graph", hostile, "-o", tmp_path / "b.svg", "--before")
    page = Page()
    page.feed((tmp_path / "r.html").read_text())
    assert page.elements <= ELEMENTS
    assert not any(name.startswith("on") or name in ("href", "src") for name in page.attributes)
    for picture in tmp_path.glob("*.svg"):
        found = list(ElementTree.parse(picture).getroot().iter())
        assert {e.tag.partition("}")[2] for e in found} <= ELEMENTS
        assert not any(name.startswith("on") or "href" in name for e in found for name in e.attrib)


def test_json_has_the_names_themselves(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(said(capsys, "graph", hostile, "--json", "--before"))
    assert set(NAMES) <= {box["name"] for box in data["boxes"]}


def test_what_services_take_for_commands() -> None:
    assert one_line("::error::x") == ":\\x3aerror::x"
    assert (
        one_line("a ##vso[x] ##[y] C++ ## std::move") == "a #\\x23vso[x] #\\x23[y] C++ ## std::move"
    )
