"""Networks beside the border of what passes may rewrite: alike but for an axis, a type or a limit.
Their numbers are those without the passes and, but for float16, onnxruntime's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from batch import Job, build_jobs
from builders import Net, random_feeds
from oracle import assert_equals_onnxruntime

from mlftool.compile import ModuleSpec, compile_module

Case = Callable[[Net], str]
ROI = np.float32([0, 0, -0.2, 0.1, 1, 1, 1.3, 1.4])


def crop(net: Net, x: str, value: float) -> str:
    attrs = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": value}
    return net.node("Resize", x, net.const(ROI), net.const(np.float32([1, 1, 2, 2])), **attrs)


def crop_of(kind: Any, value: float) -> Case:
    """What lies beyond the image is a number of the floats, or of the tensor's type."""
    return lambda net: crop(net, net.input("x", kind, (1, 2, 3, 4)), value)


def crop_between(before: bool, after: bool) -> Case:
    def made(net: Net) -> str:
        x = net.input("x", np.uint8 if before else np.float32, (1, 2, 3, 4))
        y = crop(net, net.dq(x, 0.25, np.uint8(7)) if before else x, 0.3)
        return net.q(y, 0.25, np.uint8(7)) if after else y

    return made


def crop_between_sums(net: Net) -> str:
    """Whose uint8 is int8 inside the network."""

    def summed(x: str) -> str:
        w = net.dq(net.const(np.ones((2, 2, 1, 1)), np.uint8), 0.5, np.uint8(0))
        y = net.node("Conv", net.dq(x, 0.25, np.uint8(128)), w)
        return net.q(y, 0.5, np.uint8(128))

    return summed(crop(net, summed(net.input("x", np.uint8, (1, 2, 3, 4))), 3.0))


def again(kind: Any, real: Any, scale: float) -> Case:
    """A QuantizeLinear of what has just been dequantised, in a type of few digits."""

    def made(net: Net) -> str:
        x = net.input("x", kind, (64,))
        s, zero = net.const(scale, real), net.const(kind(0))
        return net.node("QuantizeLinear", net.node("DequantizeLinear", x, s, zero), s, zero)

    return made


def greatest(net: Net) -> str:
    """Of different integers that are one float."""
    return net.node("ArgMax", net.dq(net.input("x", np.int32, (64,)), 1.25, np.int32(0)), axis=0)


def rounded_quotient(summed: bool) -> Case:
    """In a type that nothing else has, which needs a header of its own."""

    def made(net: Net) -> str:
        scale, zero = net.const(0.001, np.float32), net.const(np.int16(3))
        x = net.input("x", np.int8 if summed else np.float32, (4, 4))
        if summed:
            w = net.dq(net.const(np.eye(4), np.int8), 0.125, np.int8(0))
            y = net.node("MatMul", net.dq(x, 0.75, np.int8(3)), w)
        else:
            y = net.node("Relu", x)
        return net.node("QuantizeLinear", y, scale, zero, precision=onnx.TensorProto.FLOAT16)

    return made


def huge_table(net: Net) -> str:
    """Of floats that are infinite, divided by a scale of their size."""
    x = net.dq(net.input("x", np.uint8, (64,)), 1e37, np.uint8(0))
    return net.q(net.node("Add", x, net.const(np.float32(-1))), 1e37, np.uint8(0))


def infinite_table(net: Net) -> str:
    """A table of which some entries are infinite before they are quantised."""
    scale, zero = net.const(0.25, np.float16), net.const(np.int8(3))
    x = net.node("DequantizeLinear", net.input("x", np.int8, (64,)), scale)
    return net.node("QuantizeLinear", net.node("Exp", x), scale, zero)


def vector(rows: bool) -> Case:
    """Scales along the axis that is summed over."""

    def made(net: Net) -> str:
        x = net.dq(net.input("x", np.int8, (4,) if rows else (3, 4)), 0.5, np.int8(3))
        scales, zeros = np.float32([0.25, 0.5, 1, 2]), np.zeros(4, np.int8)
        stored = net.const(np.arange(8 if rows else 4).reshape((4, 2) if rows else (4,)), np.int8)
        return net.q(net.node("MatMul", x, net.dq(stored, scales, zeros, 0)), 8.0, np.int8(0))

    return made


def limited(*limits: tuple[float, float]) -> Case:
    """Clips one after the other; in one, max wins over min."""

    def made(net: Net) -> str:
        x = net.dq(net.input("x", np.int8, (3, 4)), 0.125, np.int8(3))
        w = net.dq(net.const(np.eye(4, 5), np.int8), 0.5, np.int8(0))
        y = net.node("MatMul", x, w)
        for low, high in limits:
            y = net.node("Clip", y, net.const(np.float32(low)), net.const(np.float32(high)))
        return net.q(y, 0.25, np.int8(0))

    return made


def large_window(net: Net) -> str:
    """Whose sum of 16-bit integers is no int32."""
    x = net.dq(net.input("x", np.uint16, (1, 1, 70000)), 1e-3, np.uint16(5))
    return net.q(net.node("GlobalAveragePool", x), 0.3, np.uint8(0))


EXACT: dict[str, Case] = {
    "crop of float32": crop_of(np.float32, 0.3),
    "crop of uint8": crop_of(np.uint8, 3.0),
    "crop of float16": crop_of(np.float16, 0.3),
    "crop between sums": crop_between_sums,
    "crop after DQ": crop_between(True, False),
    "crop before Q": crop_between(False, True),
    "crop between": crop_between(True, True),
    "greatest of int32": greatest,
    "scales of rows": vector(True),
    "scales of a vector": vector(False),
    "huge table": huge_table,
    "large window": large_window,
    "limits crossed": limited((0.5, -0.5), (0, 6)),
    "limits crossed last": limited((0, 6), (0.5, -0.5)),
    "limits apart": limited((0, 1), (2, 3)),
    "limits within": limited((-4, 4), (-1, 6)),
}
HALVES: dict[str, Case] = {
    "int16 again": again(np.int16, np.float16, 0.1),
    "uint16 again": again(np.uint16, np.float16, 0.037),
    "int8 again": again(np.int8, np.float16, 0.1),
    "int8 beyond float16": again(np.int8, np.float16, 600),
    "infinite table": infinite_table,
    "rounded quotient": rounded_quotient(False),
    "rounded quotient of a sum": rounded_quotient(True),
}


def equal() -> list[dict[str, Any]]:
    """Integers of which the first two are one float, the second the greater."""
    x = np.zeros(64, np.int32)
    x[3:5] = (1 << 25, (1 << 25) + 1)
    return [{"x": x}]


FEEDS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "greatest of int32": equal,
    "large window": lambda: [{"x": np.full((1, 1, 70000), 65535, np.uint16)}],
}


def test_passes_keep_the_numbers(tmp_path: Path) -> None:
    jobs: dict[str, tuple[Job, Job]] = {}
    for k, (name, case) in enumerate({**EXACT, **HALVES}.items()):
        net = Net(23)
        model = net.model(case(net))
        feeds = FEEDS[name]() if name in FEEDS else random_feeds(model, k)
        jobs[name] = (compiled(model, feeds, f"m{k}", 3), compiled(model, feeds, f"plain{k}", 0))
    build_jobs([job for pair in jobs.values() for job in pair], tmp_path)
    for name, (job, plain) in jobs.items():
        assert (job.failure, plain.failure) == ("", ""), name
        for got, want in zip(job.results, plain.results, strict=True):
            np.testing.assert_equal(got, want, name)
        if name in EXACT:
            assert_equals_onnxruntime(job.model, job.feeds, job.results)


def compiled(model: onnx.ModelProto, feeds: Any, name: str, level: int) -> Job:
    module = compile_module(ModuleSpec(model, name, opt_level=level))
    return Job(model, feeds, name=name, module=module)
