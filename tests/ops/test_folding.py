"""Values that are worked out while a model is imported, against onnxruntime: the standard's
reference implementation, which does it, is wrong here and there (mlftool/ops/folded.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, compile_model, run_jobs
from builders import Array, Net
from cases import Case, Results
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from oracle import onnxruntime_float, session

from mlftool.errors import MlfError
from mlftool.importer.onnx import import_model
from mlftool.ops.base import OLD, OPS, Trait, has
from mlftool.ops.reference import evaluate_proto

OPSET = 21
FLOATS = (np.float32, np.float64)
NUMBERS = (*FLOATS, np.int32, np.int64)
ALL = (*NUMBERS, np.uint8, np.int8, np.float16, np.bool_)
Draw = st.DrawFn
Call = tuple[list[Array], dict[str, Any], int]  # inputs, attributes, outputs
MAKERS: dict[str, Callable[[Draw, np.random.Generator], Call]] = {}


def int64(values: Any) -> Array:
    return np.asarray(values, np.int64)


def floats(*extents: int) -> Array:
    return np.random.default_rng(sum(extents)).normal(size=extents).astype(np.float32)


def shape(draw: Draw, least: int = 1, most: int = 3, empty: bool = True) -> tuple[int, ...]:
    """Sizes that are odd, large or nothing."""
    extents = st.sampled_from((1, 2, 3, 5, 7, 64, 65, 129, *((0,) if empty else ())))
    found = draw(
        st.lists(extents, min_size=least, max_size=most).filter(lambda s: np.prod(s) < 1e5)
    )
    return tuple(found)


def array(draw: Draw, rng: np.random.Generator, of: tuple[int, ...], kinds: Any = ALL) -> Array:
    kind = draw(st.sampled_from(kinds))
    if kind is np.bool_:
        return np.asarray(rng.random(of) < 0.5)
    if np.issubdtype(kind, np.floating):
        return np.asarray(rng.normal(size=of) * draw(st.sampled_from((0.1, 1, 30))), kind)
    return rng.integers(max(-20, np.iinfo(kind).min), 20, of).astype(kind)


def axis_of(draw: Draw, x: Array) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1))


def makes(*names: str) -> Callable[..., Any]:
    def register(maker: Callable[..., Call]) -> Callable[..., Call]:
        MAKERS.update(dict.fromkeys(names, maker))
        return maker

    return register


@makes("GatherElements")
def gather_elements(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, empty=False))
    axis = axis_of(draw, x)
    extents = [draw(st.integers(0, n)) for n in x.shape]
    extents[axis] = draw(st.sampled_from((0, 1, 3, 90)))
    index = rng.integers(-x.shape[axis], x.shape[axis], extents)
    return [x, index.astype(draw(st.sampled_from((np.int32, np.int64))))], {"axis": axis}, 1


@makes("ScatterElements")
def scatter_elements(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, empty=False), NUMBERS)
    axis = axis_of(draw, x)
    extents = [draw(st.integers(1, n)) for n in x.shape]
    index = np.argsort(rng.random(x.shape), axis)[tuple(slice(n) for n in extents)]
    how = draw(st.sampled_from(("none", "add", "mul", "max", "min")))
    if how != "none":
        index = rng.integers(-x.shape[axis], x.shape[axis], extents)
    values = array(draw, rng, tuple(extents), (x.dtype.type,))
    return [x, int64(index), values], {"axis": axis, "reduction": how}, 1


@makes("Gather")
def gather(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, empty=False))
    axis = axis_of(draw, x)
    index = rng.integers(-x.shape[axis], x.shape[axis], shape(draw, 0, 2)[:2])
    return [x, int64(index)], {"axis": axis}, 1


@makes("Slice")
def slice_(draw: Draw, rng: np.random.Generator) -> Call:
    """onnxruntime reads the greatest end of a negative step as the beginning; the standard not."""
    x = array(draw, rng, shape(draw))
    axes = draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, unique=True))
    bounds = st.lists(st.integers(-140, 140), min_size=len(axes), max_size=len(axes))
    steps = st.lists(st.sampled_from((1, 2, -1, -3, 9)), min_size=len(axes), max_size=len(axes))
    return [x, int64(draw(bounds)), int64(draw(bounds)), int64(axes), int64(draw(steps))], {}, 1


@makes("Pad")
def pad(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, empty=False), NUMBERS)
    mode = draw(st.sampled_from(("constant", "reflect", "edge", "wrap")))
    if mode == "constant":  # either end may be cut off beyond the other
        pads = [draw(st.integers(-min(n, 9) - 1, 5)) for n in x.shape]
        pads += [
            draw(st.integers(max(-9, 1 - n - b), 5)) for n, b in zip(x.shape, pads, strict=True)
        ]
    else:
        most = [min(n - 1, 5) if mode in ("reflect", "wrap") else 5 for n in x.shape]
        pads = [draw(st.integers(0, m)) for m in (*most, *most)]
    return [x, int64(pads), np.asarray(7, x.dtype)], {"mode": mode}, 1


@makes("Tile")
def tile(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw))
    return [x, int64(rng.integers(0, 4, x.ndim))], {}, 1


@makes("Flatten")
def flatten(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw))
    return [x], {"axis": draw(st.integers(-x.ndim, x.ndim))}, 1


@makes("Shape")
def shape_of(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw))
    return [x], {"start": draw(st.integers(-6, 6)), "end": draw(st.integers(-6, 6))}, 1


@makes("TopK")
def top_k(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, empty=False), NUMBERS)
    axis = axis_of(draw, x)
    k = draw(st.integers(1, x.shape[axis]))
    return [x, int64([k])], {"axis": axis, "largest": draw(st.integers(0, 1))}, 2


@makes("CumSum")
def cumulative(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw), NUMBERS)
    flags = {n: draw(st.integers(0, 1)) for n in ("exclusive", "reverse")}
    axis = axis_of(draw, x)
    return [x, int64(draw(st.sampled_from((axis, [axis]))))], flags, 1


@makes("Split")
def split(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, empty=False))
    axis = axis_of(draw, x)
    count = draw(st.integers(1, min(4, x.shape[axis])))
    cuts = np.sort(rng.integers(0, x.shape[axis] + 1, count - 1))
    return [x, int64(np.diff([0, *cuts, x.shape[axis]]))], {"axis": axis}, count


@makes("Compress")
def compress(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, empty=False))
    axis = axis_of(draw, x)
    return [x, rng.random(draw(st.integers(1, x.shape[axis]))) < 0.5], {"axis": axis}, 1


@makes("Trilu")
def trilu(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, 2), (np.float32, np.int64, np.bool_))
    return [x, int64(draw(st.integers(-70, 70)))], {"upper": draw(st.integers(0, 1))}, 1


@makes("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def along(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, empty=False), (np.float32,))
    return [x], {"axis": axis_of(draw, x)}, 1


@makes("Softsign", "Sigmoid", "Erf", "Round", "Sign", "HardSwish", "Mish", "Elu", "Selu", "Celu")
def one(draw: Draw, rng: np.random.Generator) -> Call:
    return [array(draw, rng, shape(draw, 0), (np.float32,))], {}, 1


@makes("Sum", "Mean", "Min", "Max")
def several(draw: Draw, rng: np.random.Generator) -> Call:
    """Any of them may be the one that broadcasts."""
    of = shape(draw, 0)
    shapes = [[draw(st.sampled_from((1, n))) for n in of] for _ in range(draw(st.integers(1, 4)))]
    return (
        [array(draw, rng, tuple(s[draw(st.integers(0, 1)) :]), FLOATS[:1]) for s in shapes],
        {},
        1,
    )


@makes("Add", "Sub", "Mul", "Div", "Equal", "Less")
def two(draw: Draw, rng: np.random.Generator) -> Call:
    x = array(draw, rng, shape(draw, 0), NUMBERS)
    y = array(draw, rng, tuple(draw(st.sampled_from((1, n))) for n in x.shape), (x.dtype.type,))
    return [x, np.where(y == 0, np.asarray(3, y.dtype), y)], {}, 1


@makes(*(f"Reduce{kind}" for kind in ("L1", "L2", "Max", "Min", "Prod", "Sum", "SumSquare")))
def reduction(draw: Draw, rng: np.random.Generator) -> Call:
    """Sums of integers that overflow are nobody's; onnxruntime's saturate through floats."""
    x = array(draw, rng, shape(draw, 0, empty=False)[:3], (*FLOATS, np.int32))
    axes = draw(st.lists(st.integers(0, max(0, x.ndim - 1)), max_size=x.ndim, unique=True))
    flags = {n: draw(st.integers(0, 1)) for n in ("keepdims", "noop_with_empty_axes")}
    small = np.asarray(x % 2 if x.dtype.kind == "i" else x, x.dtype)
    return [small, int64(axes)], flags, 1


@makes("ReduceLogSum", "ReduceLogSumExp", "ReduceMean")
def float_reduction(draw: Draw, rng: np.random.Generator) -> Call:
    (x, axes), flags, outputs = reduction(draw, rng)
    return [np.asarray(np.abs(x), np.float32), axes], flags, outputs


@makes("DepthToSpace")
def depth_to_space(draw: Draw, rng: np.random.Generator) -> Call:
    block, channels = draw(st.integers(1, 3)), draw(st.sampled_from((1, 2, 40)))
    x = array(draw, rng, (2, block * block * channels, 3, 2), (np.float32,))
    return [x], {"blocksize": block, "mode": draw(st.sampled_from(("DCR", "CRD")))}, 1


@makes("Unique")
def unique(draw: Draw, rng: np.random.Generator) -> Call:
    """Slices of few different numbers, some of which are equal."""
    extents = draw(st.lists(st.integers(1, 5), min_size=0, max_size=3))
    x = rng.integers(0, 2, extents).astype(draw(st.sampled_from((np.float32, np.int64, np.int8))))
    axis = draw(st.sampled_from((None, *range(-x.ndim, x.ndim))))
    along = {} if axis is None else {"axis": axis}
    return [x], {"sorted": draw(st.integers(0, 1)), **along}, 4


@pytest.mark.parametrize("op", MAKERS)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_values_are_onnxruntimes(op: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    inputs, attrs, outputs = MAKERS[op](data.draw, rng)
    names = [f"x{k}" for k in range(len(inputs))]
    node = helper.make_node(op, names, [f"y{k}" for k in range(outputs)], **attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
    ]
    made = [helper.make_empty_tensor_value_info(n) for n in node.output]
    model = helper.make_model(
        helper.make_graph([node], "g", infos, made),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=10,
    )
    wanted = session(model, False).run(None, dict(zip(names, inputs, strict=True)))
    for got, want in zip(evaluate_proto(node, inputs, {"": OPSET}), wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype.kind == "f":
            worst = 1e-5 * max(1.0, np.abs(want[np.isfinite(want)]).max(initial=0))
            near = 1e-3 if want.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(got, want, rtol=near, atol=worst)
        else:
            np.testing.assert_array_equal(got, want)


OLD_SPELLINGS = (
    *(
        (op, o, a)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for o in (7, 11, 12)
        for a in (0, 1, 2)
    ),
    *((op, 11, -2) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    *(("BatchNormalization", opset, None) for opset in (7, 9, 13, 14, 15)),
)


@pytest.mark.parametrize(("op", "opset", "axis"), OLD_SPELLINGS)
def test_values_are_those_of_the_models_opset(op: str, opset: int, axis: int | None) -> None:
    """What an operator meant in an old opset is folded, not what it means today."""
    inputs = [floats(2, 3, 4)]
    if op == "BatchNormalization":
        inputs += [floats(3), floats(3), floats(3), np.abs(floats(3)) + np.float32(0.1)]
    names = [f"x{k}" for k in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **({} if axis is None else {"axis": axis}))
    infos = [
        helper.make_tensor_value_info(n, 1, x.shape) for n, x in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    (want,) = session(model, False).run(None, dict(zip(names, inputs, strict=True)))
    (got,) = evaluate_proto(node, inputs, {"": opset})
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


NAN, INF = np.float32(np.nan), np.float32(np.inf)
ALL_KINDS = np.array([-INF, -2, -0.5, 0, 0.5, 2, INF, NAN], np.float32)
LABELS, SCORES = int64([1, -1, 0]), floats(3, 4)
SLOPES = np.array([0, INF, -1], np.float32)
# Inputs, outputs, opset and attributes.
KNOWN: dict[str, tuple[tuple[Any, ...], tuple[str, ...], int, dict[str, Any]]] = {
    "Clip by no number": ((ALL_KINDS, NAN, np.float32(1)), ("y",), 13, {}),
    "Clip to no number": ((ALL_KINDS, np.float32(-1), NAN), ("y",), 13, {}),
    "BatchNormalization of a past opset": (
        (floats(2, 3), *[floats(3) ** 2] * 4),
        ("y",),
        7,
        {"spatial": 1},
    ),
    "Clip of a past opset": ((ALL_KINDS,), ("y",), 7, {"min": -1.0, "max": 1.5}),
    "Compress by more": ((floats(2, 3), [False, True, True]), ("y",), 11, {"axis": 0}),
    "LayerNormalization": (
        *((floats(2, 3).astype(np.float16), floats(3).astype(np.float16)), ("y", "m", "f"), 17),
        {},
    ),
    "NegativeLogLikelihoodLoss": ((SCORES, LABELS), ("y",), 13, {"ignore_index": -1}),
    "Pow of integers": ((int64([-3, -1, 1, 3]), np.full(4, -3)), ("y",), 15, {}),
    "PRelu": ((ALL_KINDS, SLOPES[:, None]), ("y",), 16, {}),
    "Unique as they come": ((int64([[3, 1], [3, 2]]),), ("y", "f", "i", "c"), 11, {"sorted": 0}),
    "Unique rows": (
        *((int64([[3, 1], [2, 1], [3, 1]]),), ("y", "", "i", "c"), 11),
        {"sorted": 0, "axis": 0},
    ),
    "Unique, counted": ((floats(2).repeat(2),), ("y", "", "", "c"), 11, {}),
}


@pytest.mark.parametrize("name", KNOWN)
def test_values_at_the_borders(name: str) -> None:
    """Each differed, or was refused, while kernels computed it."""
    values, outputs, opset, attrs = KNOWN[name]
    arrays = [np.asarray(v) for v in values]
    op = name.split()[0].rstrip(",")
    node = helper.make_node(op, [f"x{k}" for k in range(len(arrays))], outputs, **attrs)
    infos = [helper.make_empty_tensor_value_info(o) for o in outputs if o]
    inits = [onnx.numpy_helper.from_array(v, f"x{k}") for k, v in enumerate(arrays)]
    graph = helper.make_graph([node], "g", [], infos, inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    consts = import_model(model, "g", "g", {}).consts
    for info, want in zip(infos, session(model, False).run(None, {}), strict=True):
        got = consts[info.name]
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-3 if want.dtype == np.float16 else 1e-5)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "wanted"),
    [
        ("Reshape", [floats(2, 3)], {"shape": [0, -1, 1]}, floats(2, 3)[..., None]),
        ("Split", [floats(2, 3)], {"axis": 1, "split": [3]}, floats(2, 3)),
        ("Gemm", [floats(2, 3), floats(3, 4), floats(4)], {"broadcast": 1}, None),
        ("Clip", [floats(2, 3)], {"max": 0.25}, np.minimum(floats(2, 3), np.float32(0.25))),
        ("Clip", [ALL_KINDS], {}, ALL_KINDS),
    ],
)
def test_values_in_the_first_opset(
    op: str, inputs: list[Array], attrs: dict[str, Any], wanted: Array | None
) -> None:
    """Neither onnxruntime nor onnx's evaluator has these records."""
    node = helper.make_node(op, [f"x{k}" for k in range(len(inputs))], ["y"], **attrs)
    wanted = inputs[0] @ inputs[1] + inputs[2] if wanted is None else wanted
    np.testing.assert_allclose(evaluate_proto(node, inputs, {"": 1})[0], wanted, rtol=1e-6)


def test_functions_of_doubles_are_doubles() -> None:
    """Where onnxruntime has floats alone."""
    x = np.linspace(-2, 2, 9)
    (got,) = evaluate_proto(helper.make_node("Erf", ["x"], ["y"]), [x], {"": OPSET})
    np.testing.assert_array_equal(got, [math.erf(v) for v in x])


def test_floats_name_the_integer_below() -> None:
    """OneHot casts its indices; onnxruntime has few of their types."""
    node = helper.make_node("OneHot", ["i", "n", "v"], ["y"])
    values = [np.array([0.7, -1.2], np.float32), int64(3), int64([0, 1])]
    (got,) = evaluate_proto(node, values, {"": OPSET})
    assert got.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_what_draws_numbers_is_not_folded() -> None:
    net = Net()
    x, ratio, training = net.const(floats(2, 3)), net.const(0.5), net.const(np.array(True))
    y = net.node("Add", net.node("Dropout", x, ratio, training), net.input("x", np.float32, (1,)))
    with pytest.raises(MlfError, match="training mode, which draws random numbers"):
        compile_model(net.model(y))


def kept(op: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> Case:
    """An operator of constants, and a sum that is not."""
    net = Net()
    names = [net.const(i) if i is not None else "" for i in inputs]
    y = net.node(op, *names, **attrs)
    for k in range(1, outputs):
        net._nodes[-1].output.append(f"{y}.{k}")
    made = net.node("Add", y, net.input("x", np.float32, (1,)))
    said = "_".join(str(v) for v in attrs.values()).replace(" ", "")
    return Case(f"{op}_{len(inputs)}_{said}".lower(), net.model(made))


def kept_cases() -> Iterator[Case]:
    image = floats(1, 4, 7, 6)
    yield kept("ConvTranspose", image, floats(4, 2, 3, 3), floats(4), group=2, strides=[2, 2])
    yield kept("Conv", image, floats(4, 2, 3, 3), group=2, auto_pad="SAME_LOWER")
    yield kept("MaxPool", image, kernel_shape=[2, 2], pads=[0, 1, 0, 0])
    yield kept("MaxPool", floats(1, 2, 6, 8, 5), kernel_shape=[2, 2, 2], pads=[1, 0, 1, 0, 1, 0])
    pool = {"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1, "dilations": [2, 2]}
    yield kept("AveragePool", floats(1, 2, 7, 6), **pool)
    yield kept("LpPool", floats(1, 2, 9, 5), **pool)
    yield kept("GlobalMaxPool", floats(2, 3, 3))
    yield kept("GlobalLpPool", image)
    yield kept("LRN", floats(1, 70, 3, 3), size=5)
    grid = np.tanh(floats(1, 3, 4, 2)) * np.float32(1.3)
    yield kept("GridSample", image, grid, mode="cubic", padding_mode="border")
    sizes = np.int64([1, 4, 11, 4])
    yield kept("Resize", image, None, None, sizes, mode="cubic")
    lengths = np.int32([3, 5])
    for op, gates in (("GRU", 3), ("LSTM", 4), ("RNN", 1)):
        weights = floats(2, 4 * gates, 3), floats(2, 4 * gates, 4), floats(2, 8 * gates)
        given_ = (floats(5, 2, 3), *weights, lengths)
        yield kept(op, *given_, hidden_size=4, direction="bidirectional")


KEPT_CASES = tuple(kept_cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(KEPT_CASES, tmp_path_factory.mktemp("kept"), selected)


@pytest.mark.parametrize("case", KEPT_CASES, ids=lambda c: c.name)
def test_what_is_not_folded_is_computed_by_kernels(case: Case, results: Results) -> None:
    assert has(case.model.graph.node[0].op_type, Trait.KEPT)
    results.check(case)


def test_every_name_is_an_operator() -> None:
    kept = [name for name in OPS | OLD if has(name, Trait.KEPT)]
    assert len(kept) > 20
    assert all(map(onnx.defs.has, kept))


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16])
def test_quantised_constants_have_the_type_that_is_stated(kind: Any, tmp_path: Path) -> None:
    """Without a zero point `output_dtype` says it, of a constant as of what is computed."""
    net, outputs = Net(), []
    constant = net.const(np.linspace(-20, 20, 6), np.float32)
    for x in (constant, net.input("x", np.float32, (6,))):
        for scale in (net.const(0.1, np.float32), net.const(np.full(6, 0.2), np.float32)):
            code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            outputs.append(net.node("QuantizeLinear", x, scale, axis=0, output_dtype=code))
    job = Job(net.model(*outputs), [{"x": np.linspace(-3e4, 3e4, 6, dtype=np.float32)}])
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    for name, value in onnxruntime_float(job.model, job.feeds)[0].items():
        np.testing.assert_array_equal(job.results[0][name], value, name)
        assert job.results[0][name].dtype == kind


@pytest.mark.parametrize(
    "node",
    [
        "EyeLike(x)",
        "Shape(x)",
        "Size(x)",
        "ConstantOfShape(i)",
        "Abs(c)",
        "Flatten(c)",
        "Range(zero, three, one)",
        "BatchNormalization(c, s, s, s, s)",
        "Scatter(c, j, c)",
    ],
)
def test_the_default_domain_has_two_names(node: str) -> None:
    """Written out, it is the same operator: of what is folded the archive has the same values."""

    def constants(name: str) -> list[bytes]:
        model = onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["": 9]>
            g (float[2,3] x) => (float[a,b] y) <float[2,3] c = {{1, -2, 3, -4, 5, -6}},
                float[3] s = {{1, 2, 3}}, int64[2] i = {{2, 3}}, int64 zero = {{0}},
                int64 three = {{3}}, int64 one = {{1}}, int64[2,3] j = {{0, 1, 0, 1, 0, 1}}>
            {{ y = {name}{node} }}"""
        )
        model.graph.output[0].ClearField("type")
        if "Range" in node:
            model.opset_import[0].version = 11
        graph = compile_model(model).program.graph
        return [v.tobytes() for v in graph.consts.values()]

    assert constants("ai.onnx.") == constants("")


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("scale", [1e-9, 1e-30, [1e-9, 1e-30, 1.0], [[1e-30, 1.0], [1e-9, 0.1]]])
def test_quantised_values_end_at_the_ends_of_their_type(kind: Any, scale: Any) -> None:
    """onnx's implementation wraps beyond 2^31 steps. Tables of 256 results are made of it, too."""
    x = np.array([[-3, -1e-3, 0], [1e-3, 3, np.inf]], np.float32)
    steps = np.asarray(scale, np.float32)
    attrs = {"axis": 1, **({"block_size": 2} if steps.ndim == 2 else {})}
    zero = np.full(steps.shape, 5, kind)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **attrs)
    spread = np.repeat(steps, 2, axis=1)[:, :3] if steps.ndim == 2 else steps
    with np.errstate(all="ignore"):
        ends = np.iinfo(kind)
        want = np.clip(np.rint(x.astype(np.float64) / spread) + 5, ends.min, ends.max)
    (got,) = evaluate_proto(node, [x, steps, zero], {"": OPSET})
    np.testing.assert_array_equal(got, want.astype(kind))
