"""onnxruntime's quantised and attention operators that test_microsoft.py does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from builders import random_array
from cases import Case, Results
from test_microsoft import Bench

BYTES = (np.int8, np.uint8)


def numbers(seed: int, *shape: int, size: float = 1.0) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(seed).normal(size=shape) * size).astype(np.float32)


def convert(dtype: Any) -> Case:
    """QuantizeLinear and DequantizeLinear of the domain, which has had 16 bits for long."""
    net = Bench()
    by = net.by(0.003, 40, dtype)
    stored = net.ms("QuantizeLinear", net.input("x", np.float32, (3, 40)), *by)
    value = net.ms("DequantizeLinear", stored, *by)
    return Case(f"convert_{np.dtype(dtype)}", net.model(stored, value))


def convert_channels() -> Case:
    net = Bench()
    by = net.const([0.02, 0.03, 0.5], np.float32), net.const([1, -2, 3], np.int8)
    x = net.ms("QuantizeLinear", net.input("x", np.float32, (2, 3, 4)), *by, axis=1)
    return Case("convert_channels", net.model(net.ms("DequantizeLinear", x, *by, axis=1)))


def where(dtype: Any) -> Case:
    net = Bench()
    condition = net.input("condition", np.bool_, (2, 3))
    x, y = net.quantised("x", (2, 3), dtype), net.quantised("y", (2, 3), dtype)
    z = net.ms(
        "QLinearWhere", condition, *x, y[0], *net.by(0.08, 2, dtype), *net.by(0.06, 5, dtype)
    )
    return Case(f"where_{np.dtype(dtype)}", net.model(z), "near")


def nhwc_conv(dtype: Any) -> Case:
    net = Bench()
    w = net.const(np.random.default_rng(3).integers(-99, 99, (6, 4, 3, 3)), np.int8)
    x, y = net.quantised("x", (1, 5, 6, 4), dtype), net.by(0.5, 2, dtype)
    value = net.ms("QLinearConv", *x, w, *net.by(0.02, 0, np.int8), *y, channels_last=1)
    return Case(f"nhwc_conv_{np.dtype(dtype)}", net.model(value))


def nhwc_pool() -> Case:
    net = Bench()
    x = net.input("x", np.int8, (1, 5, 6, 4))
    return Case("nhwc_pool", net.model(net.ms("NhwcMaxPool", x, kernel_shape=[2, 2])))


def to_float(dtype: Any, columns: bool) -> Case:
    net, rng = Bench(), np.random.default_rng(4)
    x = net.input("x", dtype, (2, 3, 8))
    w = net.const(rng.integers(-99, 99, (8, 5)), np.int8)
    scale = rng.uniform(0.01, 0.02, 5) if columns else 0.013
    rest = net.const(dtype(9)), "", net.const(numbers(5, 5))
    scales = net.const(0.05, np.float32), net.const(scale, np.float32)
    y = net.ms("MatMulIntegerToFloat", x, w, *scales, *rest)
    return Case(f"to_float_{np.dtype(dtype)}_{columns}", net.model(y))


def of_either_sign(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Scales of symmetric blocks, as onnxruntime's quantiser gives them; of zeros it is zero."""
    scales = rng.uniform(0.01, 0.02, shape) * rng.choice([-1, 1], shape)
    scales.flat[1] = 0
    return scales


def bits(k: int, block: int, zero: bool, width: int = 4) -> Case:
    net, rng, n = Bench(), np.random.default_rng(6), 5
    blocks = -(-k // block)
    packed = net.const(rng.integers(0, 256, (n, blocks, block * width // 8)), np.uint8)
    scales = net.const(of_either_sign(rng, (n * blocks,)), np.float32)
    count = n * -(-blocks * width // 8)
    zeros = (net.const(rng.integers(0, 256, count), np.uint8),) if zero else ()
    attrs = {"K": k, "N": n, "bits": width, "block_size": block}
    y = net.ms(
        "MatMulNBits", net.input("x", np.float32, (2, 3, k)), packed, scales, *zeros, **attrs
    )
    return Case(f"bits_{k}_{block}_{zero}_{width}", net.model(y))


def loose_bits(k: int, block: int, groups: bool) -> Case:
    """With zero points that are no integers, and rows that name the block each is of."""
    net, rng, n = Bench(), np.random.default_rng(6), 5
    blocks = -(-k // block)
    packed = net.const(rng.integers(0, 256, (n, blocks, block // 2)), np.uint8)
    scales = net.const(of_either_sign(rng, (n, blocks)), np.float32)
    zeros = net.const(rng.uniform(6, 9, (n, blocks)), np.float32)
    of = (net.const(rng.integers(0, blocks, k), np.int32),) if groups else ()
    x, attrs = net.input("x", np.float32, (2, 3, k)), {"K": k, "N": n, "bits": 4}
    y = net.ms("MatMulNBits", x, packed, scales, zeros, *of, block_size=block, **attrs)
    return Case(f"loose_bits_{k}_{block}_{groups}", net.model(y))


def bnb4(k: int, n: int, block: int, kind: int) -> Case:
    net, rng = Bench(), np.random.default_rng(6)
    packed = net.const(rng.integers(0, 256, -(-n * k // 2)), np.uint8)
    scales = net.const(rng.uniform(0.1, 0.3, -(-n * k // block)), np.float32)
    attrs = {"K": k, "N": n, "block_size": block, "quant_type": kind}
    y = net.ms("MatMulBnb4", net.input("x", np.float32, (2, 3, k)), packed, scales, **attrs)
    return Case(f"bnb4_{k}_{n}_{block}_{kind}", net.model(y))


def gathered(width: int, zero: bool, columns: int) -> Case:
    net, rng = Bench(), np.random.default_rng(7)
    blocks = columns // 16
    table = net.const(rng.integers(0, 256, (9, columns * width // 8)), np.uint8)
    scales = net.const(of_either_sign(rng, (9, blocks)), np.float32)
    points = rng.integers(0, 256, (9, -(-blocks * width // 8)))
    zeros = (net.const(points, np.uint8),) if zero else ()
    rows = net.const([[4, 0], [8, 3]], np.int64)
    attrs = {"bits": width, "block_size": 16, "quantize_axis": 1}
    y = net.ms("GatherBlockQuantized", table, rows, scales, *zeros, **attrs)
    x = net.input("x", np.float32, (2, 2, columns))
    return Case(f"gathered_{width}_{zero}_{columns}", net.model(net.node("Add", y, x)))


def attention(name: str, mask: Any = None, past: bool = False, **attrs: Any) -> Case:
    net = Bench()
    x = net.input("x", np.float32, (2, 4, 6))
    w, b = net.const(numbers(8, 6, 18, size=0.4)), net.const(numbers(9, 18, size=0.1))
    inputs = [x, w, b, net.const(mask, np.int32) if mask is not None else ""]
    inputs += [net.input("past", np.float32, (2, 2, 2, 3, 3))] if past else []
    y = net.ms("Attention", *inputs, num_heads=2, **attrs)
    if past:
        net._nodes[-1].output.append("present")
    return Case(f"attention_{name}", net.model(y, *(["present"] if past else [])))


def quantised_attention(dtype: Any, columns: bool) -> Case:
    net, rng = Bench(), np.random.default_rng(8)
    x = net.input("x", dtype, (2, 4, 6))
    w = net.const(random_array(rng, np.int8, (6, 18)))
    count = 18 if columns else 1
    scales = net.const([0.02], np.float32), net.const(rng.uniform(0.01, 0.02, count), np.float32)
    bias, zeros = net.const(numbers(9, 18)), net.const(np.zeros(count), np.int8)
    rest = "", net.const([dtype(3)]), zeros
    y = net.ms("QAttention", x, w, bias, *scales, *rest, num_heads=2)
    return Case(f"qattention_{np.dtype(dtype)}_{columns}", net.model(y))


def multi_head(bias: bool, mask: bool, causal: int = 0) -> Case:
    """Of fewer queries than keys; with `causal` the first one sees the first key alone."""
    net = Bench()
    q, k, v = (
        net.input(n, np.float32, s)
        for n, s in zip("qkv", ((2, 3, 4), (2, 5, 4), (2, 5, 6)), strict=True)
    )
    b = net.const(numbers(2, 14)) if bias else ""
    keep = net.const([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32) if mask else ""
    y = net.ms("MultiHeadAttention", q, k, v, b, keep, num_heads=2, unidirectional=causal)
    return Case(f"multi_head_{bias}_{mask}_{causal}", net.model(y))


def across(bias: bool, mask: bool) -> Case:
    """Keys and values of a decoder's other input are computed once, and come by heads."""
    net = Bench()
    shapes = ((2, 3, 4), (2, 2, 5, 2), (2, 2, 5, 2))
    q, k, v = (net.input(n, np.float32, s) for n, s in zip("qkv", shapes, strict=True))
    b = net.const(numbers(2, 12)) if bias else ""
    keep = net.const([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32) if mask else ""
    y = net.ms("MultiHeadAttention", q, k, v, b, keep, num_heads=2)
    return Case(f"across_{bias}_{mask}", net.model(y))


def recurrent(columns: bool, direction: str, batch: int, states: bool = False) -> Case:
    """onnxruntime quantises the input once and the hidden state in each step."""
    net, rng, hidden = Bench(), np.random.default_rng(10), 5
    ways = 2 if direction == "bidirectional" else 1
    x = net.input("x", np.float32, (4, batch, 3))
    w, r = (net.const(rng.integers(-99, 99, (ways, n, 4 * hidden)), np.int8) for n in (3, hidden))
    shape = (ways, 4 * hidden) if columns else (ways,)
    by = [
        net.const(rng.uniform(0.004, 0.006, shape), np.float32),
        net.const(np.zeros(shape), np.int8),
    ]
    bias = net.const(numbers(11, ways, 8 * hidden))
    start = [net.const(numbers(k, ways, batch, hidden)) for k in (12, 13)] if states else ["", ""]
    attrs = {"hidden_size": hidden, "direction": direction}
    made = net.parts(
        "DynamicQuantizeLSTM",
        3,
        x,
        w,
        r,
        bias,
        "",
        *start,
        "",
        *by,
        *by,
        domain="com.microsoft",
        **attrs,
    )
    return Case(f"lstm_{columns}_{direction}_{batch}".lower(), net.model(*made))


def blobs(k: int, n: int, kind: int) -> Case:
    """Blocks of 32 weights of four bits, each with a scale and maybe a zero point."""
    rng, net, blocks = np.random.default_rng(k + n), Bench(), n * -(-k // 32)
    scales = rng.uniform(0.01, 0.1, (blocks, 1)).astype("<f4").view(np.uint8)
    parts = [scales, *[rng.integers(0, 16, (blocks, 1))] * kind, rng.integers(0, 256, (blocks, 16))]
    blob = net.const(np.concatenate(parts, axis=1).reshape(-1), np.uint8)
    x, shape = net.input("x", np.float32, (3, k)), net.const([k, n], np.int64)
    return Case(
        f"blobs_{k}_{n}_{kind}",
        net.model(net.ms("MatMulFpQ4", x, blob, shape, blk_quant_type=kind)),
    )


def plain(op: str, shape: tuple[int, ...], *rest: Any, **attrs: Any) -> Case:
    """Operators that are the standard's by another name."""
    net = Bench()
    x = net.input("x", np.float32, shape)
    y = net.ms(op, x, *(net.const(value) for value in rest), **attrs)
    return Case(op.lower(), net.model(y))


def shorts() -> Case:
    net = Bench()
    y = net.ms(
        "MatMulInteger16", net.input("a", np.int16, (3, 4)), net.input("b", np.int16, (4, 2))
    )
    small = {"a": np.full((3, 4), -300, np.int16), "b": np.arange(8, dtype=np.int16).reshape(4, 2)}
    return Case("shorts", net.model(y), feeds=[small])


def scaled_at_run_time() -> Case:
    """A product with a bias is computed in float, and the sum of both is divided by y's scale."""
    net, rng = Bench(), np.random.default_rng(13)
    feed = {
        "x": rng.integers(-99, 99, (3, 4)).astype(np.int8),
        **{f"{t}s": np.array(s, np.float32) for t, s in (("x", 0.05), ("w", 0.02), ("y", 0.37))},
        **{f"{t}z": np.array(z, np.int8) for t, z in (("x", 3), ("w", -2), ("y", 7))},
    }
    at = {name: net.input(name, v.dtype, np.shape(v)) for name, v in feed.items()}
    w = net.const(rng.integers(-99, 99, (4, 5)), np.int8)
    bias = net.const([9000, -9000, 20000, 400, 0], np.int32)
    of = [[at[f"{t}s"], at[f"{t}z"]] for t in "xwy"]
    y = net.ms("QGemm", at["x"], *of[0], w, *of[1], bias, *of[2])
    return Case("gemm_scaled_at_run_time", net.model(y), feeds=[feed])


def cases() -> Iterator[Case]:
    yield scaled_at_run_time()
    for dtype in (np.int8, np.uint8, np.int16, np.uint16):
        yield convert(dtype)
    yield convert_channels()
    for dtype in BYTES:
        yield where(dtype)
        yield nhwc_conv(dtype)
        yield to_float(dtype, False)
        yield to_float(dtype, True)
    yield nhwc_pool()
    for k, block, zero in ((32, 16, False), (64, 16, True), (40, 16, True), (96, 32, True)):
        yield bits(k, block, zero)
    yield bits(32, 16, True, 8)
    for k, block, groups in ((32, 16, False), (20, 16, False), (32, 16, True)):
        yield loose_bits(k, block, groups)
    for k, n, block, kind in ((32, 5, 16, 0), (32, 5, 16, 1), (7, 3, 16, 1), (16, 4, 64, 0)):
        yield bnb4(k, n, block, kind)
    for k, n, kind in ((64, 5, 0), (64, 5, 1), (40, 3, 1)):
        yield blobs(k, n, kind)
    for width, zero, columns in ((4, False, 64), (4, True, 48), (8, False, 32), (8, True, 48)):
        yield gathered(width, zero, columns)
    yield attention("plain")
    yield attention("masked", [[1, 1, 1, 0], [1, 1, 1, 1]])
    yield attention("lengths", [3, 4])
    yield attention("causal", unidirectional=1)
    yield attention("past", past=True, unidirectional=1)
    yield quantised_attention(np.uint8, False)
    yield quantised_attention(np.uint8, True)
    yield multi_head(False, False)
    yield multi_head(True, True)
    yield multi_head(True, False, causal=1)
    yield across(False, False)
    yield across(True, True)
    yield recurrent(False, "forward", 1)
    yield recurrent(True, "reverse", 3)
    yield recurrent(False, "bidirectional", 2, states=True)
    yield shorts()
    yield plain("Pad", (2, 3), np.array([1, 0, 0, 2]), np.float32(0.5))
    yield plain("ExpandDims", (2, 3), np.array([1], np.int32))
    yield plain("Trilu", (3, 4), np.array(1), upper=0)
    yield plain("GatherND", (3, 4), np.array([[2], [0]]))
    yield plain("TransposeMatMul", (3, 4), numbers(12, 3, 5), transA=1)


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("quantised"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    if case.oracle == "near":
        results.check_near(case)
    else:
        results.check(case)
