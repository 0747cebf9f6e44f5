"""Operators that move elements, with random shapes, against onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net, random_array
from cases import Case, Results, compare

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
TYPES = (np.float32, np.int8, np.int64, np.float16, np.uint8, np.float64)


class Draft:
    """A model of one operator: inputs are named and given with their values, constants need not."""

    def __init__(self, seed: int, opset: int = 21) -> None:
        self.rng = np.random.default_rng(seed)
        self.seed, self.net, self.feed = seed, Net(opset), {}
        self.dtype = TYPES[seed % len(TYPES)]

    def shape(self, low: int = 1, high: int = 4) -> tuple[int, ...]:
        return tuple(int(n) for n in self.rng.integers(1, 6, self.rng.integers(low, high + 1)))

    def data(self, shape: tuple[int, ...], name: str = "x", dtype: Any = None) -> str:
        self.feed[name] = random_array(self.rng, dtype or self.dtype, shape)
        return self.net.input(name, dtype or self.dtype, shape)

    def given(self, name: str, value: Any, dtype: Any = np.int64) -> str:
        """An input with every odd seed, else a constant."""
        array = np.asarray(value, dtype)
        if self.seed % 2 == 0:
            return self.net.const(array)
        self.feed[name] = array
        return self.net.input(name, dtype, array.shape)

    def indices(self, n: int, shape: tuple[int, ...]) -> Array:
        return self.rng.integers(-n, n, shape)

    def case(
        self, op: str, y: str, shape: tuple[int, ...] | None = None, oracle: str = "reference"
    ) -> Case:
        model = self.net.model(y)
        if shape is not None:  # what is computed at run time leaves the shape to the model
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
            info = onnx.helper.make_tensor_value_info(y, kind, shape)
            model.graph.output[0].CopyFrom(info)
        name = f"{op}_{self.net.opset}_{self.seed}".lower()
        return Case(name, model, oracle, feeds=[self.feed])


def expand(d: Draft) -> Case:
    shape = d.shape()
    x = tuple(n if d.rng.integers(2) else 1 for n in shape)[d.rng.integers(len(shape)) :]
    return d.case("Expand", d.net.node("Expand", d.data(x), d.given("shape", shape)), shape)


def tile(d: Draft) -> Case:
    shape = d.shape()
    times = d.rng.integers(1, 4, len(shape))
    out = tuple(int(n) for n in np.array(shape) * times)
    return d.case("Tile", d.net.node("Tile", d.data(shape), d.given("times", times)), out)


def slice_(d: Draft) -> Case:
    shape = d.shape()
    axes = [int(a) for a in d.rng.permutation(len(shape))[: d.rng.integers(1, len(shape) + 1)]]
    steps = [int(s) for s in d.rng.choice([-2, -1, 1, 2, 3], len(axes))]
    starts = [int(d.rng.integers(-shape[a] - 1, shape[a] + 2)) for a in axes]
    ends = [int(d.rng.integers(-shape[a] - 2, shape[a] + 3)) for a in axes]
    out = list(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        out[axis] = len(range(shape[axis])[slice(start, end, step)])
        if out[axis] == 0:  # a tensor without elements is no case of the kernel
            starts[axes.index(axis)], ends[axes.index(axis)] = (0, 9) if step > 0 else (-1, -9)
            out[axis] = len(range(shape[axis])[:: abs(step)])
    signed = [a - len(shape) if d.rng.integers(2) else a for a in axes]
    values = {"starts": starts, "ends": ends, "axes": signed, "steps": steps}
    given = [d.given(name, value) for name, value in values.items()]
    return d.case("Slice", d.net.node("Slice", d.data(shape), *given), tuple(out))


def old_slice(d: Draft) -> Case:
    d.net = Net(9)
    y = d.net.node("Slice", d.data((4, 5)), starts=[1, -3], ends=[9, -1], axes=[0, 1])
    return d.case("Slice", y)


def pad(d: Draft) -> Case:
    d.dtype = TYPES[d.seed % 3]  # onnxruntime's
    mode = ("constant", "edge", "reflect", "wrap")[d.seed % 4]
    shape = tuple(n + 2 for n in d.shape(1, 3))
    before, after = (d.rng.integers(-1, 3, len(shape)) for _ in range(2))
    if mode != "constant":
        before, after = np.maximum(before, 0), np.maximum(after, 0)
    out = tuple(int(n) for n in np.array(shape) + before + after)
    pads = d.given("pads", [*before, *after])
    value = d.given("value", 3, d.dtype) if mode == "constant" and d.seed % 8 < 4 else ""
    y = d.net.node("Pad", d.data(shape), pads, value, mode=mode)
    return d.case("Pad", y, out, oracle="float")


def old_pad(d: Draft) -> Case:
    d.dtype, d.net = np.float32, Net(10)
    y = d.net.node("Pad", d.data((2, 3)), pads=[0, 1, 2, 0], value=1.5)
    return d.case("Pad", y)


def split(d: Draft) -> Case:
    shape = (3, 7, 2)
    axis = int(d.rng.integers(3))
    first = int(d.rng.integers(1, shape[axis]))
    parts = d.net.const([first, shape[axis] - first], np.int64)
    node = d.net.node("Split", d.data(shape), parts, axis=axis)
    d.net._nodes[-1].output.append(f"{node}_b")
    y = d.net.node("Concat", f"{node}_b", node, axis=axis)
    return d.case("Split", y)


def gather(d: Draft) -> Case:
    shape, axis = d.shape(), 0
    axis = int(d.rng.integers(-len(shape), len(shape)))
    indices = d.given("indices", d.indices(shape[axis], d.shape(0, 2)))
    return d.case("Gather", d.net.node("Gather", d.data(shape), indices, axis=axis))


def gather_elements(d: Draft) -> Case:
    shape = d.shape()
    axis = int(d.rng.integers(len(shape)))
    picked = tuple(int(d.rng.integers(1, n + 1)) for n in shape)
    indices = d.given("indices", d.indices(shape[axis], picked), (np.int64, np.int32)[d.seed % 2])
    y = d.net.node("GatherElements", d.data(shape), indices, axis=axis)
    return d.case("GatherElements", y, oracle="float")


def gather_nd(d: Draft) -> Case:
    shape = (2, 3, 4, 5)
    batch, count = int(d.rng.integers(3)), int(d.rng.integers(1, 3))
    picked = [d.indices(shape[batch + k], (*shape[:batch], 3)) for k in range(count)]
    indices = d.given("indices", np.stack(picked, axis=-1))
    return d.case("GatherND", d.net.node("GatherND", d.data(shape), indices, batch_dims=batch))


def gather_scalar(d: Draft) -> Case:
    """One index of a vector's one axis: onnx's inference leaves the shape of the result open."""
    d.dtype = np.float32
    picked = d.net.node("GatherND", d.data((5,)), d.given("indices", [-2]))
    return d.case("GatherND_scalar", d.net.node("Mul", picked, d.data((3, 1), "factor")))


def scatter_elements(d: Draft) -> Case:
    shape, axis = (3, 4, 5), int(d.rng.integers(-3, 3))
    reduction = ("none", "add", "mul", "min", "max")[d.seed % 5]
    d.dtype = np.float32 if reduction in ("add", "mul") else d.dtype  # of integers: overflows
    order = np.stack([d.rng.permutation(shape[axis])[:2] for _ in range(60 // shape[axis])])
    other = [n for k, n in enumerate(shape) if k != axis % 3]
    where = np.moveaxis(order.reshape(*other, 2), -1, axis)
    where = where - shape[axis] * d.rng.integers(0, 2, where.shape)
    indices, updates = d.given("indices", where), d.data(where.shape, "updates")
    y = d.net.node(
        "ScatterElements", d.data(shape), indices, updates, axis=axis, reduction=reduction
    )
    return d.case("ScatterElements", y)


def scatter_nd(d: Draft) -> Case:
    shape, count = (3, 4, 5), int(d.rng.integers(1, 4))
    reduction = ("none", "add", "mul", "min", "max")[d.seed % 5]
    d.dtype = np.float32 if reduction in ("add", "mul") else d.dtype
    rows = d.rng.permutation(int(np.prod(shape[:count])))[:3]
    where = np.stack(np.unravel_index(rows, shape[:count]), axis=-1)
    indices = d.given("indices", where - np.array(shape[:count]) * (d.seed % 2))
    updates = d.data((3, *shape[count:]), "updates")
    return d.case("ScatterND", d.net.node("ScatterND", d.data(shape), indices, updates,
                                          reduction=reduction))  # fmt: skip


def reverse_sequence(d: Draft) -> Case:
    time = d.seed % 2
    lengths = d.given("lengths", d.rng.integers(0, 5, 3))
    x = d.data((4, 3, 2) if time == 0 else (3, 4, 2))
    return d.case("ReverseSequence", d.net.node("ReverseSequence", x, lengths, time_axis=time,
                                                batch_axis=1 - time))  # fmt: skip


def trilu(d: Draft) -> Case:
    k = d.given("k", int(d.rng.integers(-4, 5)))
    return d.case("Trilu", d.net.node("Trilu", d.data((2, 3, 4)), k, upper=d.seed // 2 % 2))


def one_hot(d: Draft) -> Case:
    shape = d.shape(1, 2)
    d.feed["indices"] = d.rng.integers(-7, 7, shape)
    indices, values = d.net.input("indices", np.int64, shape), d.given("values", [2, 5], d.dtype)
    axis = int(d.rng.integers(-1, len(shape) + 1))
    return d.case("OneHot", d.net.node("OneHot", indices, d.net.const(5), values, axis=axis))


def center_crop_pad(d: Draft) -> Case:
    y = d.net.node("CenterCropPad", d.data((7, 4, 3)), d.net.const([3, 6]), axes=[0, 1])
    return d.case("CenterCropPad", y)


def col2im(d: Draft) -> Case:
    d.dtype = np.float32
    strides, pads = [1 + d.seed % 2, 1], [0, 1, 1, 0] if d.seed % 3 else [0] * 4
    steps = [(5 + pads[k] + pads[k + 2] - 2) // strides[k] + 1 for k in range(2)]
    x = d.data((2, 3 * 4, steps[0] * steps[1]))
    block = d.given("block", [2, 2])
    y = d.net.node("Col2Im", x, d.net.const([5, 5]), block, strides=strides, pads=pads)
    return d.case("Col2Im", y, (2, 3, 5, 5))


MAKERS: tuple[Callable[[Draft], Case], ...] = (
    expand, tile, slice_, pad, gather, gather_elements, gather_nd, scatter_elements, scatter_nd,
    reverse_sequence, trilu, one_hot, col2im,
)  # fmt: skip


def cases() -> Iterator[Case]:
    for maker in MAKERS:
        yield from (maker(Draft(seed)) for seed in range(12))
    yield from (maker(Draft(0)) for maker in (old_slice, old_pad, center_crop_pad))
    yield from (split(Draft(seed)) for seed in range(4))
    yield from (gather_scalar(Draft(seed)) for seed in range(2))


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results((*CASES, *BEYOND, *QUANTISED), tmp_path_factory.mktemp("movement"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_reference(case: Case, results: Results) -> None:
    results.check(case)


def quantised(op: str) -> Case:
    """DQ, movement, Q with one scale: elements are moved as they are stored."""
    net = Net()
    x = net.dq(net.input("x", np.int8, (3, 4)), 0.05, np.int8(7))
    rest = {
        "Gather": net.const([[2, 0], [1, -1]]),
        "Slice": net.const([1]),
        "Expand": net.const([2, 3, 4]),
        "Tile": net.const([2, 1]),
        "Trilu": "",
    }[op]
    more = [net.const([3])] if op == "Slice" else []
    y = net.node(op, x, *([rest] if rest else []), *more)
    return Case(f"quantised_{op}".lower(), net.model(net.q(y, 0.05, np.int8(7))), "integer")


QUANTISED = tuple(map(quantised, ("Gather", "Slice", "Expand", "Tile", "Trilu")))


@pytest.mark.parametrize("case", QUANTISED, ids=lambda c: c.name)
def test_quantised_elements_move_as_they_are(case: Case, results: Results) -> None:
    results.check(case)
    module = results.job(case).module
    assert module is not None
    kinds = {call.node.op for call in module.program.calls}
    # What Trilu leaves is a zero, which is not stored as a zero: it is computed in float.
    assert ("DequantizeLinear" in kinds) == (case.name == "quantised_trilu"), kinds


def _beyond(op: str, *rest: tuple[str, Array]) -> Case:
    """Indexes far outside of their axis, some of which do not fit in 32 bits."""
    net = Net()
    feed = {"x": np.arange(12, dtype=np.float32).reshape(3, 4), **dict(rest)}
    names = [net.input(name, value.dtype, value.shape) for name, value in feed.items()]
    return Case(f"beyond_{op}".lower(), net.model(net.node(op, *names)), feeds=[feed])


FAR = np.array([[2**40, -(2**40), 1, 5]], np.int64)
BEYOND = (
    _beyond("Gather", ("i", FAR)),
    _beyond("GatherElements", ("i", FAR)),
    _beyond("GatherND", ("i", FAR.reshape(2, 2))),
    _beyond("ScatterElements", ("i", FAR), ("u", np.full((1, 4), -1, np.float32))),
    _beyond("ScatterND", ("i", FAR.reshape(2, 2)), ("u", np.array([-1, -2], np.float32))),
)


@pytest.mark.parametrize("case", BEYOND, ids=lambda c: c.name)
def test_wrong_indexes_become_the_nearest_end(case: Case, results: Results) -> None:
    job = results.job(case)
    assert not job.failure, job.failure
    (feed,) = case.inputs()
    x = feed["x"]
    (got,) = job.results[0].values()
    rows = np.array([2, 0, 1, 2])
    pairs = ([2, 1], [0, 3])
    want = x.copy()
    if case.name.endswith("scatterelements"):
        want[rows, np.arange(4)] = -1
    elif case.name.endswith("scatternd"):
        want[pairs] = [-1, -2]
    elif case.name.endswith("gathernd"):
        want = x[pairs]
    elif case.name.endswith("gatherelements"):
        want = x[rows, np.arange(4)].reshape(1, 4)
    else:
        want = x[rows].reshape(1, 4, 4)
    compare(got, want, case.name)
