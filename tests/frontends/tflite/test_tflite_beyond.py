"""Operators that TensorFlow Lite has and TensorFlow Lite Micro has not, against numpy."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np
import pytest
from tfl_cases import Case, feeds, ints, like, merged, q
from tfl_writer import Op, Sub, T, model

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.frontends.models import TFLite, imported
from mlftool.runtime.host import load_host

SHAPE = (2, 3, 4)
CONDITIONS = (SHAPE, (2,), (1,), ())
TIMES = ((1, 2, 3), (2, 1, 1), (3, 1, 2))
ROWS = ("float32", "int8", "int16")


def results(cases: list[Case]) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """What one module gives for all, and what it was given."""
    run = load_host(compile_modules([ModuleSpec(TFLite(merged(cases)), "m")]), optimise="-O0")
    given = [feeds(np.random.default_rng(k), [case]) for k, case in enumerate(cases)]
    names = (t.name for t in run.interface.inputs)
    made = run(dict(zip(names, (x for each in given for x in each), strict=True)))
    return [np.asarray(y) for y in made.values()], given


def test_select_and_tile() -> None:
    rng = np.random.default_rng(0)
    some = [q(rng, SHAPE, row) for row in ROWS]
    selects = [
        Case("SELECT", [like(x, c, type="bool", scale=None), x, x], [x])
        for x in some
        for c in CONDITIONS
    ]
    tiles = [
        Case("TILE", [x, ints(times)], [like(x, np.multiply(SHAPE, times))])
        for x in some
        for times in TIMES
    ]
    made, given = results([*selects, *tiles])
    for y, (flags, a, b) in zip(made, given[: len(selects)], strict=False):
        rows = (
            flags if flags.shape == SHAPE else flags.reshape(*flags.shape, *(1,) * (3 - flags.ndim))
        )
        np.testing.assert_array_equal(y, np.where(rows, a, b))
    for k, (y, (x,)) in enumerate(zip(made[len(selects) :], given[len(selects) :], strict=True)):
        np.testing.assert_array_equal(y, np.tile(x, TIMES[k % len(TIMES)]))


@pytest.mark.parametrize("kind", ["SELECT", "SELECT_V2"])
def test_a_selection_of_indices(kind: str) -> None:
    """Keras' Embedding counts indices below zero from the end."""
    table = {"SELECT_V2": "SelectV2Options"}.get(kind, "SelectOptions")
    rows = ("int32", "int64", "bool")
    some = [T("", SHAPE, row) for row in rows]
    cases = [Case(kind, [T("", SHAPE, "bool"), x, x], [x], table) for x in some]
    made, given = results(cases)
    for row, y, (flags, a, b) in zip(rows, made, given, strict=True):
        assert y.dtype == row
        np.testing.assert_array_equal(y, np.where(flags, a, b))


def test_operators_that_onnx_has_too() -> None:
    """SIGN and POW, which larq's and QKeras' networks have; products; whether one of several is."""
    x, flags = q(np.random.default_rng(0), SHAPE, "float32"), T("", SHAPE, "bool")
    lines = like(x, (2, 1, 4))
    options = ("ReducerOptions", {"KeepDims": True})
    cases = [
        Case("SIGN", [x], [x]),
        Case("POW", [x, like(x, (1, 3, 1))], [x]),
        Case("REDUCE_PROD", [x, ints((1,))], [lines], *options),
        Case("REDUCE_ANY", [flags, ints((1,))], [like(flags, (2, 1, 4))], *options),
    ]
    with np.errstate(invalid="ignore"):  # roots of what is below zero
        made, ((a,), (b, c), (d,), (e,)) = results(cases)
        want = [np.sign(a), np.power(b, c), d.prod(axis=1, keepdims=True)]
    for got, values in zip(made, [*want, e.any(axis=1, keepdims=True)], strict=True):
        np.testing.assert_allclose(got, values, rtol=1e-5)


@pytest.mark.parametrize("flags", [(3,), (2, 3), (4,)])
def test_conditions_that_do_not_fit(flags: tuple[int, ...]) -> None:
    x = q(np.random.default_rng(0), SHAPE, "int8")
    case = Case("SELECT", [like(x, flags, type="bool", scale=None), x, x], [x])
    with pytest.raises(MlfError, match="for int8"):
        compile_modules([ModuleSpec(TFLite(merged([case])), "m")])


@pytest.mark.parametrize("row", ["int8", "int16"])
def test_dense_layers_with_weights_of_four_bits_for_each_channel(row: str) -> None:
    """As ai-edge-quantizer writes them: what TensorFlow Lite Micro gives for the same numbers as
    int8, which tfl_case_sums.py compares with it."""
    rng = np.random.default_rng(3)
    scales, w = rng.uniform(0.01, 0.2, 6), rng.integers(-8, 8, (6, 11))
    x, y = q(rng, (2, 11), row), q(rng, (2, 6), row)
    bias = T("", (6,), "int32", scales * 0.01, data=rng.integers(-900, 900, 6))
    cases = [
        Case("FULLY_CONNECTED", [x, T("", w.shape, kind, scales, axis=0, data=w), bias], [y], table)
        for kind in ("int4", "int8")
        for table in ["FullyConnectedOptions"]
    ]
    run = load_host(compile_modules([ModuleSpec(TFLite(merged(cases)), "m")]), optimise="-O0")
    given = feeds(rng, cases[:1])[0]
    packed, plain = run({t.name: given for t in run.interface.inputs}).values()
    np.testing.assert_array_equal(packed, plain)
    assert len(np.unique(packed)) > 3


# Of the bytes that LiteRT's reference kernels give (TensorFlow 2.21) for all inputs of the models
# below, one behind the other: the interpreter is no package of the tests.
GELU = "6547dde57f6ecf85f141ba5b49ab617d"


# The same of EXP and LOG, in LiteRT 2.3.
EXPONENTIALS = {
    "EXP": "814f31f431db85a17a59df2bedce8006",
    "LOG": "9de10103c7a5cff7ca34692a3c7e7ee8",
}


@pytest.mark.parametrize("kind", EXPONENTIALS)
def test_exponentials_of_int8_have_the_bytes_of_litert(kind: str) -> None:
    assert hashlib.sha256(b"".join(exponentials(kind))).hexdigest()[:32] == EXPONENTIALS[kind]


def exponentials(kind: str) -> Iterator[bytes]:
    """The table of each of some models."""
    for file in models_of(kind):
        graph = imported(TFLite(file), "m")[0]
        table = next(a for a in graph.consts.values() if a.shape == (256,))
        yield np.asarray(table).tobytes()


def models_of(kind: str) -> Iterator[bytes]:
    rng = np.random.default_rng(0)
    for _ in range(30):
        scales = [float(rng.uniform(0.005, 0.1)) for _ in "xy"]
        zeros = [int(rng.integers(-128, 128)) for _ in "xy"]
        pairs = zip("xy", scales, zeros, strict=True)
        tensors = [T(n, (1, 256), "int8", *p) for n, *p in pairs]
        yield model(Sub(tensors, [Op(kind, [0], [1])], [0], [1]))


def gelu(near: bool, row: str, *by: tuple[float, int]) -> TFLite:
    tensors = [T(n, (1, 256), row, *pair) for n, pair in zip("xy", by or ((), ()), strict=True)]
    op = Op("GELU", [0], [1], "GeluOptions", {"Approximate": near})
    return TFLite(model(Sub(tensors, [op], [0], [1])))


def test_gelu_has_the_bytes_of_litert() -> None:
    rng, made = np.random.default_rng(0), []
    codes = np.arange(-128, 128).astype(np.int8).view(np.uint8)
    for near in (False, True):
        for _ in range(30):
            scales = [float(rng.uniform(0.002, 0.1)) for _ in "xy"]
            zeros = [int(rng.integers(-128, 128)) for _ in "xy"]
            graph = imported(gelu(near, "int8", *zip(scales, zeros, strict=True)), "m")[0]
            made.append(graph.consts[graph.nodes[0].inputs[1]][codes].tobytes())
    assert hashlib.sha256(b"".join(made)).hexdigest()[:32] == GELU


# The same of int16 in LiteRT 2.3.
GELU_OF_INT16 = "947e46f490ad7c23b4832652f684e6b9"


def gelu_of_int16(rng: np.random.Generator) -> Iterator[Case]:
    for scale in (0.0001, 0.0009, 2.0**-12):
        x, y = (T("", (400,), "int16", scale * by, 0) for by in (1, 0.6))
        for near in (False, True):
            yield Case("GELU", [x], [y], "GeluOptions", {"Approximate": near})


def test_gelu_of_int16_has_the_bytes_of_litert() -> None:
    made, _ = results([*gelu_of_int16(np.random.default_rng(0))])
    found = hashlib.sha256(b"".join(y.tobytes() for y in made)).hexdigest()[:32]
    assert found == GELU_OF_INT16


def test_gelu_of_floats() -> None:
    x = np.linspace(-6, 6, 256, dtype=np.float32)[None]
    erf = np.array([math.erf(v) for v in (x[0] * math.sqrt(0.5)).tolist()])
    near = np.tanh(math.sqrt(2 / math.pi) * (x[0] + 0.044715 * x[0] ** 3))
    for flag, inner in ((False, erf), (True, near)):
        run = load_host(compile_modules([ModuleSpec(gelu(flag, "float32"), "m")]))
        (got,) = run({"x": x}).values()
        np.testing.assert_allclose(got[0], 0.5 * x[0] * (1 + inner), rtol=1e-5, atol=1e-6)


def replaced(row: str, step: int = 1, begins: int = 0, rest: int = 0, rows: int = 1) -> TFLite:
    """Row `at` of x replaced, as TensorFlow's converter writes TensorListSetItem, but for what the
    arguments change: from two slices whose sizes are known only at run time."""
    scale = {"scale": 0.5} if row != "float32" else {}
    part = T("left", (1, 1, 1), row, **scale)
    tensors = [
        T("x", (5, 2, 3), row, **scale), T("item", (rows, 2, 3), row, **scale),
        T("at", (), "int32"), T("one", (), "int32", data=step), T("next", (), "int32"),
        T("shape", (1,), "int32", data=[1]), T("all", (2,), "int32", data=[-1, -1]),
        T("zeros", (2,), "int32", data=[rest, 0]), T("begins", (3,), "int32", data=[begins, 0, 0]),
        T("sizes", (3,), "int32", data=[-1] * 3), T("a", (1,), "int32"), T("size", (3,), "int32"),
        part, T("b", (1,), "int32"), T("begin", (3,), "int32"),
        T("right", (1, 1, 1), row, **scale), T("y", (5, 2, 3), row, **scale),
    ]  # fmt: skip
    ops = [
        Op("ADD", [2, 3], [4], "AddOptions"),
        Op("RESHAPE", [2, 5], [10]), Op("CONCATENATION", [10, 6], [11], "ConcatenationOptions"),
        Op("SLICE", [0, 8, 11], [12]),
        Op("RESHAPE", [4, 5], [13]), Op("CONCATENATION", [13, 7], [14], "ConcatenationOptions"),
        Op("SLICE", [0, 14, 9], [15]),
        Op("CONCATENATION", [12, 1, 15], [16], "ConcatenationOptions"),
    ]  # fmt: skip
    return TFLite(model(Sub(tensors, ops, [0, 1, 2], [16])))


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_a_list_is_replaced(row: str) -> None:
    """Keras' recurrent layers that return sequences."""
    run = load_host(compile_modules([ModuleSpec(replaced(row), "m")]), optimise="-O0")
    x = np.arange(30).astype(row).reshape(5, 2, 3)
    item = -x[:1] - 1
    for at in range(5):
        want = x.copy()
        want[at] = item
        (got,) = run({"x": x, "item": item, "at": np.array(at, np.int32)}).values()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("change", [{"step": 2}, {"begins": 1}, {"rest": 1}, {"rows": 2}])
def test_slices_that_are_not_around_a_row_are_refused(change: dict[str, int]) -> None:
    with pytest.raises(MlfError, match="computed at run time; supported: constants"):
        imported(replaced("float32", **change), "m")


# Of the bytes that LiteRT's reference kernels give (TensorFlow 2.21) for the cases below.
ELSEWHERE = "f91b94d53c4bea3475248a902a458b27"


def elsewhere(rng: np.random.Generator) -> Iterator[Case]:
    """Forms that TensorFlow Lite Micro has not and converters write."""
    for kind in ("RELU_N1_TO_1", "RELU_0_TO_1"):
        for row in ("float32", "int8"):
            yield Case(kind, [q(rng, SHAPE, row)], [q(rng, SHAPE, row)])
    x = q(rng, (2, 4, 6, 3), "int16")
    for options in ({}, {"AlignCorners": True}, {"HalfPixelCenters": True}):
        made = [like(x, (2, 7, 5, 3))]
        yield Case("RESIZE_BILINEAR", [x, ints([7, 5])], made, "ResizeBilinearOptions", options)
    y, borders = [like(x, (1, 3, 12, 3))], ints([[3, 2], [0, 0]])
    blocks = [like(x, (2, 8, 6, 3)), ints([1, 2]), borders]
    yield Case("BATCH_TO_SPACE_ND", blocks, y, "BatchToSpaceNDOptions")
    for kind in ("REDUCE_MAX", "REDUCE_MIN"):
        yield Case(kind, [x, ints([1])], [like(x, (2, 6, 3))], "ReducerOptions")
    table = ("CastOptions", {"InDataType": 0, "OutDataType": 0})
    for a, b in (("uint8", "float32"), ("uint8", "int32"), ("int64", "int32"), ("int32", "int64")):
        yield Case("CAST", [T("", SHAPE, a)], [T("", SHAPE, b)], *table)


def test_what_only_litert_has() -> None:
    made, _ = results(list(elsewhere(np.random.default_rng(4))))
    found = hashlib.sha256(b"".join(y.tobytes() for y in made)).hexdigest()[:32]
    assert found == ELSEWHERE


# The same of LiteRT 2.3.
INTEGERS = "0699e5fa85d8d3afbbe2ea96ab3004b9"


def integers(rng: np.random.Generator) -> Iterator[Case]:
    """Forms of integers that TensorFlow Lite Micro has not."""
    ends = {"int8": 128, "int16": 2**15, "int32": 2**31, "int64": 2**40}
    plain = {row: T("", SHAPE, row) for row in ("int8", "int16", "int32", "int64")}
    for row, x in plain.items():
        dividends = rng.integers(-ends[row], ends[row], SHAPE)
        dividends[0, 0, 0] = -ends[row]
        feed = {0: dividends, 1: rng.choice([-7, -2, 3, 100], SHAPE)}
        yield Case("FLOOR_MOD", [x, x], [x], feed=feed)
        if row != "int64":
            yield Case("FLOOR_DIV", [x, x], [x], feed=feed)
        if row in ("int8", "int16"):
            yield Case("NEG", [like(x, SHAPE, scale=0.1)], [like(x, SHAPE, scale=0.1)])
            low = -128 if row == "int8" else 0
            codes = rng.integers(low, ends[row], (300,))
            root = [q(rng, (300,), row, zero=low), q(rng, (300,), row)]
            yield Case("SQRT", root[:1], root[1:], feed={0: codes})
            continue
        yield Case("NEG", [x], [x])
        for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
            made = [like(x, (2, 1, 4))]
            yield Case(kind, [x, ints([1])], made, "ReducerOptions", {"KeepDims": True})
        yield Case("CUMSUM", [x, ints(1)], [x], "CumsumOptions")
    x = plain["int32"]
    yield Case("ADD_N", [x, x, x], [x], "AddNOptions")
    yield Case("ABS", [x], [x])
    yield Case("SIGN", [x], [x])
    options = {"OutputType": 4}
    for row in ("float32", "int8", "int32"):
        parts = [q(rng, SHAPE, row), ints(-1)]
        yield Case("ARG_MAX", parts, [T("", SHAPE[:2], "int64")], "ArgMaxOptions", options)
    parts = [T("", (1, 4, 6, 3), "int32"), ints([2, 3]), ints([[0, 0], [1, 2]])]
    yield Case("SPACE_TO_BATCH_ND", parts, [T("", (6, 2, 3, 3), "int32")])
    x, y = q(rng, SHAPE, "int16"), q(rng, (3, 1), "int16")
    feed = {0: rng.integers(9999, 2**15, SHAPE), 1: rng.choice([-90, 41, 100], (3, 1))}
    yield Case("DIV", [x, y], [q(rng, SHAPE, "int16")], "DivOptions", feed=feed)
    for kind in ("EQUAL", "GREATER", "LESS_EQUAL"):
        b = like(x, SHAPE, scale=x.scale * (2 if kind == "EQUAL" else 1))
        feed = {0: rng.integers(-4, 4, SHAPE) * 2, 1: rng.integers(-4, 4, SHAPE)}
        yield Case(kind, [x, b], [T("", SHAPE, "bool")], feed=feed)
    parts = [q(rng, SHAPE, "float32"), T("", (2, 2), "int64")]
    made, feed = [like(parts[0], (2, 2, 2, 4))], {1: [[0, 2], [1, 1]]}
    yield Case("GATHER", parts, made, "GatherOptions", {"Axis": 1}, feed=feed)


def test_integers_of_litert() -> None:
    made, _ = results(list(integers(np.random.default_rng(8))))
    found = hashlib.sha256(b"".join(y.tobytes() for y in made)).hexdigest()[:32]
    assert found == INTEGERS


def test_short_lines_of_floats_are_not_of_length_one() -> None:
    """TensorFlow Lite divides by 1e-6 at least."""
    x, by = T("", (6, 5), "float32"), np.float32([[1], [1e-3], [1e-6], [1e-7], [1e-9], [0]])
    given = by * np.random.default_rng(1).normal(0, 1, x.shape).astype(np.float32)
    ((made,), _) = results([Case("L2_NORMALIZATION", [x], [x], "L2NormOptions", feed={0: given})])
    size = np.sqrt((given.astype(np.float64) ** 2).sum(-1, keepdims=True))
    np.testing.assert_allclose(made, given / np.maximum(size, 1e-6), rtol=1e-5)


def test_int64_has_fused_activations() -> None:
    """As LiteRT; of int32 TensorFlow Lite Micro leaves out the one of a sum."""
    kinds = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply}
    limits = {0: (-(2**63), 2**63 - 1), 1: (0, 2**63 - 1), 2: (-1, 1), 3: (0, 6)}
    x = T("", SHAPE, "int64")
    cases = [
        Case(kind, [x, x], [x], f"{kind.title()}Options", {"FusedActivationFunction": fused})
        for kind in kinds
        for fused in limits
    ]
    made, given = results(cases)
    for case, y, (a, b) in zip(cases, made, given, strict=True):
        low, high = limits[case.options["FusedActivationFunction"]]
        np.testing.assert_array_equal(y, np.clip(kinds[case.kind](a, b), low, high), str(case))


# The same.
INDICES = "69d15f5ed3005615f41e522b426ea378"


def indices(rng: np.random.Generator) -> Iterator[Case]:
    """Operators of indices, with some outside; functions of int16."""
    rows = ("float32", "int8", "uint8", "int16", "int32", "int64")
    some = {row: q(rng, (3, 7), row) if row in ROWS else T("", (3, 7), row) for row in rows}
    some["uint8"] = T("", (3, 7), "uint8", 0.1, 7)
    for x in some.values():
        parts = [like(x, (3, 4)), T("", (3, 4), "int32")]
        yield Case("TOPK_V2", [x, ints(4)], parts, "TopKV2Options")
    places, shapes = {0: [[0, 4, -1], [5, 2, -5]]}, {-1: (2, 3, 5), 0: (5, 2, 3), 1: (2, 5, 3)}
    for row in ("float32", "int8", "uint8", "int32", "int64", "bool"):
        ends = [T("", (), row, data=k) for k in (1, 0)]
        for axis, shape in shapes.items():
            parts = [T("", (2, 3), "int64" if axis else "int32"), ints(5), *ends]
            options = ("OneHotOptions", {"Axis": axis})
            yield Case("ONE_HOT", parts, [T("", shape, row)], *options, feed=places)
    for row in ("float32", "int8", "uint8", "int32", "int64"):
        added, whole = (like(some[row], shape) for shape in ((4, 3), (5, 3)))
        feed = {0: [[1], [3], [1], [0]]}
        parts = [T("", (4, 1), "int32"), added, ints((5, 3))]
        yield Case("SCATTER_ND", parts, [whole], "ScatterNdOptions", feed=feed)
    feed = {0: [[1, 0], [3, 2], [1, 0], [4, 1]]}
    parts = [T("", (4, 2), "int32"), T("", (4,), "float32"), ints((5, 3))]
    yield Case("SCATTER_ND", parts, [T("", (5, 3), "float32")], "ScatterNdOptions", feed=feed)
    for kind in ("EXP", "LOG"):
        for a, b in ((1.9e-4, 4e-5), (1e-5, 9e-4), (2e-4, 2e-4)):
            x, y = (T("", (1, 65536), "int16", scale, 0) for scale in (a, b))
            yield Case(kind, [x], [y], feed={0: np.arange(-32768, 32768)[None]})


def test_indices_and_functions_of_litert() -> None:
    made, _ = results(list(indices(np.random.default_rng(6))))
    found = hashlib.sha256(b"".join(y.tobytes() for y in made)).hexdigest()[:32]
    assert found == INDICES


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case("TOPK_V2", [T("", (3,), "int8"), ints(4)],
              [T("", (4,), "int8"), T("", (4,), "int32")]), "4 elements of int8"),
        (Case("ONE_HOT", [T("", (3,), "int32"), ints(4), *[T("", (), "int8", data=0)] * 2],
              [T("", (3, 5), "int8")], "OneHotOptions", {"Axis": -1}), "expected the shape"),
        (Case("SCATTER_ND", [T("", (2, 1), "int32"), T("", (2, 3), "int8"), ints((5, 4))],
              [T("", (5, 4), "int8")]), "rows int8"),
        (Case("CONV_3D", [T("", (1, 3, 3, 3, 2), "float32"),
                          T("", (1, 1, 1, 3, 4), "float32", data=np.zeros((1, 1, 1, 3, 4)))],
              [T("", (1, 3, 3, 3, 4), "float32")], "Conv3DOptions"), "weights float32"),
    ],
)  # fmt: skip
def test_indices_that_do_not_fit(case: Case, said: str) -> None:
    with pytest.raises(MlfError, match=said):
        imported(TFLite(merged([case])), "m")


@pytest.mark.parametrize(("padding", "stride", "dilation"), [(0, 2, 1), (1, 1, 2), (0, 1, 1)])
def test_convolutions_of_three_axes(padding: int, stride: int, dilation: int) -> None:
    """A sum over the window of each place; LiteRT has the same shapes and numbers."""
    rng = np.random.default_rng(padding)
    w, bias = rng.normal(size=(2, 3, 2, 3, 4)), rng.normal(size=4)
    x_shape, reach = (1, 5, 6, 7, 3), [(k - 1) * dilation + 1 for k in w.shape[:3]]
    sizes = [*zip(x_shape[1:4], reach, strict=True)]
    out = [-(-(n if padding == 0 else n - r + 1) // stride) for n, r in sizes]
    options = {f"Stride{a}": stride for a in "DHW"} | {
        f"Dilation{a}Factor": dilation for a in "DHW"
    }
    parts = [T("", x_shape, "float32")]
    parts += [T("", v.shape, "float32", data=v.astype(np.float32)) for v in (w, bias)]
    options |= {"Padding": padding, "FusedActivationFunction": 1}
    made = [T("", (1, *out, 4), "float32")]
    (y,), ((x,),) = results([Case("CONV_3D", parts, made, "Conv3DOptions", options)])
    whole = [max(0, (o - 1) * stride + r - n) for o, (n, r) in zip(out, sizes, strict=True)]
    pads = [(p // 2, p - p // 2) if padding == 0 else (0, 0) for p in whole]
    padded = np.pad(x, [(0, 0), *pads, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (1, 2, 3))
    windows = windows[:, ::stride, ::stride, ::stride, :, ::dilation, ::dilation, ::dilation]
    want = np.einsum("ndhwcijk,ijkco->ndhwo", windows, w)[:, : out[0], : out[1], : out[2]] + bias
    np.testing.assert_allclose(y, np.maximum(want, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("left", [1, 2])
def test_an_unknown_batch_is_what_its_operators_make_of_it(left: int) -> None:
    """Keras' causal, dilated Conv1D of any batch: the file has 1 also between the operators that
    make a batch of two of it. LiteRT computes the extents anew; so does numpy here."""
    rng = np.random.default_rng(left)
    w = rng.normal(0, 1, (5, 1, 3, 4)).astype(np.float32)

    tensors = [
        T("x", (1, 8, 4), "float32"), T("split", (1, 4 + left, 4), "float32"),
        T("rows", (1, 1, 4 + left, 4), "float32"),
        T("sums", (1, 1, 2 + left, 5), "float32"), T("flat", (1, 2 + left, 5), "float32"),
        T("y", (1, 4 + 2 * left, 5), "float32"), T("w", w.shape, "float32", data=w), ints([2]),
        ints([[2 * left, 0]]), ints([1]), T("bias", (5,), "float32", data=np.zeros(5)),
        ints([[0, 0]]),
    ]  # fmt: skip
    fields = ("Padding", "StrideW", "StrideH", "DilationWFactor", "DilationHFactor")
    steps = [
        Op("SPACE_TO_BATCH_ND", [0, 7, 8], [1]),
        Op("EXPAND_DIMS", [1, 9], [2]),
        Op("CONV_2D", [2, 6, 10], [3], "Conv2DOptions", dict.fromkeys(fields, 1)),
        Op("RESHAPE", [3], [4]),
        Op("BATCH_TO_SPACE_ND", [4, 7, 11], [5]),
    ]
    data = model(Sub(tensors, steps, [0], [5]))
    run = load_host(compile_modules([ModuleSpec(TFLite(data), "m")]), optimise="-O0")
    x = rng.normal(0, 1, (1, 8, 4)).astype(np.float32)
    (y,) = run({"x": x}).values()
    padded = np.pad(x[0], ((2 * left, 0), (0, 0)))
    count = len(padded) - 4
    wanted = sum(padded[2 * k : 2 * k + count] @ w[:, 0, k].T for k in range(3))
    np.testing.assert_allclose(np.asarray(y)[0], wanted, 1e-5, 1e-5)


def test_a_dense_of_a_sequence_of_an_unknown_batch() -> None:
    """Keras' Dense of three axes is a RESHAPE to a shape that is computed; the file has [1, 1]."""
    rng = np.random.default_rng(0)
    w, x = (rng.normal(0, 1, s).astype(np.float32) for s in ((5, 4), (1, 3, 4)))
    tensors = [
        T("x", x.shape, "float32"), T("rows", (1, 1), "float32"), T("sums", (1, 5), "float32"),
        T("y", (1, 3, 5), "float32"), T("w", w.shape, "float32", data=w),
        T("bias", (5,), "float32", data=np.zeros(5)),
    ]  # fmt: skip
    steps = [
        Op("RESHAPE", [0], [1]),
        Op("FULLY_CONNECTED", [1, 4, 5], [2], "FullyConnectedOptions"),
        Op("RESHAPE", [2], [3]),
    ]
    data = model(Sub(tensors, steps, [0], [3]))
    run = load_host(compile_modules([ModuleSpec(TFLite(data), "m")]), optimise="-O0")
    (y,) = run({"x": x}).values()
    np.testing.assert_allclose(y, x @ w.T, 1e-5, 1e-5)


SIZES = [(16,), (7, 32), (3, 1, 12), (2, 5, 6)]
LENGTHS = [(1, 16), (1, 8), (1, 60), (4, 2), (8, 9)]  # 2 and 9: without the fast steps


def spectrum(kind: str, shape: tuple[int, ...], lengths: tuple[int, int]) -> TFLite:
    """As tf.signal's converter writes tf.signal.rfft: reshaped before, and while it is complex."""
    image = (1, *shape) if len(shape) == 1 else shape
    whole = (*image[:-2], lengths[0], lengths[1] // 2 + 1)
    flat = (int(np.prod(whole)),)
    tensors = [
        T("x", shape, "float32"), T("image", image, "float32"),
        T("n", (2,), "int32", data=lengths), T("f", whole, "complex64"),
        T("g", flat, "complex64"), T("y", flat, "float32"),
    ]  # fmt: skip
    ops = [
        Op("RESHAPE", (0,), (1,)), Op("RFFT2D", (1, 2), (3,)), Op("RESHAPE", (3,), (4,)),
        Op(kind, (4,), (5,)),
    ]  # fmt: skip
    return TFLite(model(Sub(tensors, ops, (0,), (5,))))


@pytest.mark.parametrize("shape", SIZES)
def test_spectra(shape: tuple[int, ...]) -> None:
    """Rows and columns are cut, or zeros follow them."""
    x = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    parts = {"COMPLEX_ABS": np.abs, "REAL": np.real, "IMAG": np.imag}
    forms = [(kind, lengths) for k, lengths in enumerate(LENGTHS) for kind in [[*parts][k % 3]]]
    specs = [ModuleSpec(spectrum(k, shape, n), f"m{i}") for i, (k, n) in enumerate(forms)]
    for spec, (kind, lengths) in zip(specs, forms, strict=True):
        (got,) = load_host(compile_modules([spec]), optimise="-O0")({"x": x}).values()
        want = parts[kind](np.fft.rfft2(x if x.ndim > 1 else x[None], lengths)).reshape(-1)
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize(("radius", "beta"), [(0, 0.5), (2, 0.75), (7, 1.0)])
def test_local_response_normalization(radius: int, beta: float) -> None:
    """As TensorFlow and LiteRT's default kernels; its reference kernels leave out a channel."""
    x = T("", (2, 3, 2, 6), "float32")
    options = {"Radius": radius, "Alpha": 0.3, "Beta": beta, "Bias": 1.5}
    case = Case(
        "LOCAL_RESPONSE_NORMALIZATION", [x], [x], "LocalResponseNormalizationOptions", options
    )
    (made,), ((given,),) = results([case])
    near = [given[..., max(0, c - radius) : c + radius + 1] for c in range(6)]
    total = np.stack([(part.astype(np.float64) ** 2).sum(-1) for part in near], -1)
    np.testing.assert_allclose(made, given / (1.5 + 0.3 * total) ** beta, rtol=1e-5)
