"""ConvTranspose, LpPool, MaxPool with indices and MaxUnpool, in many forms, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from builders import Net
from cases import Case, Results

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError


def _ints(rng: np.random.Generator, low: int, high: int, n: int) -> list[int]:
    return [int(x) for x in rng.integers(low, high, n)]


def conv_transpose(seed: int) -> Case:
    """One to three spatial axes, groups, and every way to say how large the output is."""
    rng = np.random.default_rng(seed)
    rank, group = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    kernel, strides = _ints(rng, 1, 4, rank), _ints(rng, 1, 4, rank)
    dilations = _ints(rng, 1, 3, rank) if seed % 3 == 0 else [1] * rank
    spatial = _ints(rng, 2, 6, rank)
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": group}
    if seed % 5 == 1:
        attrs["auto_pad"] = ("SAME_UPPER", "SAME_LOWER", "VALID")[seed // 5 % 3]
    elif seed % 5 == 2:
        full = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(spatial, strides, kernel, dilations, strict=True)
        ]
        attrs["output_shape"] = [max(1, n - int(rng.integers(0, 3))) for n in full]
    elif seed % 5 == 3:
        attrs["pads"] = _ints(rng, 0, 2, 2 * rank)
        if all(s > 1 for s in strides):
            attrs["output_padding"] = _ints(rng, 0, 2, rank)
    ic, oc = group * int(rng.integers(1, 4)), int(rng.integers(1, 4))
    net = Net()
    x = net.input("x", np.float32, (int(rng.integers(1, 3)), ic, *spatial))
    if seed % 2:
        w = net.input("w", np.float32, (ic, oc, *kernel))
    else:
        w = net.const(rng.normal(size=(ic, oc, *kernel)), np.float32)
    bias = (net.const(rng.normal(size=group * oc), np.float32),) if seed % 4 > 1 else ()
    y = net.node("ConvTranspose", x, w, *bias, **attrs)
    y = net.node("Relu", y) if seed % 3 == 1 else y
    return Case(f"conv_transpose_{seed}", net.model(y), seed=seed)


def pool(op: str, seed: int, opset: int) -> Case:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kernel = _ints(rng, 1, 4, rank)
    attrs: dict[str, Any] = {"kernel_shape": kernel, "strides": _ints(rng, 1, 4, rank)}
    if seed % 2:
        attrs["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
    if op == "LpPool":
        attrs["p"] = 1 + seed % 3
    else:
        attrs["dilations"] = _ints(rng, 1, 3, rank)
        attrs["storage_order"] = seed // 2 % 2
    net = Net(opset)
    spatial = [
        (k - 1) * d + int(rng.integers(1, 6))
        for k, d in zip(kernel, attrs.get("dilations", [1] * rank), strict=True)
    ]
    x = net.input("x", np.float32, (int(rng.integers(1, 3)), 2, *spatial))
    y = net.node(op, x, **attrs)
    if op != "MaxPool":
        return Case(f"{op}_{seed}".lower(), net.model(y), seed=seed)
    net._nodes[-1].output.append("places")
    return Case(f"{op}_{seed}".lower(), net.model(y, "places"), seed=seed)


def global_lp_pool(p: int) -> Case:
    net = Net()
    y = net.node("GlobalLpPool", net.input("x", np.float32, (2, 3, 4, 5)), p=p)
    return Case(f"global_lp_pool_{p}", net.model(y))


def unpool(rank: int, window: int) -> Case:
    """What MaxPool took apart, put back where it was; of one element there is one place."""
    net = Net()
    x = net.input("x", np.float32, (1, 2, *[6] * rank) if window > 1 else (1, 1, *[1] * rank))
    y = net.node("MaxPool", x, kernel_shape=[window] * rank, strides=[window] * rank)
    net._nodes[-1].output.append("places")
    z = net.node("MaxUnpool", y, "places", kernel_shape=[window] * rank, strides=[window] * rank)
    return Case(f"unpool_{rank}_{window}", net.model(z))


def cases() -> Iterator[Case]:
    yield from map(conv_transpose, range(40))
    yield from (pool("LpPool", seed, 11) for seed in range(12))
    yield from (pool("MaxPool", seed, 12) for seed in range(12))
    yield from map(global_lp_pool, (1, 2, 3))
    yield from (unpool(rank, window) for rank in (1, 2, 3) for window in (1, 2))


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("spatial"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)


@pytest.mark.parametrize("p", [0, -3])
@pytest.mark.parametrize("op", ["LpPool", "GlobalLpPool"])
def test_what_is_no_norm(op: str, p: int) -> None:
    net = Net()
    attrs = {"kernel_shape": [2, 2]} if op == "LpPool" else {}
    model = net.model(net.node(op, net.input("x", np.float32, (1, 2, 4, 4)), p=p, **attrs))
    with pytest.raises(MlfError, match=f"p is {p}, for which there is no norm; expected 1 or more"):
        compile_module(ModuleSpec(model))
