"""The curve of RAM against cost in `mlftool report`: every point is what its options give."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from looks import GESTURE, data_of, needs_board
from test_report import checked

from mlftool.cli import main
from mlftool.insight import curve
from mlftool.insight.subject import Subject, of_archive, of_spec
from mlftool.module import ModuleSpec


@pytest.fixture(autouse=True)
def few_goals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curve, "GOALS", 1)


def wide_model() -> onnx.ModelProto:
    """A convolution that makes the input eight times as large, and a pool that reads it."""
    net = Net()
    x = net.input("x", np.float32, (1, 1, 8, 8))
    kernel = net.const(np.linspace(-1, 1, 8 * 9, dtype=np.float32).reshape(8, 1, 3, 3))
    wide = net.node("Conv", x, kernel, pads=[1, 1, 1, 1])
    return net.model(net.node("MaxPool", wide, kernel_shape=[4, 4], strides=[4, 4]))


def subject(target: str = "host", **options: object) -> Subject:
    return of_spec(ModuleSpec(wide_model(), "m", target, **options), "m.onnx", "m")  # type: ignore[arg-type]


def found(of: Subject) -> curve.Curve:
    made = curve.curve(of, None, {})
    assert isinstance(made, curve.Curve), made
    return made


@pytest.mark.parametrize("options", [{}, {"workspace_io": True}, {"patches": "auto"}])
def test_no_plan_is_beaten_by_one_of_less_ram(options: dict[str, object]) -> None:
    made = found(subject(**options))
    assert made.own.options == ""
    assert min(p.ram for p in made.all) < 8 * 8 * 8 * 4  # the middle tensor is never whole
    for inside in (False, True):
        rams = [p.ram for p in made.points if p.inside == inside]
        costs = [made.cost(p) for p in made.points if p.inside == inside]
        assert rams == sorted(set(rams))
        assert costs == sorted(set(costs), reverse=True)


def test_the_same_model_gives_the_same_picture() -> None:
    assert curve.drawing(found(subject())) == curve.drawing(found(subject()))


def test_each_point_is_what_its_options_give(tmp_path: Path) -> None:
    onnx.save(wide_model(), tmp_path / "m.onnx")
    spec = ModuleSpec(tmp_path / "m.onnx", "m", "cortex-m4")
    made = found(of_spec(spec, "m.onnx", "m"))
    assert made.points
    for p in made.points:
        words = ("compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tar"), "-q")
        assert main([*words, "--target", "cortex-m4", *shlex.split(p.options)]) == 0
        interface = of_archive(tmp_path / "m.tar").interface
        ends = sum(t.size_bytes for t in (*interface.inputs, *interface.outputs))
        assert p.ram == interface.workspace_bytes + (0 if interface.workspace_io else ends)


@needs_board
def test_the_page_and_the_data_have_the_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(wide_model(), tmp_path / "m.onnx")
    words = ("report", tmp_path / "m.onnx", "-o", tmp_path / "r.html")
    data = data_of(capsys, *words)
    points = data["curve"]["points"]
    assert data["curve"]["unit"] == "cycles"
    (own,) = (p for p in points if p["own"])
    assert {own[k] == data["figures"][k] for k in ("instructions", "cycles")} == {True}
    page = checked(tmp_path / "r.html")
    assert "What less RAM costs" in page.text
    for p in points:
        assert f"{p['ram_bytes']:,}" in page.text
        assert f"{p['cycles']:,}" in page.text
        assert p["options"] in page.text
    assert data_of(capsys, *words, "--no-curve")["curve"] is None
    assert "What less RAM costs" not in checked(tmp_path / "r.html").text


def test_where_nothing_lowers_the_ram_the_curve_is_a_point() -> None:
    spec = ModuleSpec(GESTURE, "m", "host", workspace_io=True, patches="auto")
    made = found(of_spec(spec, "", "m"))
    assert made.all[0].ram <= made.own.ram
    assert curve.drawing(made).count("<circle") >= 2


def test_why_there_is_none(tmp_path: Path) -> None:
    made = subject()
    archive = Subject("m.tar", "m", made.bundle)
    assert "give the model" in str(curve.curve(archive, None, {}))
    net = Net()
    x = net.input("x", np.float32, (2, 8))
    for _ in range(curve.MOST_STEPS // 2 + 1):
        x = net.node("Softmax", net.node("Transpose", x))
    long = of_spec(ModuleSpec(net.model(x), "m", "host", opt_level=0), "", "m")
    assert f"more than {curve.MOST_STEPS} steps" in str(curve.curve(long, None, {}))


@pytest.mark.parametrize("values", [[5], [7, 7], [1, 1_000_000], [0, 3], [999_999, 1_000_001]])
def test_scales_cover_their_values(values: list[int]) -> None:
    scale = curve._scale(values)
    assert scale.first <= min(values)
    assert max(values) <= scale.last
    assert 1 <= len(scale.lines) <= 9
