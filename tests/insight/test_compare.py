"""`mlftool compare`: figures are onnxruntime's, layers are matched across quantisers, and the layer
that goes wrong is named."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from builders import Layers, Net
from looks import GESTURE, MANIFEST, MODELS, data_of, needs_board, refused, said
from onnxruntime.quantization import QuantFormat
from quantiser import quantised
from shared import NETWORKS

from mlftool.cli import main
from mlftool.insight import compare, trace
from mlftool.ir.graph import Array
from mlftool.mlf import write_tar
from mlftool.module import ModuleSpec
from mlftool.runtime.execute import Place

sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
import tvm_archives

FLOAT = MODELS / "gesture_float32.onnx"
VECTORS = MODELS / "gesture_float32.npz"


def every_result(model: Path | onnx.ModelProto, feed: Mapping[str, Array]) -> dict[str, Array]:
    """All that onnxruntime computes, node by node."""
    proto = onnx.load(model) if isinstance(model, Path) else model
    proto = onnx.shape_inference.infer_shapes(proto)
    there = {o.name for o in proto.graph.output}
    proto.graph.output.extend(v for v in proto.graph.value_info if v.name not in there)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feed)), strict=True))


def test_figures_are_those_of_onnxruntime(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the float model and, through its own scales, of the quantised one."""
    with np.load(VECTORS) as file:
        x = file["acceleration"][:1]
    data = data_of(
        capsys, "compare", GESTURE, "--against", FLOAT, "--inputs", VECTORS, "--samples", "1"
    )
    q = trace.traced(ModuleSpec(GESTURE, "q"))
    (scale,) = (t.scale for t in q.inputs)
    zero = q.inputs[0].zero_point or 0
    x = x.reshape([d.dim_value for d in onnx.load(FLOAT).graph.input[0].type.tensor_type.shape.dim])
    integers = np.clip(np.rint(x / scale) + zero, -128, 127).astype(np.int8)
    wanted = every_result(FLOAT, {"acceleration": x})
    got = every_result(GESTURE, {q.inputs[0].name: integers.reshape(q.inputs[0].shape)})
    by_node = {r.node or r.name: r for r in q.results}
    graph = onnx.load(GESTURE).graph
    consts = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    nodes = graph.node
    assert len(data["layers"]) == 8
    for layer in data["layers"]:
        result = by_node[layer["name"]]
        reference = wanted[result.meant] if result.meant in wanted else wanted["probability"]
        (by,) = (n for n in nodes if n.output[0] == result.name)
        stored = got[result.name].astype(np.float64) - consts[by.input[2]]
        error = (stored * consts[by.input[1]]).reshape(-1) - reference.astype(np.float64).reshape(
            -1
        )
        # onnxruntime's single nodes are floats between the quantisers: a step more or less.
        assert layer["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.05), layer["name"]
        assert layer["max_abs_error"] == pytest.approx(np.abs(error).max(), rel=0.5)


def small() -> onnx.ModelProto:
    net = Layers()
    x = net.input("x", np.float32, (1, 3, 12, 12))
    x = net.node("Relu", net.conv(x, 3, 8, 3, 3))
    y = net.node("Relu", net.conv(x, 8, 8, 3, 3))
    x = net.node("Relu", net.node("Add", x, net.conv(y, 8, 8, 3, 3)))
    x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("GlobalAveragePool", net.conv(x, 8, 6, 1, 1))
    return net.model(net.node("Softmax", net.dense(net.shaped(x, 1, 6), 6, 4)))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A float network, and what onnxruntime's quantiser makes of it."""
    folder = tmp_path_factory.mktemp("models")
    made = {"float": small()}
    for form in (QuantFormat.QDQ, QuantFormat.QOperator):
        for per_channel in (False, True):
            name = f"{form.name}{'_channels' * per_channel}"
            made[name] = quantised(small(), form, per_channel)
    for name, model in made.items():
        onnx.save(model, folder / f"{name}.onnx")
    return {name: folder / f"{name}.onnx" for name in made}


@pytest.mark.parametrize("name", ["QDQ", "QDQ_channels", "QOperator", "QOperator_channels"])
def test_both_forms_of_a_quantiser(
    name: str, models: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_of(capsys, "compare", models[name], "--against", models["float"])
    operators = [layer["operator"] for layer in data["layers"]]
    assert operators.count("Conv") + operators.count("QLinearConv") == 4
    assert "Softmax" in operators
    assert data["unmatched"] == []
    assert all(layer["sqnr"] is None or layer["sqnr"] > 10 for layer in data["layers"]), data
    assert data["first_wrong"] is None


def test_open_shapes_are_bound_in_both(
    models: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free = []
    for name in ("QDQ", "float"):
        model = onnx.load(models[name])
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        free.append(tmp_path / f"{name}.onnx")
        onnx.save(model, free[-1])
    bound = ("--input-shape", "x:1,3,12,12")
    expected = data_of(capsys, "compare", models["QDQ"], "--against", models["float"])
    assert (
        data_of(capsys, "compare", free[0], "--against", free[1], *bound)["layers"]
        == (expected["layers"])
    )


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same without a name of its tensors and nodes."""
    graph = model.graph
    keep = {v.name for v in (*graph.input, *graph.output)}
    names: dict[str, str] = {"": ""}

    def new(name: str) -> str:
        return name if name in keep else names.setdefault(name, f"t{len(names)}")

    for node in graph.node:
        node.name = ""
        node.input[:] = map(new, node.input)
        node.output[:] = map(new, node.output)
    for tensor in graph.initializer:
        tensor.name = new(tensor.name)
    del graph.value_info[:]
    return model


def test_layers_without_names_are_matched_by_order(
    models: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(renamed(onnx.load(models["QDQ"])), tmp_path / "q.onnx")
    named = data_of(capsys, "compare", models["QDQ"], "--against", models["float"])["layers"]
    found = data_of(capsys, "compare", tmp_path / "q.onnx", "--against", models["float"])["layers"]
    # The last output keeps its name.
    assert {layer["matched_by"] for layer in found} >= {"order"}
    errors = [layer["rmse"] for layer in named]
    assert len(found) >= len(named) - 1
    assert all(layer["rmse"] in errors for layer in found)


def test_all_nodes_of_a_layer_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Each node of the file that computes numbers is named once, with the layer that it is fused
    into, except activations that become that layer's limits, which follow it alone."""
    path = MODELS / "digits_float32.onnx"
    data = data_of(capsys, "compare", path, "--against", path)
    told = [dict(zip(x["nodes"], x["operators"], strict=True)) for x in data["layers"]]
    assert {"stem_Conv": "Conv", "stem_norm_BatchNormalization": "BatchNormalization"} in told
    moves = ("Flatten", "Reshape", "Transpose")
    nodes = [n for n in onnx.load(path).graph.node if n.op_type not in moves]
    assert sorted(name for layer in told for name in layer) == sorted(n.name for n in nodes)
    shown = said(capsys, "compare", path, "--against", path)
    assert "Conv + BatchNormalization  stem_Conv + stem_norm_BatchNormalization" in shown


def test_other_networks_quantisers(capsys: pytest.CaptureFixture[str]) -> None:
    """MLPerf's, quantised by TensorFlow Lite and converted: most names differ."""
    paths = {n.name: n for n in NETWORKS}
    data = data_of(
        *(capsys, "compare", paths["ic_int8"].path, "--against", paths["ic_fp32"].path),
        *("--inputs", paths["ic_fp32"].path.with_suffix(".npz"), "--samples", 1),
    )
    assert data["unmatched"] == []
    assert [layer["operator"] for layer in data["layers"]].count("Conv") == 9
    assert data["layers"][0]["operators"] == ["Conv", "Relu"]
    assert data["layers"][0]["nodes"][0] == data["layers"][0]["name"]
    assert min(layer["sqnr"] for layer in data["layers"]) > 15


def spoilt(model: Path, node: str) -> onnx.ModelProto:
    """The model with weights of one layer at a wrong scale."""
    proto = onnx.load(model)
    made = {name: n for n in proto.graph.node for name in n.output}
    (layer,) = (n for n in proto.graph.node if n.name == node)
    scale = made[layer.input[1]].input[1]
    (tensor,) = (t for t in proto.graph.initializer if t.name == scale)
    value = onnx.numpy_helper.to_array(tensor) * np.float32(-0.3)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.abs(value) * 3, scale))
    (zero,) = (t for t in proto.graph.initializer if t.name == made[layer.input[1]].input[0])
    flipped = -onnx.numpy_helper.to_array(zero).astype(np.int16)
    zero.CopyFrom(
        onnx.numpy_helper.from_array(np.clip(flipped, -128, 127).astype(np.int8), zero.name)
    )
    return proto


@pytest.mark.parametrize("node", ["conv_0", "conv_4"])
def test_the_first_layer_that_goes_wrong_is_named(
    node: str, models: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [n.name for n in onnx.load(models["QDQ"]).graph.node if n.op_type == "Conv"]
    wrong = names[0] if node == "conv_0" else names[2]
    onnx.save(spoilt(models["QDQ"], wrong), tmp_path / "q.onnx")
    words = ("compare", tmp_path / "q.onnx", "--against", models["float"])
    data = data_of(capsys, *words)
    assert data["first_wrong"] == wrong
    assert f"first layer below 10 dB: '{wrong}'" in said(capsys, *words)
    said(capsys, *words, "--sqnr", "10", status=1)


def test_results_of_one_layer_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sum is a result before its bias and after."""
    net = Net()
    dense = net.node("MatMul", net.input("x", np.float32, (1, 4)), net.const(np.ones((4, 3), "f4")))
    biased = net.node("Add", dense, net.const(np.arange(3, dtype="f4")))
    onnx.save(net.model(biased), tmp_path / "n.onnx")
    words = ("compare", tmp_path / "n.onnx", "--against", tmp_path / "n.onnx")
    lines = said(capsys, *words).splitlines()
    shown = [line.split("  ")[-1] for line in lines if " MatMul " in line]
    assert shown == [dense, f"{dense} + {biased}"]
    layers = data_of(capsys, *words)["layers"]
    assert [layer["tensor"] for layer in layers][:2] == [dense, biased]


@needs_board
@pytest.mark.parametrize("model", [GESTURE, FLOAT], ids=lambda p: p.stem)
def test_a_board_computes_the_same(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_of(capsys, "compare", model, "--on", "cortex-m4")
    assert data["layers"]
    assert data["first_wrong"] is None
    assert {layer["differing"] for layer in data["layers"]} == {0}


def test_a_board_that_differs_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One element of the fourth layer, and all after it."""
    real = compare.run
    found = trace.traced(ModuleSpec(GESTURE, "g"))

    def bent(model: trace.Traced, place: Place, samples: Any) -> list[dict[str, Array]]:
        made = real(model, Place("host"), samples)
        if place.board:
            for r in found.results[3:]:
                made[0][r.name] = made[0][r.name] + np.eye(1, made[0][r.name].size).reshape(
                    made[0][r.name].shape
                )
        return made

    monkeypatch.setattr(compare, "run", bent)
    data = data_of(capsys, "compare", GESTURE, "--on", "cortex-m4", status=1)
    assert data["first_wrong"] == found.results[3].node
    text = said(capsys, "compare", GESTURE, "--on", "cortex-m4", status=1)
    assert f"first layer that differs: '{found.results[3].node}'" in text
    assert "1 of " in text.splitlines()[-1]


def test_results_in_turns_are_the_same() -> None:
    found = trace.traced(ModuleSpec(FLOAT, "g"))
    sample = [compare._pattern(found)]
    (whole,) = trace.run(found, Place("host"), sample, 1 << 40)
    assert len(list(trace._turns(found, 4000))) > 3
    (parts,) = trace.run(found, Place("host"), sample, 4000)
    assert whole.keys() == parts.keys()
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.onnx").write_text("nothing")
    (tmp_path / "x.npz").write_text("nothing")
    other = MODELS / "digits_float32.onnx"
    assert "MLF0405" in refused(capsys, "compare", GESTURE)
    assert "MLF0405" in refused(capsys, "compare", GESTURE, "--against", FLOAT, "--on", "cortex-m4")
    assert "MLF0405" in refused(capsys, "compare", GESTURE, "--on", "cortex-m4", "--sqnr", "3")
    assert "MLF0501" in refused(capsys, "compare", tmp_path / "x.tar", "--on", "cortex-m4")
    assert "MLF0405" in refused(capsys, "compare", tmp_path / "x.tar")
    several = refused(capsys, "compare", MANIFEST, "--on", "cortex-m4")
    assert "--entry digits_int8/host-aot or --entry digits_int8/cortex-m3-aot" in several
    host = ("compare", MANIFEST, "--entry", "gesture_int8", "--target", "host")
    assert "MLF0405" in refused(capsys, *host)
    for name in (f"{FLOAT.stem}s.onnx", f"{FLOAT.stem}.onx"):
        err = refused(capsys, "compare", GESTURE, "--against", FLOAT.with_name(name))
        assert f"help: did you mean '{FLOAT}'?" in err
    assert "name one of this manifest" in refused(capsys, "compare", GESTURE, "--against", MANIFEST)
    of_manifest = ("compare", MANIFEST, "--on", "cortex-m4", "--optimize", "size")
    assert "MLF0405" in refused(capsys, *of_manifest)
    assert "MLF0202" in refused(capsys, "compare", GESTURE, "--against", tmp_path / "x.onnx")
    assert "MLF0202" in refused(capsys, "compare", tmp_path / "x.onnx", "--on", "cortex-m4")
    assert "not the same network" in refused(capsys, "compare", GESTURE, "--against", other)
    given = ("--against", FLOAT, "--inputs")
    assert "MLF0600" in refused(capsys, "compare", GESTURE, *given, tmp_path / "x.npz")
    vectors = MODELS / "digits_float32.npz"
    assert "MLF0601" in refused(capsys, "compare", GESTURE, *given, vectors)
    assert "MLF0610" in refused(capsys, "compare", GESTURE, "--on", "cortex-m44")
    assert "MLF0400" in refused(capsys, "compare", GESTURE, "--against", FLOAT, "--sqnr", "nan")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npz", "x.onnx"]


def test_a_problem_is_said_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not of the name that the model's graph has."""
    text = '<ir_version: 9,opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "open.onnx")
    said_of = refused(capsys, "compare", tmp_path / "open.onnx", "--on", "cortex-m4")
    assert said_of.startswith(f"{tmp_path / 'open.onnx'}: error[MLF0206]: input 'x'")


@needs_board
def test_an_entry_of_a_manifest_is_compared_on_its_board(
    capsys: pytest.CaptureFixture[str],
) -> None:
    entry = ("compare", MANIFEST, "--entry", "gesture_int8/cortex-m4-aot")
    of_entry, of_model = (
        data_of(capsys, *words) for words in (entry, ("compare", GESTURE, "--on", "cortex-m4"))
    )
    assert of_entry["layers"] == of_model["layers"]
    assert of_entry["name"] == f"{MANIFEST}: gesture_int8/cortex-m4-aot.tar on cortex-m4"
    given = ("--against", FLOAT, "--inputs", VECTORS, "--samples", "2")
    assert (
        data_of(capsys, *entry, *given)["layers"]
        == data_of(capsys, "compare", GESTURE, *given)["layers"]
    )


def test_what_a_manifest_quantises_is_compared_with_its_float_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (FLOAT, VECTORS):
        shutil.copy(file, tmp_path)
    model = f"model: {FLOAT.name}, targets: [host, cortex-m4], quantize: {{data: {VECTORS.name}}}"
    text = f"version: 1\nmodels:\n  gesture: {{{model}}}\n"
    (tmp_path / "models.yaml").write_text(text)
    found = data_of(capsys, "compare", tmp_path / "models.yaml")
    assert found["reference"] == str(tmp_path / FLOAT.name)
    assert len(found["layers"]) > 5
    assert found["first_wrong"] is None
    assert all(layer["sqnr"] > 10 for layer in found["layers"])


@needs_board
def test_of_an_archive_the_outputs_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "g.tar"
    assert main(["compile", str(GESTURE), "-o", str(archive), "--target", "cortex-m4"]) == 0
    given = ("--inputs", VECTORS, "--samples", "4")
    found = data_of(capsys, "compare", archive, "--against", FLOAT, *given)
    (last,) = found["layers"]
    whole = data_of(capsys, "compare", GESTURE, "--against", FLOAT, *given)
    errors = "elements", "max_abs_error", "rmse", "cosine", "sqnr"
    assert {k: last[k] for k in errors} == {k: whole["layers"][-1][k] for k in errors}
    assert found["missing"] == [compare.OUTPUTS_ALONE]
    on_board = data_of(capsys, "compare", archive, "--on", "cortex-m4")
    assert [layer["differing"] for layer in on_board["layers"]] == [0]
    assert "the only output agrees" in said(capsys, "compare", archive, "--on", "cortex-m4")


def test_a_graph_of_tvm_says_what_reads_what_and_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tar(tvm_archives.graph_archive(7), tmp_path / "t.tar")
    drawn = data_of(capsys, "graph", tmp_path / "t.tar")
    x, p0, add, multiply, out = drawn["boxes"]
    assert (x["reads"], p0["reads"], out["reads"]) == ([], [], [3])
    assert (add["reads"], multiply["reads"]) == ([0, 1], [2])
    assert {box["type"] for box in drawn["boxes"]} == {"float32[1x4]"}
    assert [m.split(":")[0] for m in drawn["missing"]] == ["what the functions compute"]
    (found,) = data_of(capsys, "memmap", tmp_path / "t.tar")["maps"]
    (pool,) = found["pools"]
    assert found["steps"] == [add["name"], multiply["name"]]
    assert pool["alive_bytes"] == [48, 64]
    blocks = {b["name"]: (b["first_step"], b["last_step"]) for b in pool["blocks"]}
    assert blocks == {"x": (0, 1), "p0": (0, 1), add["name"]: (0, 1), multiply["name"]: (1, 1)}
    assert main(["memmap", str(tmp_path / "t.tar")]) == 0
    assert "given: x" in capsys.readouterr().out


def test_storage_that_tensors_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its size is that of the largest, and they are at one place."""
    bundle = tvm_archives.graph_archive(7)
    member = "executor-config/graph/default.graph"
    graph = json.loads(bundle.files[member])
    ids = graph["attrs"]["storage_id"][1]
    graph["attrs"]["storage_id"][1] = [ids[0], ids[1], ids[2], ids[0]]
    changed = {**bundle.files, member: json.dumps(graph).encode()}
    write_tar(type(bundle)(changed), tmp_path / "t.tar")
    (pool,) = data_of(capsys, "memmap", tmp_path / "t.tar")["maps"][0]["pools"]
    assert pool["size_bytes"] == 48
    offsets = {b["name"]: b["offset_bytes"] for b in pool["blocks"]}
    assert offsets["x"] == offsets["tvmgen_default_fused_multiply"] == 0


@pytest.mark.parametrize("made", ["graph", "packed", "struct", "network"])
def test_archives_of_tvm(made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same archive is equal to itself, and on a board to this computer."""
    bundle = {
        "graph": lambda: tvm_archives.graph_archive(7),
        "packed": tvm_archives.packed_archive,
        "struct": tvm_archives.struct_archive,
        "network": lambda: tvm_archives.network_archive(3),
    }[made]()
    write_tar(bundle, tmp_path / "t.tar")
    found = data_of(capsys, "compare", tmp_path / "t.tar", "--against", tmp_path / "t.tar")
    assert found["layers"]
    assert all(layer["differing"] == 0 for layer in found["layers"])
    ops = data_of(capsys, "ops", tmp_path / "t.tar")
    assert ops["layers"] == []
    assert ops["missing"] == ["layers and kernels: the archive does not say what they are"]
    wrong = ("compare", tmp_path / "t.tar", "--against", GESTURE)
    assert "not the same network" in refused(capsys, *wrong)
