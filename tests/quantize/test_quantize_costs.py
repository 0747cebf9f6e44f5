"""What converting to integers costs: tensors and layers for which it does not pay are floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from builders import Array

from mlftool.quantize.device import Cost
from mlftool.quantize.network import network
from mlftool.quantize.prepare import prepared
from mlftool.quantize.quantizer import Quantized, Request, quantized

DRAW = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return (DRAW.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)


def parsed(text: str, **constants: Array) -> onnx.ModelProto:
    """A graph; its constants are those of the keywords."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    made = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    model.graph.initializer.extend(made)
    return model


def recurrent() -> onnx.ModelProto:
    """A GRU in floats, because of its limit, over 20 steps, of which the last is classified."""
    return parsed(
        """g (float[20,1,4] x) => (float[1,5] y) {
            h, last = GRU<hidden_size: int = 8, clip: float = 9.0>(x, w, r)
            s = Squeeze(h, one)  t = Gather<axis: int = 0>(s, end)
            y = Gemm<transB: int = 1>(t, v, b)
        }""",
        **{"w": normal(1, 24, 4), "r": normal(1, 24, 8), "v": normal(5, 8), "b": normal(5)},
        **{"one": np.array([1]), "end": np.array(19)},
    )


def attention() -> onnx.ModelProto:
    """Over keys and values of former calls, which the application keeps as floats."""
    return parsed(
        """g (float[1,8] x, float[12,8] keys, float[12,8] values)
           => (float[1,8] y, float[13,8] new_keys, float[13,8] new_values) {
            q = MatMul(x, a)  k = MatMul(x, b)  v = MatMul(x, c)
            new_keys = Concat<axis: int = 0>(keys, k)  new_values = Concat<axis: int = 0>(values, v)
            t = Transpose<perm: ints = [1, 0]>(new_keys)
            s = MatMul(q, t)  p = Softmax<axis: int = -1>(s)  y = MatMul(p, new_values)
        }""",
        **{name: normal(8, 8) for name in "abc"},
    )


def convolved() -> onnx.ModelProto:
    return parsed(
        """g (float[1,3,16,16] x) => (float[1,8,7,7] y) {
            h = Conv(x, w)  r = Relu(h)  y = Conv<strides: ints = [2, 2]>(r, v)
        }""",
        **{"w": normal(8, 3, 3, 3), "v": normal(8, 8, 1, 1)},
    )


def made(model: onnx.ModelProto, **asked: object) -> Quantized:
    plain = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    arrays = {n: normal(16, *shape) for n, shape in plain.items()}
    return quantized(model, arrays, Request("net.onnx", "data.npz", on_device=False, **asked))  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [recurrent, attention, convolved])
@pytest.mark.parametrize(("target", "metric"), [("cortex-m4", "agreement"), ("cortex-m0", "sqnr")])
def test_no_quantised_model_is_dearer_than_floats(
    make: Callable[[], onnx.ModelProto], target: str, metric: str
) -> None:
    q = made(make(), target=target, metric=metric)
    plain = [p.cost for p in q.found.curve if p.what in ("all int8", "all float")]
    most = q.float_cost.instructions
    assert q.cost.instructions <= most
    assert price(q.cost) <= min(price(c) for c in plain if c.instructions <= most)


def price(cost: Cost) -> float:
    """A per cent of instructions is worth two per cent of flash."""
    return cost.instructions**2 * cost.flash


def test_flash_asks_for_integers_that_are_dearer() -> None:
    free = made(recurrent())
    limit = free.float_cost.flash - 1
    assert made(recurrent(), flash=limit).cost.flash <= limit


def test_only_what_is_read_is_rounded() -> None:
    """What floats compute is chosen from as floats, and what a layer computes as integers."""
    found = network(prepared(recurrent(), "net"), "net")
    (stored,) = found.group
    assert found.layers[0].x == stored
    assert found.groups == (stored,)
    model = parsed(
        """g (float[1,3,8,8] x) => (float[1,4] y) {
            p = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x)
            h = Conv(p, w)  m = GlobalMaxPool(h)  f = Flatten(m)  y = MatMul(f, v)
        }""",
        **{"w": normal(4, 3, 3, 3), "v": normal(4, 4)},
    )
    assert {*network(prepared(model, "net"), "net").group} >= {"p", "h", "m"}
    assert "x" not in network(prepared(model, "net"), "net").group
