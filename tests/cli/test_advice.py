"""What `mlftool check` says of models that were quantised badly, each by onnxruntime's own tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process
from shared import REPO

from mlftool.cli import main
from mlftool.options import EXECUTORS, OPTIONS, Choice, Option, Several, Switch, Whole, Word


class Random(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        draw = np.random.default_rng(0).normal
        self.left: Iterator[np.ndarray] = iter(
            [draw(size=(1, 3, 8, 8)).astype(np.float32) for _ in range(4)]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        sample = next(self.left, None)
        return None if sample is None else {"x": sample}


def float_model() -> onnx.ModelProto:
    draw = np.random.default_rng(1)
    values = {"w": (8, 3, 3, 3), "s": (8,), "b": (8,), "m": (8,), "v": (8,), "u": (8, 8, 1, 1)}
    arrays = {n: draw.uniform(0.2, 1.0, size=s).astype(np.float32) for n, s in values.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="first"),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], name="norm"),
        helper.make_node("Conv", ["n", "u"], ["y"], name="second"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 6, 6])],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def warnings(
    file: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> list[tuple[str, str]]:
    capsys.readouterr()
    assert main(["check", str(file), "--json", "--target", "cortex-m4", *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert all(w["severity"] == "warning" and w["help"] for w in report["warnings"])
    return [(w["code"], w["path"].split("'")[1]) for w in report["warnings"]]


@pytest.mark.parametrize(
    ("prepared", "options", "expected"),
    [
        (True, {"per_channel": True}, []),
        (True, {}, [("MLF0312", "first"), ("MLF0312", "second")]),
        (
            True,
            {"extra_options": {"WeightSymmetric": False}},
            [(code, layer) for layer in ("first", "second") for code in ("MLF0312", "MLF0313")],
        ),
        (False, {"per_channel": True}, [("MLF0314", "norm")]),
        (True, {"per_channel": True, "op_types_to_quantize": ["Add"]}, []),
        (
            True,
            {"quant_format": QuantFormat.QOperator},
            [("MLF0312", "first_quant"), ("MLF0312", "second_quant")],
        ),
        (
            False,
            {"quant_format": QuantFormat.QOperator, "per_channel": True},
            [("MLF0314", "norm")],
        ),
    ],
)
def test_advice(
    prepared: bool,
    options: dict[str, object],
    expected: list[tuple[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, file = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(float_model(), source)
    if prepared:
        quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
    quantize_static(str(source), str(file), Random(), **{"quant_format": QuantFormat.QDQ} | options)
    assert warnings(file, capsys) == expected
    manifest = tmp_path / "models.yaml"
    text = "version: 1\nmodels: {m: {model: int8.onnx, targets: [cortex-m4, host]}}\n"
    manifest.write_text(text)
    assert warnings(manifest, capsys, "-j1") == expected


ASYMMETRIC: dict[str, object] = {"extra_options": {"WeightSymmetric": False}}


@pytest.mark.parametrize(("target", "has_kernel"), [("cortex-m3", True), ("cortex-m4", False)])
def test_a_zero_point_says_what_it_costs(
    target: str, has_kernel: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted for the model, and estimated where the target's own kernel takes no zero point."""
    source, file = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(float_model(), source)
    quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
    quantize_static(str(source), str(file), Random(), quant_format=QuantFormat.QDQ, **ASYMMETRIC)
    assert main(["check", str(file), "--json", "--target", target]) == 0
    found = json.loads(capsys.readouterr().out)["warnings"]
    first = next(w for w in found if w["code"] == "MLF0313")
    # A window of 3x3 in 3 channels at each of 6x6 places; the padding is in the image.
    assert f"zero point: {6 * 6 * 27} additions more" in first["message"]
    estimated = re.search(r"estimated ([\d,]+) .*without it ([\d,]+) by inter", first["message"])
    assert (estimated is not None) == has_kernel, first["message"]
    if estimated:
        with_it, without = (int(n.replace(",", "")) for n in estimated.groups())
        assert without < with_it


def test_bytes_around_128_have_no_zero_point_as_they_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the remedy makes of uint8 weights is not warned of again."""
    source, file = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(float_model(), source)
    quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
    bytes_ = {
        "activation_type": QuantType.QUInt8,
        "weight_type": QuantType.QUInt8,
        "extra_options": {"WeightSymmetric": True},
    }
    quantize_static(
        str(source), str(file), Random(), quant_format=QuantFormat.QDQ, per_channel=True, **bytes_
    )
    assert warnings(file, capsys) == []


def test_ranges_that_each_inference_looks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, file = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(float_model(), source)
    quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
    quantize_dynamic(str(source), str(file))
    found = warnings(file, capsys)
    assert [code for code, _ in found] == ["MLF0317", "MLF0317"]
    assert main(["check", str(file)]) == 0
    said = capsys.readouterr().err
    assert "looks at 192 floats for their range, rounds them, and keeps 768 bytes" in said
    assert "quantize_static" in said


def test_a_layer_that_stays_float(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its data are dequantised, its weights were left out by the quantiser."""
    model = float_model()
    del model.graph.node[:]
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "scale"))
    model.graph.initializer.append(numpy_helper.from_array(np.int8(0), "zero"))
    model.graph.node.extend(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="q"),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], name="d"),
            helper.make_node("Conv", ["d", "w"], ["y"], name="only"),
        ]
    )
    onnx.save(model, tmp_path / "x.onnx")
    assert warnings(tmp_path / "x.onnx", capsys) == [("MLF0311", "only")]
    assert main(["check", str(tmp_path / "x.onnx")]) == 0
    said = capsys.readouterr().err
    assert (
        "warning[MLF0311]: node 'only' (Conv): this quantised Conv is computed in float: " in said
    )
    assert said.endswith("x.onnx: no problems, 1 warning\n")


@pytest.mark.parametrize("name", ["gesture_int8", "gesture_float32", "digits_int8"])
def test_good_models_get_none(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings(REPO / "examples/models" / f"{name}.onnx", capsys) == []


def test_compile_options_of_check_and_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPO / "examples/models")
    assert main(["check", "gesture_int8.onnx", "--optimize", "size", "--target", "host"]) == 0
    files = ["--inputs", "gesture_int8.npz", "--expect", "gesture_int8.npz"]
    assert main(["run", "gesture_int8.onnx", *files, "--optimize", "size"]) == 0
    capsys.readouterr()
    for words, said in {
        "check gesture_int8.onnx --pool a=1": "MLF0305",
        "check gesture_int8.onnx --target cortex-m99": "MLF0403",
        "check gesture_int8.onnx --executor graph --pool a=1": "MLF0405",
        "check ../models.yaml --optimize size": "--optimize is for a model; in a manifest, "
        "set 'optimize'",
        "check ../models.yaml --executor vm": "--executor is for a model; in a manifest, "
        "set 'executor'",
        "check ../models.yaml --data x": "--data is for a model; in a manifest, set 'data_files'",
        "check ../models.yaml --target cortex-m5": "--target: no entry of the manifest is for",
    }.items():
        assert main(words.split()) == 2, words
        assert said in capsys.readouterr().err
    assert main(["compile", "gesture_int8.onnx", "-o", str(tmp_path / "g.tar")]) == 0
    assert main(["run", str(tmp_path / "g.tar"), *files, "--optimize", "size"]) == 2
    assert "--optimize is for a MODEL.onnx" in capsys.readouterr().err


WORDS = ("", "=", "none", "auto", "4", "65", "24KiB", "a=1", "a=64KiB", "a=64KiB@.fast", "x=y")
WORDS = (*WORDS, "all", "axis=0", "axis=n", "step=2", "npu")


def values(option: Option) -> Iterator[list[str]]:
    """What may be written for an option, right and wrong."""
    match option.kind:
        case Switch():
            yield [option.flag]
        case Choice(values=given):
            yield from ([option.flag, value] for value in given)
        case Whole(first, last):
            yield from ([option.flag, str(n)] for n in (first - 1, first, last, last + 1))
        case Word():
            yield from ([f"{option.flag}={word}"] for word in WORDS)
        case Several():
            yield from ([f"{option.flag}={word}"] for word in WORDS)
            yield [f"{option.flag}=a=64KiB", f"{option.flag}=b=64KiB"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_option_of_compile_is_one_of_check(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is obeyed, or refused in a line with a place and a code; `check --pool` once crashed."""
    model = tmp_path / "m.onnx"
    text = '<ir_version: 9, opset_import: ["": 17]> g (float[1,4] x) => (float[1,4] y) '
    onnx.save(onnx.parser.parse_model(text + "{ y = Relu(x) }"), model)
    obeyed = set()
    for option in (o for o in OPTIONS.values() if not o.of_tvm):
        for words in values(option):
            code = main(["check", str(model), "--executor", executor, *words])
            err = capsys.readouterr().err
            assert code in (0, 2), (words, err)
            assert code == 0 or re.match(r".+: error\[MLF0[1-8]\d\d\]: ", err), (words, err)
            obeyed |= {option.name} if code == 0 else set()
    assert {"optimize", "weights", "float_mode"} <= obeyed


def test_one_scale_says_what_the_smallest_channel_has_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = float_model()
    weights = {t.name: t for t in model.graph.initializer}
    small = numpy_helper.to_array(weights["w"]).copy()
    small /= np.abs(small).max(axis=(1, 2, 3), keepdims=True)  # every channel up to 1
    small[2] *= 10 / 127
    small[5] = 0  # pruned
    weights["w"].CopyFrom(numpy_helper.from_array(small, "w"))
    source, file = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(model, source)
    quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
    quantize_static(str(source), str(file), Random(), quant_format=QuantFormat.QDQ)
    stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(file).graph.initializer}
    (name,) = (n for n, a in stored.items() if a.shape == (8, 3, 3, 3))
    steps = np.abs(stored[name].astype(int)).max(axis=(1, 2, 3))
    capsys.readouterr()
    assert main(["check", str(file)]) == 0
    least = min(n for n in steps if n)
    assert least < steps.max()
    said = "'first' (Conv): one scale for all 8 channels of the weights: the smallest channel is "
    assert f"{said}rounded to {least} steps, the largest to 127" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8])
def test_weights_that_need_fewer_bits(
    kind: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bytes that the advice promises are those that `size` then stores."""
    file = tmp_path / "x.onnx"
    values = np.random.default_rng(5).integers(-100, 100, size=(60, 24)).astype(np.float32)
    stored = helper.make_tensor("w", kind, values.shape, values.astype(np.int8).ravel().tolist()
                                if kind == TensorProto.INT8 else (values / 64).ravel())  # fmt: skip
    scale = [] if kind != TensorProto.INT8 else [numpy_helper.from_array(np.float32(0.1), "s")]
    widen = helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT)
    if scale:
        widen = helper.make_node("DequantizeLinear", ["w", "s"], ["f"])
    graph = helper.make_graph(
        [widen, helper.make_node("MatMul", ["x", "f"], ["y"], name="dense")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 60])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 24])],
        [stored, *scale],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              file)  # fmt: skip
    assert warnings(file, capsys, "--target", "cortex-m4")[-1] == ("MLF0318", "dense")
    assert main(["check", str(file), "--target", "cortex-m4"]) == 0
    said = capsys.readouterr().err
    before, after, less = (
        int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:bytes|less)", said)
    )
    tar = str(tmp_path / "m.tar")
    assert main(["compile", str(file), "--target", "cortex-m4", "-o", tar]) == 0
    capsys.readouterr()
    words = ["diff", tar, str(file), "--optimize", "size", "--no-run", "--json"]
    assert main(words) == 0
    (found,) = json.loads(capsys.readouterr().out)["differences"]
    assert (before - after, -found["figures"]["weights"]["change"]) == (less, less)
    small = warnings(file, capsys, "--target", "cortex-m4", "--optimize", "size")
    assert "MLF0318" not in dict(small)
