"""Pooling, Softmax, and operators that move data, in float and between Q and DQ."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from batch import compile_model
from builders import Net
from cases import Case, Results
from oracle import session

from mlftool.errors import MlfError


def pool(op: str, dtype: Any, seed: int) -> Case:
    """One to three spatial axes; pads, ceil_mode, count_include_pad, dilations."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kernel = [int(k) for k in rng.integers(1, 4, rank)]
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    attrs["strides"] = [int(s) for s in rng.integers(1, 4, rank)]
    dilations = [int(d) for d in rng.integers(1, 3, rank)] if seed % 3 == 0 else [1] * rank
    if op == "MaxPool" and seed % 3 == 0 and seed % 4 != 1:
        attrs["dilations"] = dilations
    else:
        dilations = [1] * rank
    if seed % 4 == 1:
        attrs["auto_pad"] = ("SAME_UPPER", "SAME_LOWER", "VALID")[seed % 3]
        attrs.pop("dilations", None)
        # onnxruntime refuses the negative padding that a stride beyond the kernel asks for.
        attrs["strides"] = [min(s, k) for s, k in zip(attrs["strides"], kernel, strict=True)]
    elif seed % 2:
        attrs["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
    if "auto_pad" not in attrs:
        attrs["ceil_mode"] = int(rng.integers(2))
    if op == "AveragePool":
        attrs["count_include_pad"] = int(rng.integers(2))
    spatial = [
        int(rng.integers((k - 1) * d + 1, 9)) for k, d in zip(kernel, dilations, strict=True)
    ]
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 6)), *spatial)
    net = Net()
    x = net.input("x", dtype, shape)
    quantised = op == "AveragePool" and dtype != np.float32
    zero = np.asarray(9, dtype) if quantised else None
    if zero is not None:
        x = net.dq(x, 0.0513, zero)
    y = net.node(op, x, **attrs)
    if zero is not None:
        y = net.q(y, 0.0417, zero)
    elif dtype == np.float32 and seed % 2:
        y = net.node("Relu", y)
    # onnxruntime's integer kernel divides by the whole window where ceil_mode reaches beyond the
    # padding; its float kernel and the standard do not.
    beyond = attrs.get("ceil_mode") and attrs.get("count_include_pad")
    oracle = "float" if beyond else "integer"
    name = f"{op}_{np.dtype(dtype).name}_{seed}".lower()
    return Case(name, net.model(y), oracle, ties=quantised, seed=seed)


def global_pool(op: str, dtype: Any) -> Case:
    net = Net()
    x = net.input("x", dtype, (2, 3, 5, 4))
    if dtype != np.float32:
        x = net.dq(x, 0.05, np.asarray(9, dtype))
    y = net.node(op, x)
    if dtype != np.float32:
        y = net.q(y, 0.05, np.asarray(9, dtype))
    return Case(f"{op}_{np.dtype(dtype).name}".lower(), net.model(y), "integer")


def pool_of_nans(op: str) -> Case:
    """Windows of NaNs alone, and of none; test_wild_numbers.py has others."""
    net = Net()
    y = net.node(op, net.input("x", np.float32, (1, 16, 4, 4)), **_whole_windows(op))
    x = np.random.default_rng(8).normal(size=(1, 16, 4, 4)).astype(np.float32)
    x[:, ::2] = np.nan
    return Case(f"{op}-nan", net.model(y), feeds=[{"x": x}])


def _whole_windows(op: str) -> dict[str, list[int]]:
    return {} if op.startswith("Global") else {"kernel_shape": [2, 2], "strides": [2, 2]}


def pool_after(op: str) -> Case:
    """A unary operator before a pool is computed as the pool loads."""
    net = Net()
    x = net.input("x", np.float32, (1, 2, 6, 6))
    y = net.node("AveragePool", net.node(op, x), kernel_shape=[2, 2], strides=[2, 2])
    return Case(f"pool_after_{op}".lower(), net.model(y))


def softmax(shape: tuple[int, ...], axis: int, opset: int) -> Case:
    net = Net(opset)
    y = net.node("Softmax", net.input("x", np.float32, shape), axis=axis)
    return Case(f"softmax_{opset}_{'x'.join(map(str, shape))}_{axis}", net.model(y))


def softmax_default(opset: int) -> Case:
    net = Net(opset)
    y = net.node("Softmax", net.input("x", np.float32, (2, 3, 4)))
    return Case(f"softmax_{opset}_default", net.model(y))


def softmax_large() -> Case:
    net = Net()
    y = net.node("Softmax", net.input("x", np.float32, (3, 4)))
    x = np.array([[1e30, 0, -1e30, 5], [-200, -200, -200, -300], [88, 89, 90, 91]], np.float32)
    return Case("softmax_large", net.model(y), feeds=[{"x": x}])


def softmax_quantised(axis: int) -> Case:
    net = Net()
    x = net.dq(net.input("x", np.int8, (2, 3, 5)), 0.1, np.int8(4))
    y = net.q(net.node("Softmax", x, axis=axis), 1 / 256, np.int8(-128))
    return Case(f"softmax_quantised_{axis}", net.model(y), "float")


def softmax_then_scale(axis: int) -> Case:
    net = Net()
    y = net.node("Softmax", net.input("x", np.float32, (2, 3, 5)), axis=axis)
    y = net.node("Mul", y, net.const(np.arange(5), np.float32))
    return Case(f"softmax_scale_{axis}", net.model(y))


def transpose(
    shape: tuple[int, ...], perm: list[int] | None, dtype: Any, in_place: bool = False
) -> Case:
    net = Net()
    attrs = {} if perm is None else {"perm": perm}
    x = net.input("x", dtype, shape)
    if in_place:  # a tensor of the workspace, behind an operator that does not move into it
        x = net.node("CumSum", x, net.const(0, np.int32)) if dtype != np.int8 else x
    y = net.node("Transpose", x, **attrs)
    if in_place and dtype != np.int8:
        y = net.node("CumSum", y, net.const(1, np.int32))
    return Case(
        f"transpose_{'x'.join(map(str, shape))}_{perm}_{np.dtype(dtype).name}", net.model(y)
    )


def concat(shapes: list[tuple[int, ...]], axis: int, dtype: Any, constant: bool = False) -> Case:
    net = Net()
    names = [net.input(f"x{k}", dtype, s) for k, s in enumerate(shapes)]
    if constant:
        names.insert(1, net.const(np.full(shapes[0], 3), dtype))
    y = net.node("Concat", *names, axis=axis)
    return Case(f"concat_{len(names)}_{axis}_{np.dtype(dtype).name}_{constant}", net.model(y))


def concat_after_convs(quantised: bool) -> Case:
    """Branches joined along channels, whose transposes sink through the Concat."""
    rng = np.random.default_rng(5)
    net = Net()
    dtype = np.int8 if quantised else np.float32
    x = net.input("x", dtype, (1, 3, 5, 4))
    zero = np.int8(2)
    parts = []
    for k in (1, 2):
        a = net.dq(x, 0.05, zero) if quantised else x
        w = rng.integers(-90, 90, (k + 1, 3, 1, 1))
        if quantised:
            weights = net.dq(net.const(w, np.int8), 0.01, np.int8(0))
        else:
            weights = net.const(w / 90, np.float32)
        y = net.node("Conv", a, weights)
        parts.append(net.dq(net.q(y, 0.06, zero), 0.06, zero) if quantised else y)
    y = net.node("Concat", *parts, axis=1)
    y = net.q(y, 0.06, zero) if quantised else net.node("Relu", y)
    return Case(f"concat_after_convs_{quantised}", net.model(y), "integer")


def views(dtype: Any) -> Case:
    """Reshape, Flatten, Squeeze, Unsqueeze and Identity in a row, and an operator that computes."""
    net = Net()
    x = net.input("x", dtype, (2, 3, 1, 4))
    y = net.node("Squeeze", x, net.const([2], np.int64))
    y = net.node("Flatten", y, axis=1)
    y = net.node("Transpose", y, perm=[1, 0])
    y = net.node("Reshape", y, net.const([4, 0, -1] if dtype == np.int8 else [3, 8], np.int64))
    y = net.node("Identity", net.node("Unsqueeze", y, net.const([0], np.int64)))
    return Case(f"views_{np.dtype(dtype).name}", net.model(y))


def outputs(kind: str) -> Case:
    """Outputs that are inputs, constants, views of each other, or read again later."""
    net = Net()
    x = net.input("x", np.float32, (2, 3))
    if kind == "input":
        return Case("output_is_input", net.model(net.node("Identity", x)))
    if kind == "view_of_input":
        return Case("output_is_view", net.model(net.node("Flatten", x)))
    relu = net.node("Relu", x)
    flat = net.node("Reshape", relu, net.const([6], np.int64))
    if kind == "two_views":
        other = net.node("Reshape", relu, net.const([3, 2], np.int64))
        return Case("outputs_two_views", net.model(flat, other, relu))
    if kind == "read_again":
        return Case("output_read_again", net.model(flat, net.node("Neg", relu)))
    if kind == "constant":
        c = net.node("Identity", net.const([[1, 2], [3, 4]], np.float32))
        return Case("output_is_constant", net.model(c, relu))
    if kind == "constant_dq":
        c = net.dq(net.const([[1, 2], [3, 4]], np.int8), 0.5, np.int8(1))
        return Case("output_is_dequantised_constant", net.model(net.node("Transpose", c), relu))
    raise ValueError(kind)


def view_in_place() -> Case:
    """A Gemm reads one view of a buffer while its epilogue reads another: not in place."""
    rng = np.random.default_rng(0)
    net = Net()
    r = net.node("Relu", net.input("x", np.float32, (6, 4)))
    shape = net.const([3, 8], np.int64)
    a, b = net.node("Reshape", r, shape), net.node("Reshape", r, shape)
    y = net.node("Gemm", a, net.const(rng.normal(size=(8, 8)), np.float32))
    y = net.node("Neg", net.node("Add", y, b))
    return Case("view_in_place", net.model(net.node("Softmax", y)))


def cases() -> Iterator[Case]:
    for dtype in (np.float32, np.int8, np.uint8):
        yield from (pool("MaxPool", dtype, seed) for seed in range(24))
        yield from (pool("AveragePool", dtype, seed) for seed in range(24))
        yield global_pool("GlobalAveragePool", dtype)
        yield global_pool("GlobalMaxPool", dtype)
    yield from map(pool_of_nans, ("MaxPool", "GlobalMaxPool"))
    yield from map(pool_after, ("Sigmoid", "Relu", "HardSwish", "Exp"))
    for opset in (9, 11, 13, 21):
        yield from (softmax((2, 3, 4), axis, opset) for axis in (0, 1, 2))
        yield softmax_default(opset)
    yield softmax((2, 3, 4), -2, 21)
    yield softmax((2, 3, 4), -1, 11)
    yield softmax((2, 3, 4), -2, 11)
    yield softmax((7,), 0, 21)
    yield softmax((2, 3, 1), 1, 21)
    yield softmax_large()
    yield from map(softmax_quantised, (0, 1, 2))
    yield from map(softmax_then_scale, (1, 2))
    for dtype in (np.float32, np.int8, np.int64):
        yield transpose((2, 3, 4), None, dtype)
        yield transpose((2, 3, 4, 5), [0, 2, 3, 1], dtype)
        yield transpose((2, 3, 1, 5), [3, 2, 0, 1], dtype)
        yield transpose((1, 1, 1), [2, 0, 1], dtype)
        yield transpose((2, 2, 3, 2, 3), [4, 0, 1, 3, 2], dtype)
        # In place: each block of the first axis is moved within itself.
        yield transpose((5, 3, 4), [0, 2, 1], dtype, in_place=True)
        yield transpose((4, 3, 2, 8), [0, 2, 1, 3], dtype, in_place=True)
        yield transpose((6, 2, 3, 2, 6), [0, 3, 1, 2, 4], dtype, in_place=True)
        yield concat([(2, 3, 4), (2, 1, 4), (2, 5, 4)], 1, dtype)
        yield concat([(2, 3, 4), (4, 3, 4)], 0, dtype)
        yield concat([(2, 3, 4), (2, 3, 1)], -1, dtype)
        yield concat([(2, 3), (2, 3)], 1, dtype, constant=True)
        yield views(dtype)
    yield concat_after_convs(False)
    yield concat_after_convs(True)
    kinds = ("input", "view_of_input", "two_views", "read_again", "constant", "constant_dq")
    yield from map(outputs, kinds)
    yield view_in_place()


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("window"), selected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_oracle(case: Case, results: Results) -> None:
    results.check(case)


def test_places_have_the_shape_of_the_largest() -> None:
    """With ceil_mode a window that would start in the padding is dropped, in both outputs."""
    net = Net()
    x = net.input("x", np.float32, (1, 1, 3))
    net.node("MaxPool", x, kernel_shape=[2], pads=[0, 1], strides=[3], ceil_mode=1)
    model = net.model("maxpool_0", "places")
    model.graph.node[0].output.append("places")
    graph = compile_model(model).imported
    assert [graph.types[name].shape for name in graph.outputs] == [(1, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize("mode", ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_rounding_up_gives_the_extents_of_onnxruntime(op: str, mode: str) -> None:
    """onnx's own inference keeps windows that start past the input, and takes SAME for more."""
    for n, kernel, stride in itertools.product((3, 4, 5, 7), (1, 2, 3), (1, 2, 3, 4)):
        if mode.startswith("SAME") and kernel < stride:
            continue  # onnxruntime's MaxPool refuses some of these
        net = Net()
        x = net.input("x", np.float32, (1, 1, n))
        attrs = {"kernel_shape": [kernel], "strides": [stride], "auto_pad": mode}
        model = net.model(net.node(op, x, ceil_mode=1, **attrs))
        (expected,) = session(model, integer=False).run(None, {"x": np.ones((1, 1, n), np.float32)})
        graph = compile_model(model).imported
        assert graph.types[graph.outputs[0]].shape == expected.shape, (n, kernel, stride)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_same_padding_of_dilated_windows_is_refused(op: str) -> None:
    net = Net()
    x = net.input("x", np.float32, (1, 1, 7))
    attrs = {"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_UPPER"}
    with pytest.raises(MlfError, match="auto_pad SAME_UPPER with dilations"):
        compile_model(net.model(net.node(op, x, **attrs)))


# Extent, window, stride, padding on each side, dilation.
WIDE = ((2, 3, 1, 0, 1), (1, 3, 1, 0, 1), (2, 3, 2, 0, 1), (1, 3, 2, 0, 1), (1, 3, 5, 0, 1))
WIDE = (*WIDE, (3, 2, 1, 0, 4), (1, 4, 1, 1, 1), (3, 3, 4, 1, 3))

REFUSED = (-1,)


def shape_by_onnxruntime(model: Any, feed: dict[str, Any]) -> tuple[int, ...]:
    try:
        return tuple(session(model, integer=False).run(None, feed)[0].shape)
    except Exception as error:  # onnxruntime's have no class of their own
        return REFUSED if re.search("shape|dimension", str(error)) else ()


def shape_of(model: Any) -> tuple[int, ...]:
    try:
        graph = compile_model(model).imported
    except MlfError as error:
        return REFUSED if error.exit_code == 2 and len(error.problems) == 1 else ()
    return graph.types[graph.outputs[0]].shape


@pytest.mark.parametrize("op", ["Conv", "ConvInteger", "QLinearConv", "MaxPool", "AveragePool"])
@pytest.mark.parametrize(("n", "size", "stride", "pad", "dilation"), WIDE)
def test_windows_wider_than_the_image(
    op: str, n: int, size: int, stride: int, pad: int, dilation: int
) -> None:
    """Pools have onnxruntime's output; it refuses convolutions, whose output is empty here, or they
    are refused, too."""
    row = np.uint8 if op in ("ConvInteger", "QLinearConv") else np.float32
    net, geometry = Net(), {"strides": [stride], "pads": [pad, pad], "dilations": [dilation]}
    x, w = net.input("x", row, (1, 1, n)), net.const(np.ones((1, 1, size)), row)
    by = (net.const(0.5, np.float32), net.const(3, row))
    inputs = {"QLinearConv": (x, *by, w, *by, *by)}.get(op, (x, w))
    if op.endswith("Pool"):
        inputs, geometry = (x,), {**geometry, "kernel_shape": [size]}
    model = net.model(net.node(op, *inputs, **geometry))
    asked, ours = shape_by_onnxruntime(model, {"x": np.ones((1, 1, n), row)}), shape_of(model)
    assert ours == asked or (asked == REFUSED and ours == (1, 1, 0))
