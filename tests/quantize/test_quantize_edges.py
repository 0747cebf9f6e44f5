"""Models and samples at the edges: each gives a model that computes what the float one does, or one
line that says why not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Array

from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.quantize.metrics import check_metric, metric_for
from mlftool.quantize.network import network
from mlftool.quantize.prepare import prepared
from mlftool.quantize.runtime import Session
from mlftool.quantize.samples import Samples, samples_of
from mlftool.quantize.studio import Studio

WEIGHTS, BIAS = "1,2,3, 4,5,6, -7,8,-9, 1,1,-2", "0.5, 1, -1"


def dense(weights: str, bias: str) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,3] y)
    <float[4,3] w = {{{weights}}}, float[3] b = {{{bias}}}>
    {{ h = Gemm(x, w, b)  y = Relu(h) }}"""


DRAW = np.random.default_rng(0)
GIVEN = DRAW.uniform(-1, 1, (20, 4)).astype(np.float32)
FORMS: dict[str, tuple[str, dict[str, Array]]] = {
    "one sample": (dense(WEIGHTS, BIAS), {"x": GIVEN[:1]}),
    "two equal samples": (dense(WEIGHTS, BIAS), {"x": GIVEN[[0, 0]]}),
    "constant inputs": (dense(WEIGHTS, BIAS), {"x": np.full((20, 4), 0.7, np.float32)}),
    "inputs of zeros": (dense(WEIGHTS, BIAS), {"x": np.zeros((20, 4), np.float32)}),
    "weights of zeros": (dense(", ".join("0" * 12), BIAS), {"x": GIVEN}),
    "zeros alone": (dense(", ".join("0" * 12), "0, 0, 0"), {"x": GIVEN}),
    "one channel of zeros": (dense("1,0,3, 4,0,6, -7,0,-9, 1,0,-2", BIAS), {"x": GIVEN}),
    "tiny weights": (dense(", ".join(["1e-30"] * 12), "0, 0, 0"), {"x": GIVEN}),
    "inputs in picoamperes": (dense(WEIGHTS, "0, 0, 0"), {"x": GIVEN * np.float32(1e-12)}),
    "a bias that is large": (dense(WEIGHTS, "1e6, -1e6, 0"), {"x": GIVEN}),
    "integers that are looked up": (
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (int64[1,2] x) => (float[1,3] y)
        <float[5,2] table = {{1,2, 3,4, -5,6, 7,-8, 9,1}}, float[4,3] w = {{{WEIGHTS}}},
         int64[2] s = {{1,4}}>
        {{ e = Gather(table, x)  f = Reshape(e, s)  y = MatMul(f, w) }}""",
        {"x": DRAW.integers(0, 5, (20, 2))},
    ),
    "two inputs": (
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,4] x, float[1,4] z) => (float[1,3] y) <float[4,3] w = {{{WEIGHTS}}}>
        {{ a = Mul(x, z)  y = MatMul(a, w) }}""",
        {"x": GIVEN, "z": GIVEN[::-1] * 2},
    ),
    "two inputs that are added late": (
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,4] x, float[1,3] z) => (float[1,3] y) <float[4,3] w = {{{WEIGHTS}}}>
        {{ a = MatMul(x, w)  y = Add(a, z) }}""",
        {"x": GIVEN, "z": GIVEN[:, :3] * 9},
    ),
    "an open batch": (
        dense(WEIGHTS, BIAS).replace("[1,", "[n,"),
        {"x": GIVEN},
    ),
    "a state": (
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,4] x, float[1,4] h) => (float[1,3] y, float[1,4] hn)
        <float[4,4] u = {{1,0,0,0.5, 0,-1,0,0, 0,0,1,0, 0.2,0,0,1}}, float[4,3] w = {{{WEIGHTS}}}>
        {{ a = MatMul(h, u)  s = Add(a, x)  hn = Tanh(s)  y = MatMul(hn, w) }}""",
        {"x": GIVEN, "h": np.tanh(GIVEN[::-1])},
    ),
}


def test_the_float_model_is_not_rounded() -> None:
    """Whatever its numbers' size: what is compared with it would seem exact otherwise."""
    text, _ = FORMS["inputs in picoamperes"]
    plain = prepared(onnx.parser.parse_model(text), "net.onnx")
    net = network(plain, "net.onnx")
    for size in (1e-25, 1e-12, 1.0, 1e25, 1e30):
        x = (np.abs(GIVEN).astype(np.float64) * size).astype(np.float32)
        found = Studio(net, samples_of({"x": x}, plain, "data")).run(None, ["y"])["y"]
        session = Session(plain)
        right = np.stack([session(["y"], {"x": row[None]})["y"] for row in x])
        assert np.array_equal(found, right) or np.allclose(found, right, rtol=1e-6, atol=0)


def quantise(tmp_path: Path, text: str, given: dict[str, Array]) -> int:
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", **given)
    words = (tmp_path / "net.onnx", "--data", tmp_path / "data.npz", "-o", tmp_path / "out.onnx")
    return main(["quantize", *map(str, words), "--metric", "sqnr"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FORMS)
def test_edges_compute_what_the_float_model_does(name: str, tmp_path: Path) -> None:
    text, given = FORMS[name]
    assert quantise(tmp_path, text, given) == 0
    made = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(made, full_check=True)
    sessions = Session(onnx.load(tmp_path / "net.onnx")), Session(made)
    names = [o.name for o in made.graph.output]
    both: list[dict[str, list[Array]]] = [{n: [] for n in names} for _ in sessions]
    for k in range(len(given["x"])):
        feeds = {n: a[k : k + 1] for n, a in given.items()}
        for found, session in zip(both, sessions, strict=True):
            for n, value in session(names, feeds).items():
                found[n].append(value)
    for n in names:
        right, got = (np.stack(found[n]) for found in both)
        assert np.abs(got - right).max() <= 0.03 * np.abs(right).max()


BAD: dict[str, tuple[dict[str, Array], str]] = {
    "another shape": ({"x": GIVEN[:, :3]}, "MLF0602]: x: wrong shape; got [20, 3]"),
    "another rank": ({"x": GIVEN.reshape(20, 1, 1, 4)}, "MLF0602]: x: wrong shape"),
    "another type": ({"x": GIVEN.astype(np.float64)}, "MLF0602]: x: wrong type; got float64"),
    "integers": ({"x": GIVEN.astype(np.int8)}, "MLF0602]: x: wrong type; got int8"),
    "texts": ({"x": GIVEN.astype(str)}, "MLF0602]: x: wrong type"),
    "NaN": ({"x": np.where(GIVEN[3, 2] == GIVEN, np.nan, GIVEN)}, "MLF0617]: x: not finite; got n"),
    "inf": ({"x": np.where(GIVEN[0, 0] == GIVEN, np.inf, GIVEN)}, "MLF0617]: x: not finite; got i"),
    "no sample": ({"x": GIVEN[:0]}, "MLF0617]: x: no sample; got [0, 4]"),
    "a number": ({"x": np.float32(1)}, "MLF0602]: x: wrong shape; got []"),
    "no array": ({}, "MLF0601]: no array for input 'x'"),
    "another name": ({"X": GIVEN}, "MLF0601]: no array for input 'x'"),
    "labels from 1": ({"x": GIVEN, "labels": np.arange(20) % 3 + 1}, "MLF0602]: labels: "),
    "negative labels": ({"x": GIVEN, "labels": -np.ones(20, int)}, "MLF0602]: labels: "),
    "labels in words": ({"x": GIVEN, "labels": np.array(["a"] * 20)}, "MLF0602]: labels: "),
    "labels as floats": ({"x": GIVEN, "labels": np.zeros(20)}, "MLF0602]: labels: "),
    "too few labels": ({"x": GIVEN, "labels": np.zeros(19, int)}, "labels"),
    "samples that overflow": ({"x": np.full((20, 4), 1e38, np.float32)}, "MLF0617]: the float mo"),
}


@pytest.mark.parametrize("name", BAD)
def test_samples_that_do_not_fit_are_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given, expected = BAD[name]
    arrays = {
        n: np.asarray(a, np.float32) if name in ("NaN", "inf") else a for n, a in given.items()
    }
    onnx.save(onnx.parser.parse_model(dense(WEIGHTS, BIAS)), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", **arrays)
    words = (tmp_path / "net.onnx", "--data", tmp_path / "data.npz", "-o", tmp_path / "out.onnx")
    assert main(["quantize", *map(str, words)]) == 2
    said = capsys.readouterr().err
    assert expected in said
    lines = [x for x in said.splitlines() if not x.startswith("help: ")]
    assert len(lines) == 1
    assert not (tmp_path / "out.onnx").exists()


def test_samples_with_which_the_model_stops_are_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Indices beyond a table, in any part of the file and in that of --test."""
    text, arrays = FORMS["integers that are looked up"]
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    good = arrays["x"]
    for place, value in ((0, 5), (19, -6)):
        bad = good.copy()
        bad[place, 1] = value
        np.savez(tmp_path / "bad.npz", x=bad)
        np.savez(tmp_path / "good.npz", x=good)
        for data, more in (("bad", []), ("good", ["--test", str(tmp_path / "bad.npz")])):
            given = [str(tmp_path / "net.onnx"), "--data", str(tmp_path / f"{data}.npz"), *more]
            assert main(["quantize", *given, "-o", str(tmp_path / "out.onnx")]) == 2
            said = capsys.readouterr().err
            assert "bad.npz: error[MLF0617]: the float model stops with 1 of 20 samples" in said
            assert f"the first at {place}: " in said
            assert f"idx={value}" in said
            assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("metric", "labels", "shape"),
    [
        ("top1", None, (1, 2)),
        ("top1", [0, 1], (1, 1)),
        ("auc", [0, 2], (1, 2)),
        ("auc", [0, 1], (1, 5)),
    ],
)
def test_remedies_of_metrics_are_of_manifests_too(
    metric: str, labels: list[int] | None, shape: tuple[int, ...]
) -> None:
    """They name no option of the command."""
    given = Samples({"x": np.zeros((2, 3))}, {}, None if labels is None else np.array(labels))
    refuses: Callable[[], object] = partial(check_metric, metric, given, given, "s.npz", shape)
    if labels is None:
        refuses = partial(metric_for, metric, given, "s.npz", shape)
    with pytest.raises(MlfError) as error:
        refuses()
    assert "use metric" in str(error.value)
    assert "--" not in str(error.value)
