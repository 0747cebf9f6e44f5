"""Recurrent layers in integers: the same function in parts, and the numbers of onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Array

from mlftool.compile import compile_modules, compile_specs
from mlftool.module import ModuleSpec
from mlftool.ops.recurrent import USUAL
from mlftool.quantize.device import Cost, Device
from mlftool.quantize.improve import plainest, ranges_of
from mlftool.quantize.metrics import Goal
from mlftool.quantize.network import network
from mlftool.quantize.plan import Plan, Precision
from mlftool.quantize.prepare import prepared
from mlftool.quantize.quantizer import Quantized, Request, quantized
from mlftool.quantize.recurrent import GATES, LIMITS, taken_apart
from mlftool.quantize.report import text, to_json
from mlftool.quantize.runtime import Session
from mlftool.quantize.samples import samples_of
from mlftool.quantize.search import paying_tables
from mlftool.quantize.studio import Studio, seen_tensors
from mlftool.quantize.write import written
from mlftool.runtime.host import load_host

STEPS, WIDTH, UNITS, CLASSES = 9, 6, 12, 4
FORMS = (
    *product(GATES, ("forward", "reverse", "bidirectional"), ("",)),
    *product(("GRU",), ("forward", "bidirectional"), (", linear_before_reset = 1",)),
    ("RNN", "bidirectional", ', activations = ["Relu", "Tanh"]'),
    ("LSTM", "forward", ', activations = ["HardSigmoid", "Softsign", "Tanh"]'),
)


def states(count: int = 64, seed: int = 3) -> Array:
    """Samples: slow waves and noise."""
    draw = np.random.default_rng(seed)
    phase, pace = draw.uniform(0, 6, (count, 1, 1, WIDTH)), draw.uniform(0.2, 2, (count, 1, 1, 1))
    waves = np.sin(phase + pace * np.arange(STEPS)[:, None])
    return (waves + draw.normal(0, 0.1, waves.shape)).astype(np.float32)


def classifier(
    op: str, way: str, more: str = "", bias: bool = True, peephole: bool = False
) -> onnx.ModelProto:
    """A recurrent layer whose last state a layer classifies, trained by least squares to tell how
    fast the waves are."""
    draw, directions = np.random.default_rng(len(op + way + more)), 1 + (way == "bidirectional")
    rows, units = GATES[op] * UNITS, directions * UNITS
    constants = {
        "w": draw.normal(size=(directions, rows, WIDTH)) / np.sqrt(WIDTH),
        "r": draw.normal(size=(directions, rows, UNITS)) / np.sqrt(UNITS),
        "b": draw.normal(size=(directions, 2 * rows)) * 0.3,
        "h0": draw.normal(size=(directions, 1, UNITS)) * 0.3,
        "p": draw.normal(size=(directions, 3 * UNITS)) * 0.3,
        "v": np.zeros((units, CLASSES)),
        "u": np.zeros(CLASSES),
    }
    rest = ["b" if bias else "", "", "h0" if bias else "", "", "p" if peephole else ""]
    read = ", ".join(["t", "w", "r", *rest]).rstrip(", ")
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,{STEPS},{WIDTH}] x) => (float[1,{CLASSES}] y, float[{directions},1,{UNITS}] h) {{
            t = Transpose<perm = [1, 0, 2]>(x)
            all, h = {op}<hidden_size = {UNITS}, direction = "{way}"{more}>({read})
            last = Transpose<perm = [1, 0, 2]>(h)
            flat = Reshape(last, shape)  y = Gemm(flat, v, u)
        }}""")
    shape = onnx.numpy_helper.from_array(np.array([1, units]), "shape")
    model.graph.initializer.append(shape)
    for name, value in constants.items():
        tensor = onnx.numpy_helper.from_array(value.astype(np.float32), name)
        model.graph.initializer.append(tensor)
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("flat"))
    session, x = Session(model), states(128, 5)
    seen = np.concatenate([session(["flat"], {"x": each})["flat"] for each in x])
    del model.graph.output[2]
    wanted = np.eye(CLASSES)[labels(x)]
    found = np.linalg.lstsq(np.c_[seen, np.ones(len(seen))], wanted, rcond=None)[0]
    trained = {"v": found[:-1], "u": found[-1]}
    for tensor in model.graph.initializer:
        if tensor.name in trained:
            value = trained[tensor.name].astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    return model


def labels(x: Array) -> Array:
    """Which quarter of the samples the pace of a wave is in."""
    pace = np.abs(np.diff(x[:, 0], axis=1)).mean(axis=(1, 2))
    return np.searchsorted(np.quantile(pace, [0.25, 0.5, 0.75]), pace)


def differ(a: dict[str, Array], b: dict[str, Array]) -> float:
    return max(float(np.abs(a[n] - b[n]).max()) for n in a)


@pytest.mark.parametrize(("op", "way", "more"), FORMS)
@pytest.mark.parametrize("bias", [True, False])
def test_parts_are_the_operator_and_make_it_again(op: str, way: str, more: str, bias: bool) -> None:
    plain = prepared(classifier(op, way, more, bias), "net")
    net = network(plain, "net")
    (cell,) = net.cells
    floats = plainest(net, {g: {"minmax": (-1.0, 1.0)} for g in net.groups})
    again = written(net, floats.uniform(Precision.FLOAT), "test")
    assert [n.op_type for n in again.graph.node].count(op) == 1
    feeds, names = {"x": states(1)[0]}, ["y", "h"]
    right = Session(plain)(names, feeds)
    for model in (taken_apart(plain)[0], again):
        onnx.checker.check_model(model, full_check=True)
        assert differ(right, Session(model)(names, feeds)) < 2e-6
    assert len(cell.layers) == (3 if op == "GRU" and not more else 2) * len(cell.ways)


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.INT16])
@pytest.mark.parametrize(("op", "way", "more"), [*FORMS[:3:2], *FORMS[3:8:2], *FORMS[8:10]])
def test_they_compute_what_onnxruntime_computes(
    op: str, way: str, more: str, precision: Precision
) -> None:
    """The state in each step is stored as the file says. Where last bits of a function change a
    rounding, one step of one value follows."""
    plain = prepared(classifier(op, way, more), "net")
    net = network(plain, "net")
    ranges = ranges_of(Studio(net, samples_of({"x": states()}, plain, "data")))
    model = written(net, plainest(net, ranges).uniform(precision), "test")
    onnx.checker.check_model(model, full_check=True)
    assert not {n.op_type for n in model.graph.node} & GATES.keys()
    (module,) = compile_specs([ModuleSpec(model)])
    ours, theirs = load_host(compile_modules([ModuleSpec(model)])), Session(model)
    gaps = [differ(theirs(["y", "h"], {"x": x}), ours({"x": x})) for x in states(seed=7, count=12)]
    assert np.median(gaps) < 2e-6, gaps
    assert max(gaps) < 0.05, gaps
    assert not [
        o.name
        for call in module.program.calls
        for inner in (call, *(c for p in call.parts.values() for c in p.calls))
        for o in inner.kernel.operands
        if o.array is not None and o.array.dtype == np.float32 and o.array.size > 8 * UNITS
    ], "weights in floats"


@pytest.mark.parametrize(("op", "way", "more"), FORMS[::2])
def test_samples_go_together_though_states_count_them_second(
    op: str, way: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = prepared(classifier(op, way, more), "net")
    net, x = network(plain, "net"), states(12, 7)
    studio = Studio(net, samples_of({"x": x}, plain, "data"))
    plan = plainest(net, ranges_of(studio))
    names = [*net.judged, *(layer.y for layer in net.layers), *seen_tensors(net)]
    assert any(name not in studio.outputs for name in names)
    alone = [studio.part(np.array([k])).run(plan, names) for k in range(len(x))]
    runs: list[object] = []
    real = Session.__call__

    def counted(session: Session, *given: Any) -> Any:
        runs.append(session)
        return real(session, *given)

    monkeypatch.setattr(Session, "__call__", counted)
    whole = studio.run(plan, names)
    assert len(runs) == 1
    for name in names:
        np.testing.assert_allclose(whole[name], np.concatenate([a[name] for a in alone]), atol=1e-5)


def made(model: onnx.ModelProto, **asked: object) -> Quantized:
    x = states(96)
    data = {"x": x, "labels": labels(x)}
    return quantized(model, data, Request("net.onnx", "data.npz", **asked))  # type: ignore[arg-type]


@pytest.mark.parametrize(("op", "more"), [("LSTM", ""), ("GRU", ", linear_before_reset = 1")])
def test_the_command_keeps_the_accuracy_in_integers(op: str, more: str) -> None:
    q = made(classifier(op, "forward", more))
    assert q.metric == "top1"
    assert q.after >= q.before - 0.003
    assert {x.precision for x in q.layers} <= {Precision.INT8, Precision.INT16}
    assert [x.name for x in q.layers] == ["all_input", "all_state", "y"]
    tables = 256 * len(USUAL[op])  # bytes
    # A layer of one row is stored with three words to each six channels more than one of many rows.
    assert q.cost.flash - tables < q.float_cost.flash * 0.52
    assert q.cost.instructions < q.float_cost.instructions * 0.82
    assert q.output_sqnr > 30
    assert all(x.cost.instructions > 0 and x.cost.flash > 0 for x in q.layers)
    assert "all_state" in text(q, "out.onnx")
    assert "in float" not in text(q, "out.onnx")
    assert "of int8 are the gates of 'all'" in text(q, "out.onnx")
    assert to_json(q)["tables"] == ["all"]


def test_gates_are_floats_where_tables_miss_the_accuracy() -> None:
    net = classifier("LSTM", "forward")
    asked: dict[str, Any] = {"metric": "sqnr", "on_device": False}
    narrow = made(net, enough=20.0, **asked)
    wide = made(net, enough=narrow.after + 2, **asked)
    assert {x.precision for q in (narrow, wide) for x in q.layers} == {Precision.INT8}
    assert [to_json(q)["tables"] for q in (narrow, wide)] == [["all"], []]
    assert narrow.cost.instructions < wide.cost.instructions <= narrow.float_cost.instructions
    assert wide.after >= narrow.after + 2


class _Tables:
    """A device and a studio: tables of "a" cost 20 dB and .1 of the accuracy, those of "b" a little
    of both, those of "c" instructions."""

    lost: Mapping[str, float] = {"a": 0.1, "b": 0.003, "c": 0.0}

    def costs(self, plan: Plan) -> dict[str, Cost]:
        saved = {"a": 30, "b": 20, "c": -10}
        return {"all": Cost(200 - sum(saved[name] for name in plan.tables), 100)}

    def judged(self, plan: Plan | None) -> dict[str, Array]:
        error = 0 if plan is None else 1e-3 + sum(self.lost[n] / 10 for n in plan.tables)
        return {"y": np.full(8, 1 + error)}

    def judge(self, plan: Plan) -> float:
        return 0.99 - sum(self.lost[name] for name in plan.tables)


@pytest.mark.parametrize(
    ("goal", "wish", "kept"),
    [
        (None, None, {"b"}),
        (0.8, None, {"a", "b"}),
        (0.9, None, {"b"}),
        (0.989, None, set()),
        (0.999, None, set()),
        (0.8, 0.975, {"b"}),
        (0.8, 0.99, {"a", "b"}),
        (0.9, 0.99, set()),
    ],
)
def test_each_layer_has_tables_or_gates_in_float(
    goal: float | None, wish: float | None, kept: set[str]
) -> None:
    """As many layers have gates in float as the goal needs, for a wish if they cost a fifth."""
    tool: Any = _Tables()
    plan = Plan({}, {}, {}, {}, frozenset("abc"))
    goals = [value if value is None else Goal("top1", value) for value in (goal, wish)]
    assert paying_tables(plan, tool, tool, tool.judge, goals, None) == kept


@pytest.mark.parametrize(("op", "way", "more"), [*FORMS[:9:2], *FORMS[10:]])
def test_tables_are_computed_as_they_are_measured(op: str, way: str, more: str) -> None:
    """By onnxruntime and by compiled C, in which no function is left."""
    plain = prepared(classifier(op, way, more), "net")
    net, x = network(plain, "net"), states(8, 7)
    studio = Studio(net, samples_of({"x": x}, plain, "data"))
    plan = plainest(net, ranges_of(studio))
    model, measured = written(net, plan, "test"), studio.run(plan, studio.outputs)
    ours, theirs = load_host(compile_modules([ModuleSpec(model)])), Session(model)
    for k, given in enumerate(x):
        right = {n: a[k] for n, a in measured.items()}
        assert differ(right, theirs(["y", "h"], {"x": given})) < 2e-6
        assert differ(right, ours({"x": given})) < 2e-6
    (module,) = compile_specs([ModuleSpec(model)])
    inner = [c for call in module.program.calls for p in call.parts.values() for c in p.calls]
    computed = {n.op for c in inner for n in (c.node.body or (c.node,))}
    assert computed.isdisjoint(LIMITS)


@pytest.mark.parametrize(("op", "precision"), [*product(("GRU", "LSTM"), Precision)])
def test_costs_of_products_are_their_own(op: str, precision: Precision) -> None:
    """Those of each that multiplies the input or the state, of both directions."""
    plain = prepared(classifier(op, "bidirectional"), "net")
    net = network(plain, "net")
    ranges = ranges_of(Studio(net, samples_of({"x": states()}, plain, "data")))
    costs = Device(net, "cortex-m4").costs(plainest(net, ranges).uniform(precision))
    (cell,) = net.cells
    assert len(cell.layers) == (6 if op == "GRU" else 4)
    assert all(costs[n].instructions > 0 and costs[n].flash > 0 for n in cell.layers)


def test_precisions_are_chosen_for_each_product() -> None:
    """Where int8 misses what is asked for, and floats where nothing less has it."""
    net = classifier("LSTM", "forward")
    plain = made(net, metric="sqnr", enough=20.0, on_device=False)
    asked = plain.after + 11
    mixed = made(net, metric="sqnr", enough=asked, on_device=False)
    assert mixed.after >= asked
    assert len({x.precision for x in mixed.layers}) > 1
    floats = made(net, metric="sqnr", enough=100.0, on_device=False)
    assert [n.op_type for n in floats.model.graph.node].count("LSTM") == 1


@pytest.mark.parametrize("op", GATES)
def test_integers_take_no_more_ram_than_floats(op: str) -> None:
    """Of all steps there are integers of the input and of the states, and no floats."""
    plain = prepared(classifier(op, "bidirectional"), "net")
    net = network(plain, "net")
    ranges = ranges_of(Studio(net, samples_of({"x": states()}, plain, "data")))
    plan, device = plainest(net, ranges), Device(net, "cortex-m4")
    narrow, floats = (device.workspace_bytes(p) for p in (plan, plan.uniform(Precision.FLOAT)))
    assert narrow <= floats
    every = onnx.shape_inference.infer_shapes(written(net, plan, "test"), data_prop=True).graph
    float_bytes = STEPS * UNITS * 4
    for info in every.value_info:
        tensor = info.type.tensor_type
        size = np.prod([d.dim_value for d in tensor.shape.dim])
        is_read = any(info.name in n.input for n in every.node if n.op_type == "Scan")
        assert tensor.elem_type != onnx.TensorProto.FLOAT or not is_read or size * 4 < float_bytes


def test_other_forms_stay_in_float_and_are_named() -> None:
    q = made(classifier("LSTM", "forward", peephole=True), on_device=False)
    assert [n.op_type for n in q.model.graph.node].count("LSTM") == 1
    assert "'all': only recurrent layers of constant weights" in text(q, "out.onnx")


def test_flash_counts_what_is_inside() -> None:
    (module,) = compile_specs([ModuleSpec(classifier("GRU", "forward"), target="cortex-m4")])
    every = sum(module.flash_of(call) for call in module.program.calls)
    assert every >= module.constants_bytes


def test_states_that_are_inputs_and_outputs() -> None:
    """As a layer that goes on from call to call has them."""
    draw, rows = np.random.default_rng(1), 4 * UNITS
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[3,1,{WIDTH}] x, float[1,1,{UNITS}] h0, float[1,1,{UNITS}] c0)
          => (float[3,1,1,{UNITS}] y, float[1,1,{UNITS}] h, float[1,1,{UNITS}] c) {{
            y, h, c = LSTM<hidden_size = {UNITS}>(x, w, r, , , h0, c0)
        }}""")
    for name, width in (("w", WIDTH), ("r", UNITS)):
        value = (draw.normal(size=(1, rows, width)) / 3).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    shapes = {"x": (3, 1, WIDTH), "h0": (1, 1, UNITS), "c0": (1, 1, UNITS)}
    data = {n: draw.normal(0, 0.4, (16, *s)).astype(np.float32) for n, s in shapes.items()}
    q = quantized(model, data, Request("net.onnx", "data.npz"))
    assert q.output_sqnr > 25
    feeds, names = {n: a[0] for n, a in data.items()}, ["y", "h", "c"]
    ours = load_host(compile_modules([ModuleSpec(q.model)]))(feeds)
    assert differ(Session(q.model)(names, feeds), ours) < 0.05
