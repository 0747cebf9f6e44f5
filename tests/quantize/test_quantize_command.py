"""`mlftool quantize`: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from float_nets import mobile, residual, samples

from mlftool.cli import main
from mlftool.compile import compile_modules
from mlftool.module import ModuleSpec
from mlftool.runtime.host import load_host

Run = Callable[..., int]


@pytest.fixture
def quantise(tmp_path: Path) -> Run:
    """Runs the command on a model and arrays; OUT is out.onnx."""

    def run(model: onnx.ModelProto, arrays: dict[str, np.ndarray], *options: str) -> int:
        onnx.save(model, tmp_path / "net.onnx")
        np.savez(tmp_path / "data.npz", **arrays)
        given = [str(tmp_path / "net.onnx"), "--data", str(tmp_path / "data.npz")]
        return main(["quantize", *given, "-o", str(tmp_path / "out.onnx"), *options])

    return run


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # Processors without VNNI add pairs of products in 16 bits, which overflow.
    options.add_session_config_entry("session.x64quantprecision", "1")
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers)


@pytest.mark.parametrize("make", [mobile, residual])
def test_the_model_is_integers_and_computes_what_onnxruntime_does(
    quantise: Run, tmp_path: Path, make: Callable[[], onnx.ModelProto]
) -> None:
    given = samples()
    assert quantise(make(), {"x": given}) == 0

    model = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(model, full_check=True)
    weights = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    assert max(int(np.prod(t.dims)) for t in weights) <= 12  # scales, and an addend
    ours, theirs = load_host(compile_modules([ModuleSpec(model)])), session(model)
    name = model.graph.output[0].name
    for x in given:
        right = theirs.run(None, {"x": x})[0]
        assert np.abs(ours({"x": x})[name] - right).max() <= 1e-6 * np.abs(right).max()


def test_the_layers_are_computed_in_integers(quantise: Run, tmp_path: Path) -> None:
    assert quantise(mobile(apart=True), {"x": samples()}) == 0
    (module,) = _compiled(tmp_path / "out.onnx")
    ops = [n.op for call in module.program.calls for n in call.node.body or (call.node,)]
    assert not {"Conv", "Gemm", "Mul"} & set(ops)
    assert ops.count("QLinearConv") == 6


def _compiled(path: Path) -> list:  # type: ignore[type-arg]
    from mlftool.compile import compile_specs

    return compile_specs([ModuleSpec(path, target="cortex-m4")])


def test_the_same_input_gives_the_same_bytes(quantise: Run, tmp_path: Path) -> None:
    arrays = {"x": samples()}
    assert quantise(residual(), arrays) == 0
    first = (tmp_path / "out.onnx").read_bytes()
    assert quantise(residual(), arrays) == 0
    assert (tmp_path / "out.onnx").read_bytes() == first


def test_the_report_for_scripts_and_people(
    quantise: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    given = samples()
    float_net = session(mobile())
    labels = np.array([int(float_net.run(None, {"x": x})[0].argmax()) for x in given])
    assert quantise(mobile(), {"x": given, "labels": labels}, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["metric"], said["accuracy_before"], said["samples"]) == ("top1", 1.0, 6)
    assert (said["samples_unseen"], said["samples_of_calibration"]) == (True, 18)
    assert said["classes_changed"] == 0
    assert 0 < said["largest_error"] < 0.1
    assert min(said["sqnr_of_calibration"], said["sqnr_before_probabilities"]) > 20
    assert said["accuracy_after"] >= 0.997
    assert said["on_device_arithmetic"] is True
    assert [x["precision"] for x in said["layers"]] == ["int8"] * 7
    assert all(x["sqnr"] > 15 and x["instructions"] and x["flash_bytes"] for x in said["layers"])
    assert said["cost"]["flash_bytes"] < said["float_cost"]["flash_bytes"] / 2
    plans = {p["plan"] for p in said["curve"]}
    assert {"all float", "all int16", "all int4", "all int8"} <= plans

    assert quantise(mobile(), {"x": given, "labels": labels}) == 0
    text = capsys.readouterr().out
    assert "top1        float 100.00 %, quantised 100.00 % (compiled C)" in text
    assert "samples     6 samples that calibration has not seen; 18 calibrated" in text
    assert "classes     0 of 6 samples differ from float" in text
    assert "asked for   top1 at least 99.70 %" in text


def test_the_report_fits_a_narrow_terminal_and_a_file_has_it_in_full(
    quantise: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """Columns that do not fit are below the others; lines are not broken in the middle of one."""
    monkeypatch.setattr("mlftool.cli.terminal.stdout_columns", lambda: 60)
    file = tmp_path / "report.txt"
    assert quantise(mobile(), {"x": samples()}, "--simulate", "--report", str(file)) == 0
    said = file.read_text().splitlines()
    (head,) = (n for n in said if n.startswith("SQNR dB  instr"))
    rows = said[said.index(head) + 1 :][:3]
    assert all(row.endswith("accurate enough") for row in rows)
    assert quantise(mobile(), {"x": samples()}, "--simulate") == 0
    narrow = capsys.readouterr().out.splitlines()
    assert max(len(n) for n in narrow if n and "/" not in n) <= 60
    assert any(n.endswith("accurate enough") for n in narrow)  # not broken


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({}, "MLF0601]: no array for input 'x'"),
        ({"y": samples()}, "MLF0601]: no array for input 'x'"),
        ({"x": samples().astype(np.float64)}, "MLF0602]: x: wrong type; got float64"),
        ({"x": samples()[..., :5]}, "MLF0602]: x: wrong shape; got [24, 1, 3, 12, 5]"),
        ({"x": samples()[:0]}, "MLF0617]: x: no sample; got [0, 1, 3, 12, 12]"),
        ({"x": np.full_like(samples(), np.nan)}, "MLF0617]: x: not finite; got nan at [0, 0, 0"),
        ({"x": np.where(samples() > 0.9, np.inf, 0).astype(np.float32)}, "MLF0617]: x: not finite"),
        ({"x": samples(), "labels": np.zeros(3, np.int64)}, "MLF0602]: labels: got int64 [3]"),
        ({"x": samples(), "labels": np.zeros(24)}, "MLF0602]: labels: got float64 [24]"),
        ({"x": samples(), "labels": np.arange(24)}, "MLF0602]: labels: got "),
        ({"x": samples(), "labels": np.full(24, -1)}, "MLF0602]: labels: got -1, expected 0 to "),
        ({"x": samples(), "labels": np.eye(24)}, "MLF0602]: labels: got float64 [24, 24]"),
        ({"x": samples(), "labels": np.zeros((24, 1), int)}, "MLF0602]: labels: got int64 [24, 1]"),
        ({"x": samples(), "labels": np.full(24, "a")}, "MLF0602]: labels: got <U1 [24]"),
        ({"x": samples().astype(str)}, "MLF0602]: x: wrong type; got <U"),
        ({"x": samples().astype(np.complex64)}, "MLF0602]: x: wrong type; got complex64"),
        ({"x": np.full_like(samples(), 3e38)}, "' is not finite for "),
    ],
)
def test_data_that_do_not_fit_are_refused_in_a_line(
    quantise: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arrays: dict[str, np.ndarray],
    expected: str,
) -> None:
    assert quantise(mobile(), arrays) == 2
    said = capsys.readouterr()
    first, second = said.err.splitlines()
    assert expected in first
    assert first.startswith(str(tmp_path / "data.npz"))
    assert second.startswith("help: ")
    assert not said.out
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("array", "remedy"),
    [
        (samples()[:, 0].transpose(0, 2, 3, 1), "array.transpose((0, 3, 1, 2))"),
        (samples().transpose(0, 3, 4, 2, 1), "array.transpose((0, 4, 3, 1, 2))"),
        (samples()[..., :5], "save an array of [samples, 1, 3, 12, 12]"),
        ((255 * samples()).astype(np.uint8), "array.astype('float32')"),
    ],
)
def test_the_remedy_makes_samples_of_it_where_that_can_be_told(
    quantise: Run, capsys: pytest.CaptureFixture[str], array: np.ndarray, remedy: str
) -> None:
    assert quantise(mobile(), {"x": array}) == 2
    assert remedy in capsys.readouterr().err.splitlines()[1]
    if "transpose" in remedy:
        order = tuple(int(k) for k in re.findall(r"\d", remedy))
        assert array.transpose(order).shape[-3:] == (3, 12, 12)


def _pickled(file: Path) -> None:
    np.savez(file, x=np.array([1, "a"], object))


def _member(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.txt", "no array")


@pytest.mark.parametrize(
    "write",
    [
        lambda file: None,
        lambda file: file.mkdir(),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"PK\x03\x04 and no more"),
        lambda file: file.write_text("x: 1"),
        lambda file: np.save(file.open("wb"), samples()),
        _pickled,
        _member,
    ],
)
def test_a_file_that_has_no_arrays_is_refused_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write: Callable[[Path], object]
) -> None:
    file = tmp_path / "data.npz"
    write(file)
    onnx.save(mobile(), tmp_path / "net.onnx")
    given = ["quantize", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out.onnx")]
    assert main([*given, "--data", str(file)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{file}: error[MLF0600]: ")
    what = "write the file with numpy.savez(path, **{'tensor name': array})"
    assert second == f"help: {what}" if file.is_file() else second.startswith("help: ")
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("place", [0, 11, 23])
@pytest.mark.parametrize("metric", ["top1", "auc"])
def test_labels_of_samples_that_calibrate_are_looked_at_too(
    quantise: Run, capsys: pytest.CaptureFixture[str], place: int, metric: str
) -> None:
    labels = np.arange(24) % 2
    labels[place] = 9
    assert quantise(mobile(), {"x": samples(), "labels": labels}, "--metric", metric) == 2
    assert "error[MLF0602]: labels: " in capsys.readouterr().err


def test_expected_outputs_of_another_shape_are_refused(
    quantise: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = mobile().graph.output[0].name
    arrays = {"x": samples(), name: np.zeros((24, 1, 6), np.float32)}
    assert quantise(mobile(), arrays) == 2
    assert f"MLF0602]: {name}: wrong shape" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--metric", "top1"), "MLF0601]: metric top1 needs an array 'labels'"),
        (("--at-least", "97"), "MLF0400]: --at-least 97: expected a share"),
        (("--at-least", "30dB"), "MLF0400]: --at-least 30dB: expected a share"),
        (
            ("--metric", "sqnr", "--at-least", "97%"),
            "MLF0400]: --at-least 97%: expected decibels such as 30dB of sqnr",
        ),
        (("--metric", "mse", "--at-least", "1%"), "MLF0400]: --at-least 1%: expected a mean"),
        (("--at-least", "much"), "MLF0400]: argument --at-least: invalid accuracy value: 'much'"),
        (("--flash", "64K"), "MLF0400]: argument --flash: invalid size value: '64K'"),
        (("--target", "toaster"), "MLF0403]"),
        (
            ("--metric", "sqnr", "--at-least", "300dB"),
            "MLF0412]: cannot be reached: sqnr at least 300.00 dB; ",
        ),
        (("--flash", "10"), "MLF0412]: cannot be reached: agreement at least 99.70 % in 10 bytes"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    quantise: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    expected: str,
) -> None:
    assert quantise(mobile(), {"x": samples()}, *options) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


def test_models_that_are_no_float_models_are_refused(
    quantise: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = {"x": samples()}
    assert quantise(mobile(), arrays) == 0
    integers = onnx.load(tmp_path / "out.onnx")
    (tmp_path / "out.onnx").unlink()
    assert quantise(integers, arrays) == 2
    assert "MLF0413]: is quantised already" in capsys.readouterr().err
    bare = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3] x) => (float[1,3] y) {y = Relu(x)}'
    )
    assert quantise(bare, {"x": np.ones((4, 1, 3), np.float32)}) == 2
    assert "MLF0413]: has no layer to quantise" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


def test_functions_that_grow_without_bound_are_refused(
    quantise: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of sixty calls the next one twice: neither onnx nor onnxruntime may see the model."""
    head = '<domain: "own", opset_import: ["" : 17, "own" : 1]>'
    steps = [
        f"{head} F{k} (a) => (b) {{ c = own.F{k + 1} (a) b = own.F{k + 1} (c) }}" for k in range(60)
    ]
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "own" : 1]>'
        "g (float[1,3] x) => (float[1,3] y) { y = own.F0 (x) }"
        + "\n".join([*steps, f"{head} F60 (a) => (b) {{ b = Neg (a) }}"])
    )
    assert quantise(model, {"x": np.ones((4, 1, 3), np.float32)}) == 2
    assert "MLF0302]: its functions expand to more than 200000 nodes" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--input-shape", "y:1", "shape given for 'y', which is not an input of the model"),
        ("--input-shape", "x:1,5", "input 'x': shape [1, 5] does not fit the model's ['n', 4]"),
        ("--input-shape", "x:2", "input 'x': shape [2] does not fit the model's ['n', 4]"),
        ("--input-value", "y:1", "input 'y': is not an input of the model"),
        ("--input-value", "x:1,2,3,4", "has no input that samples could be of"),
        ("--model-data", "none", "there is no such file of external data"),
    ],
)
def test_what_is_given_and_not_used_is_refused(
    quantise: Run, capsys: pytest.CaptureFixture[str], option: str, value: str, said: str
) -> None:
    """As by the compiler: a misspelt name, or a shape of another model."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[n,4] x) => (float[n,3] z) <float[4,3] w = {1,2,3, 4,5,6, 7,8,9, 1,1,2}>
        { z = MatMul (x, w) }"""
    )
    given = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    shape = ["--input-shape", "x:1,4"] if option == "--input-value" else []
    assert quantise(model, {"x": given}, *shape, option, value) == 2
    assert said in capsys.readouterr().err


def test_labels_that_a_model_gives_itself_are_left_alone(quantise: Run, tmp_path: Path) -> None:
    """As scikit-learn's networks have it: a bias of one row, and the index of the largest output as
    a further output, in front."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[n,4] x) => (int64[n,1] label, float[n,3] y)
        <float[4,3] w = {1,2,3, 4,5,6, -7,8,-9, 1,1,-2}, float[1,3] b = {1, -1, 2}>
        { y = Gemm(x, w, b)  label = ArgMax <axis: int = 1> (y) }"""
    )
    given = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    few = "--flash", "50"  # floats take 60 bytes, and fewer instructions
    assert quantise(model, {"x": given}, "--at-least", "0.9", *few) == 0
    made = onnx.load(tmp_path / "out.onnx")
    assert [o.name for o in made.graph.output] == ["label", "y"]
    assert any(
        t.data_type == onnx.TensorProto.INT8 and len(t.dims) > 1 for t in made.graph.initializer
    )
    theirs = session(made).run(None, {"x": given[:1]})
    assert theirs[0][0, 0] == theirs[1].argmax()


@pytest.mark.parametrize(
    ("shape", "metric"), [((1, 4), "agreement"), ((1, 1), "sqnr"), ((1, 6), "sqnr")]
)
def test_what_has_no_classes_is_judged_by_its_error(
    quantise: Run, capsys: pytest.CaptureFixture[str], shape: tuple[int, int], metric: str
) -> None:
    draw = np.random.default_rng(0)
    weights = onnx.numpy_helper.from_array(draw.normal(size=(6, shape[1])).astype(np.float32), "w")
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    ends = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("x", (1, 6)), ("y", shape))
    ]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    given = draw.normal(size=(20, 1, 6)).astype(np.float32)
    assert quantise(model, {"x": given}, "--json", "--at-least", "0.5") == 0
    assert json.loads(capsys.readouterr().out)["metric"] == metric


@pytest.mark.parametrize(
    ("classes", "metric", "labels", "expected"),
    [
        (1, "top1", 0, "MLF0405]: metric top1 needs a score for each class; got an output of [1,"),
        (1, "agreement", 0, "MLF0405]: metric agreement needs a score for each class; got an"),
        (5, "auc", 1, "MLF0405]: metric auc needs one or two outputs, or as many as inputs; got"),
        (2, "auc", 0, "MLF0602]: labels: metric auc needs labels 0 and 1, several of both; got 0"),
        (2, "auc", 3, "MLF0602]: labels: metric auc needs labels 0 and 1, several of both; got 0"),
    ],
)
def test_a_metric_that_outputs_have_no_value_of_is_refused(
    quantise: Run,
    capsys: pytest.CaptureFixture[str],
    classes: int,
    metric: str,
    labels: int,
    expected: str,
) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,6] x) => (float[1,{classes}] y)
        <float[6,{classes}] w = {{{", ".join(["1"] * 6 * classes)}}}> {{ y = MatMul(x, w) }}"""
    )
    given = {"x": np.ones((20, 1, 6), np.float32), "labels": np.arange(20) % (labels + 1)}
    assert quantise(model, given, "--metric", metric) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert expected in first
    assert "data.npz: error[" in first
    assert second.startswith("help: ")


def test_an_output_without_a_type_gets_one(quantise: Run, tmp_path: Path) -> None:
    model = mobile()
    model.graph.output[0].ClearField("type")
    assert quantise(model, {"x": samples()}) == 0
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)


def test_a_batch_that_is_open_counts_samples(quantise: Run, tmp_path: Path) -> None:
    model = mobile()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    assert quantise(model, {"x": samples()[:, 0]}) == 0
    assert (tmp_path / "out.onnx").exists()


def test_a_layer_may_read_what_another_domain_computes(quantise: Run, tmp_path: Path) -> None:
    """As scikit-learn's pipelines have it: a scaler in front, whose result is no sum of layers."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
        g (float[n,4] x) => (float[n,3] y) <float[4,3] w = {1,2,3, 4,5,6, -7,8,-9, 1,1,-2}>
        { s = ai.onnx.ml.Scaler <offset = [0.5, 1.0, 0.0, 2.0], scale = [1.0, 2.0, 1.0, 0.5]> (x)
          y = MatMul(s, w) }"""
    )
    given = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert quantise(model, {"x": given}) == 0
    theirs = session(model).run(None, {"x": given[:1]})[0]
    ours = session(onnx.load(tmp_path / "out.onnx")).run(None, {"x": given[:1]})[0]
    assert np.allclose(theirs, ours, atol=0.02 * np.abs(theirs).max())
