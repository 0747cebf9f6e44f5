"""Conv and Gemm: random geometries in float and in every quantised form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from builders import Array, Net
from cases import Case, Results

FLOAT, INTEGER = 36, 60


def conv_geometry(rng: np.random.Generator, rank: int, depthwise: bool) -> dict[str, Any]:
    """A convolution that fits its input: shapes, strides, pads, dilations, groups."""
    pick = rng.integers
    kernel = [int(pick(1, 5 if rank < 3 else 3)) for _ in range(rank)]
    dilations = [int(pick(1, 4)) if pick(3) == 0 else 1 for _ in range(rank)]
    strides = [int(pick(1, 4)) if pick(2) else 1 for _ in range(rank)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    top = {1: 40, 2: 12, 3: 6}[rank]
    spatial = [int(pick(max(1, r - 2), max(r, top) + 1)) for r in reach]
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations, "kernel_shape": kernel}
    mode = ["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"][int(pick(5))]
    fits = all(n >= r for n, r in zip(spatial, reach, strict=True))
    if (mode == "VALID" and fits) or (mode.startswith("SAME") and max(dilations) == 1):
        attrs["auto_pad"] = mode
    else:
        before = [int(pick(0, k + 1)) for k in kernel]
        after = [int(pick(0, k + 2)) for k in kernel]
        after = [
            max(a, r - n - b) for a, r, n, b in zip(after, reach, spatial, before, strict=True)
        ]
        attrs["pads"] = before + after
    if depthwise:
        channels = int(pick(2, 20))
        multiplier = 1 if pick(4) else int(pick(2, 4))
        group, ic, oc = channels, channels, channels * multiplier
    else:
        group = int(pick(2, 4)) if pick(4) == 0 else 1
        ic, oc = group * int(pick(1, 9)), group * int(pick(1, 9))
        if pick(5) == 0:
            ic = group * int(pick(60, 90))
    batch = 2 if pick(4) == 0 else 1
    return {"x": (batch, ic, *spatial), "w": (oc, ic // group, *kernel), "attrs": attrs} | {
        "group": group
    }


def activation(net: Net, rng: np.random.Generator, x: str) -> str:
    choice = int(rng.integers(4))
    if choice == 1:
        return net.node("Relu", x)
    if choice == 2:
        return net.node("Clip", x, net.const(np.float32(0)), net.const(np.float32(1.25)))
    if choice == 3:
        return net.node("Clip", x, "", net.const(np.float32(0.7)))
    return x


def float_conv(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    g = conv_geometry(rng, int(rng.integers(1, 4)), bool(rng.integers(2)))
    net = Net()
    depth = int(np.prod(g["w"][1:]))
    w = (rng.normal(size=g["w"]) / np.sqrt(depth)).astype(np.float32)
    args = [net.input("x", np.float32, g["x"]), net.const(w)]
    if rng.integers(2):
        args.append(net.const(rng.normal(size=g["w"][0]), np.float32))
    y = net.node("Conv", *args, group=g["group"], **g["attrs"])
    return Case(f"conv_f32_{seed}", net.model(activation(net, rng, y)), seed=seed)


def float_gemm(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    m, k, n = (int(rng.integers(1, high)) for high in (6, 700 if seed % 2 else 40, 19))
    ta, tb = int(rng.integers(2)), int(rng.integers(2))
    net = Net()
    x = net.input("x", np.float32, (k, m) if ta else (m, k))
    w = (rng.normal(size=(n, k) if tb else (k, n)) / np.sqrt(k)).astype(np.float32)
    shapes: list[tuple[int, ...]] = [(n,), (1, n), (m, n), (m, 1), (1,), (), (1, 1)]
    args = [x, net.const(w)]
    if seed % 4:
        args.append(net.const(rng.normal(size=shapes[seed % len(shapes)]), np.float32))
    factors = {"alpha": 0.5, "beta": -1.5} if rng.integers(2) else {}
    y = net.node("Gemm", *args, transA=ta, transB=tb, **factors)
    return Case(f"gemm_f32_{seed}", net.model(activation(net, rng, y)), seed=seed)


def float_matmul(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 30)), int(rng.integers(1, 9))
    shape = [(4, k), (2, 3, k), (1, 5, k), (2, 2, 3, k)][seed % 4]
    net = Net()
    x = net.input("x", np.float32, shape)
    y = net.node("MatMul", x, net.const(rng.normal(size=(k, n)) / np.sqrt(k), np.float32))
    if seed % 3:
        y = net.node("Add", y, net.const(rng.normal(size=[(n,), (1, n)][seed % 2]), np.float32))
    return Case(f"matmul_f32_{seed}", net.model(y), seed=seed)


def quantisation(rng: np.random.Generator, dtype: Any) -> tuple[np.float32, Array]:
    """Scale and zero point of an activation."""
    info = np.iinfo(dtype)
    return np.float32(rng.uniform(0.01, 0.1)), np.asarray(
        rng.integers(info.min, info.max + 1), dtype
    )


def weights(
    net: Net, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, axis: int, mode: int
) -> tuple[str, Array]:
    """DequantizeLinear of random weights, and their scale. mode 1: per channel; 2: zero points."""
    info = np.iinfo(dtype)
    w = rng.integers(info.min, info.max + 1, size=shape).astype(dtype)
    middle = 128 if dtype == np.uint8 else 0
    if mode % 2:
        scale = rng.uniform(0.001, 0.02, size=shape[axis]).astype(np.float32)
        zero = np.full(shape[axis], middle, dtype)
        if mode > 1:
            zero = (zero.astype(int) + rng.integers(-5, 6, size=shape[axis])).astype(dtype)
    else:
        scale = np.asarray(rng.uniform(0.001, 0.02), np.float32)
        zero = np.asarray(middle + (3 if mode > 1 else 0), dtype)
    return net.dq(net.const(w), scale, zero, axis), scale


def bias(net: Net, rng: np.random.Generator, n: int, unit: Array) -> str:
    b = rng.integers(-4000, 4000, size=n).astype(np.int32)
    unit = np.broadcast_to(np.asarray(unit, np.float32).reshape(-1), (n,))
    return net.dq(net.const(b), unit, np.zeros(n, np.int32), 0)


def signs(seed: int) -> tuple[Any, Any, int]:
    """Types of activation and weights that onnxruntime computes in integers, and weight mode."""
    x, w = [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)][seed % 3]
    return x, w, (seed // 3) % (2 if w == np.int8 else 4)


def quantised_conv(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    xt, wt, mode = signs(seed)
    g = conv_geometry(rng, int(rng.integers(1, 4)) if seed % 4 else 2, bool(rng.integers(2)))
    net = Net()
    x_scale, x_zero = quantisation(rng, xt)
    x = net.dq(net.input("x", xt, g["x"]), x_scale, x_zero)
    w, w_scale = weights(net, rng, g["w"], wt, 0, mode)
    args = [x, w]
    if rng.integers(3):
        args.append(bias(net, rng, g["w"][0], x_scale * w_scale))
    y = activation(net, rng, net.node("Conv", *args, group=g["group"], **g["attrs"]))
    depth = float(np.prod(g["w"][1:]))
    scale = np.float32(np.mean(w_scale) * x_scale * 75 * 75 * np.sqrt(depth) / 50)
    y = net.q(y, scale, quantisation(rng, xt)[1])
    name = f"conv_{np.dtype(xt).name}_{np.dtype(wt).name}_{mode}_{seed}"
    return Case(name, net.model(y), "integer", xt == wt == np.int8, seed=seed)


def quantised_gemm(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    xt, wt, mode = signs(seed)
    m = 1 if seed % 2 else int(rng.integers(1, 5))
    k, n = int(rng.integers(1, 400)), int(rng.integers(1, 20))
    tb = int(rng.integers(2))
    net = Net()
    x_scale, x_zero = quantisation(rng, xt)
    x = net.dq(net.input("x", xt, (m, k)), x_scale, x_zero)
    axis = 0 if tb else 1
    w, w_scale = weights(net, rng, (n, k) if tb else (k, n), wt, axis, mode)
    y = net.node("Gemm", x, w, bias(net, rng, n, x_scale * w_scale), transB=tb)
    scale = np.float32(np.mean(w_scale) * x_scale * 75 * 75 * np.sqrt(k) / 50)
    y = net.q(y, scale, quantisation(rng, xt)[1])
    name = f"gemm_{np.dtype(xt).name}_{np.dtype(wt).name}_{mode}_{seed}"
    return Case(name, net.model(y), "integer", xt == wt == np.int8, seed=seed)


def residual(seed: int) -> Case:
    """Two convolutions of one input, added: the Add becomes an epilogue of one of them."""
    rng = np.random.default_rng(seed)
    net, n, c = Net(), int(rng.integers(3, 8)), int(rng.integers(1, 9))
    x_scale, x_zero = quantisation(rng, np.int8)
    xq = net.input("x", np.int8, (1, c, n, n))
    branches = []
    for k in (3, 1):
        w, w_scale = weights(net, rng, (c, c, k, k), np.int8, 0, 1)
        args = (net.dq(xq, x_scale, x_zero), w, bias(net, rng, c, x_scale * w_scale))
        y = net.node("Conv", *args, pads=[k // 2] * 4)
        scale = np.float32(0.01 * x_scale * 75 * 75 * np.sqrt(c * k * k) / 50)
        zero = quantisation(rng, np.int8)[1]
        branches.append(net.dq(net.q(y, scale, zero), scale, zero))
    y = net.node("Add", *branches[:: 1 if seed % 2 else -1])
    y = net.node("Relu", y) if seed % 3 else y
    y = net.q(y, scale, np.int8(-10))
    return Case(f"residual_{seed}", net.model(y), "float", True, seed=seed)


def cases() -> Iterator[Case]:
    yield from map(float_conv, range(FLOAT))
    yield from map(float_gemm, range(21))
    yield from map(float_matmul, range(8))
    yield from map(quantised_conv, range(INTEGER))
    yield from map(quantised_gemm, range(24))
    yield from map(residual, range(4))


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("contract"), selected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_oracle(case: Case, results: Results) -> None:
    results.check(case)
