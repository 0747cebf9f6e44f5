"""Operators of floats between integers, as files of mixed precision have them: what the operator
gives for floats, it gives for the same floats behind a DEQUANTIZE, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tfl_cases import ints
from tfl_writer import Op, Sub, T, model

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.frontends.models import TFLite
from mlftool.runtime.host import load_host

IN, SCALE = (1, 4, 6, 2), 0.005
POOL = {"StrideW": 2, "StrideH": 1, "FilterWidth": 2, "FilterHeight": 2, "Padding": 0}
CONVOLUTION = {"StrideW": 1, "StrideH": 1, "Padding": 1}
DEPTHWISE = "DepthwiseConv2DOptions"
CONVOLUTION |= {"DilationWFactor": 1, "DilationHFactor": 1}


def weights(*shape: int) -> T:
    """Of 8 bits, which a DEQUANTIZE of their own makes floats."""
    data = np.random.default_rng(shape).integers(-128, 128, shape)
    return T("w", shape, scale=0.011, zero=0, data=data)


BETWEEN: dict[str, tuple[tuple[int, ...], str, dict[str, Any], list[Any]]] = {
    "MAX_POOL_2D": ((1, 4, 3, 2), "Pool2DOptions", POOL, []),
    "AVERAGE_POOL_2D": ((1, 4, 3, 2), "Pool2DOptions", POOL, []),
    "RELU": (IN, "", {}, []),
    "RELU6": (IN, "", {}, []),
    "ABS": (IN, "", {}, []),
    "TANH": (IN, "", {}, []),
    "MEAN": ((1, 4, 2), "ReducerOptions", {}, [[2]]),
    "REDUCE_MAX": ((1, 4, 2), "ReducerOptions", {}, [[2]]),
    "REDUCE_MIN": ((1, 4, 2), "ReducerOptions", {}, [[2]]),
    "SUM": ((1, 4, 2), "ReducerOptions", {}, [[2]]),
    "PAD": ((1, 6, 9, 2), "PadOptions", {}, [[[0, 0], [1, 1], [0, 3], [0, 0]]]),
    "TRANSPOSE": ((2, 6, 4, 1), "TransposeOptions", {}, [[3, 2, 1, 0]]),
    "RESHAPE": ((1, 48), "", {}, []),
    "RESIZE_NEAREST_NEIGHBOR": ((1, 8, 9, 2), "", {}, [[8, 9]]),
    "RESIZE_BILINEAR": ((1, 8, 9, 2), "", {}, [[8, 9]]),
    "SOFTMAX": (IN, "SoftmaxOptions", {"Beta": 1.0}, []),
    "HARD_SWISH": (IN, "", {}, []),
    "TILE": ((1, 8, 6, 2), "", {}, [[1, 2, 1, 1]]),
    "CONV_2D": ((1, 3, 5, 4), "Conv2DOptions", CONVOLUTION, [weights(4, 2, 2, 2)]),
    "DEPTHWISE_CONV_2D": ((1, 3, 5, 2), DEPTHWISE, CONVOLUTION, [weights(1, 2, 2, 2)]),
    "FULLY_CONNECTED": ((24, 5), "FullyConnectedOptions", {}, [weights(5, 2)]),
    "BATCH_MATMUL": ((1, 4, 6, 3), "BatchMatMulOptions", {}, [weights(2, 3)]),
}


def floats(name: str, shape: tuple[int, ...]) -> T:
    return T(name, shape, "float32")


@pytest.mark.parametrize("zero", [-128, 7, 127])
def test_what_stands_between_integers(zero: int) -> None:
    tensors, ops, outputs = [T("q", IN, scale=SCALE, zero=zero), floats("f", IN)], [], []
    for kind, (shape, table, options, more) in BETWEEN.items():
        places = list(range(len(tensors), len(tensors) + len(more)))
        tensors += [m if isinstance(m, T) else ints(m) for m in more]
        for k, m in enumerate(more):
            if isinstance(m, T):
                ops.append(Op("DEQUANTIZE", (places[k],), (len(tensors),)))
                places[k] = len(tensors)
                tensors.append(floats(f"{kind}.w", m.shape))
        n = len(tensors)
        tensors += [floats(f"{kind}.d", IN), *(floats(f"{kind}.{k}", shape) for k in "ab")]
        tensors.append(T(f"{kind}.q", shape, scale=0.0137, zero=-3))
        ops += [
            Op("DEQUANTIZE", (0,), (n,)),
            Op(kind, (n, *places), (n + 1,), table, options),
            Op("QUANTIZE", (n + 1,), (n + 3,)),
            Op(kind, (1, *places), (n + 2,), table, options),
        ]
        outputs += [n + 3, n + 2]
    data = model(Sub(tensors, ops, (0, 1), outputs))
    run = load_host(compile_modules([ModuleSpec(TFLite(data), "m")]), optimise="-O0")
    q = np.random.default_rng(1).integers(-128, 128, IN).astype(np.int8)
    f = (q.astype(np.float32) - np.float32(zero)) * np.float32(SCALE)
    made = [np.asarray(v) for v in run({"q": q, "f": f}).values()]
    for kind, stored, plain in zip(BETWEEN, made[::2], made[1::2], strict=True):
        ratio = plain / np.float32(0.0137)
        wanted = np.clip(np.sign(ratio) * np.floor(np.abs(ratio) + 0.5) - 3, -128, 127)
        np.testing.assert_array_equal(stored, wanted, err_msg=kind)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("kind", "constant"), [("int8", False), ("int8", True), ("int4", True)])
def test_a_scale_for_each_channel(kind: str, constant: bool, axis: int) -> None:
    """Weights that are kept as integers, as weight-only recipes of ai-edge-quantizer write them.
    TensorFlow Lite Micro takes the first scale for all; this is TensorFlow Lite's."""
    rng, shape = np.random.default_rng(5), (3, 3, 3)
    scale, zero = rng.uniform(0.01, 0.1, 3).astype(np.float32), np.array([0, 1, -2])
    data = rng.integers(-8, 8, shape)
    w = T("w", shape, kind, scale, zero, axis, data if constant else None)
    tensors = [w, *(floats(name, shape) for name in "dxy")]
    ops = [Op("DEQUANTIZE", (0,), (1,)), Op("ADD", (1, 2), (3,), "AddOptions")]
    inputs = (2,) if constant else (0, 2)
    module = compile_modules([ModuleSpec(TFLite(model(Sub(tensors, ops, inputs, (3,)))), "m")])
    feeds = {"x": np.zeros(shape, np.float32), **({} if constant else {"w": data.astype(kind)})}
    (y,) = load_host(module, optimise="-O0")(feeds).values()
    spread = [3 if k == axis else 1 for k in range(3)]
    wanted = (data - zero.reshape(spread)).astype(np.float32) * scale.reshape(spread)
    np.testing.assert_array_equal(np.asarray(y), wanted)
