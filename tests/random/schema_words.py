"""What schemas do not say of their attributes and small operands: words, numbers, and shapes of
which operators with several operands take more than by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Shape = tuple[int, ...]

# Random, of sequences or of strings, of training, or with state outside of the network.
SKIPPED = frozenset(
    [
        "RandomNormalLike",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "Dropout",
        "TfIdfVectorizer",
        "StringNormalizer",
        "RegexFullMatch",
        "StringConcat",
        "StringSplit",
        "SequenceEmpty",
        "SequenceConstruct",
        "BiasDropout",
        "BitmaskDropout",
        "BitmaskBiasDropout",
        "Sampling",
        "Tokenizer",
        "ImageDecoder",
        "Adam",
        "Adagrad",
        "Momentum",
        "Gradient",
        "GreedySearch",
        "BeamSearch",
        "WhisperBeamSearch",
        "MurmurHash3",
        "DynamicTimeWarping",
        "SplitToSequence",
        "ConcatFromSequence",
        "OptionalHasElement",
        "SampleOp",
        "Snpe",
        "EPContext",
        "UnfoldTensor",
        "IsAllFinite",
        "WordConvEmbedding",
    ]
)

# What becomes of a NaN or an infinity the standard does not say.
STEPS = frozenset(
    [
        "Cast",
        "CastLike",
        "DynamicQuantizeLinear",
        "DynamicQuantizeMatMul",
        "ArgMax",
        "ArgMin",
        "TopK",
        "Hardmax",
        "NonZero",
        "Unique",
        "DynamicQuantizeLSTM",
        "MaxPool",
        "Max",
        "Min",
        "Clip",
        "ReduceMax",
        "ReduceMin",
        "GlobalMaxPool",
        "ScatterElements",
        "NonMaxSuppression",
        "MatMulNBits",
        "MaxRoiPool",
        "RoiAlign",
        "Conv",
        "FusedConv",
        "ConvTranspose",
    ]
)

WHOLE = (0, 0, 1, 1, 1, 2, 3, -1)
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e-5, 0.1, 2.5, 6.0)
WORDS = {
    "mode": ("constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "DCR", "CRD",
             "bilinear", "bicubic", "sum", "mean", "max"),
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "coordinate_transformation_mode": ("half_pixel", "pytorch_half_pixel", "align_corners",
                                       "asymmetric", "half_pixel_symmetric"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "reduction": ("none", "add", "mul", "max", "min", "mean", "sum"),
    "approximate": ("none", "tanh"),
    "direction": ("LEFT", "RIGHT", "forward", "reverse", "bidirectional"),
    "padding_mode": ("zeros", "border", "reflection"),
    "activation": ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSigmoid"),
    "equation": ("ij,jk->ik", "ij->ji", "i,i->", "ij->i", "bij,bjk->bik", "ii->i", "ij,kj",
                 "...ij,...jk->...ik", "i,j->ij", "bchw,bchw->bc"),
    "round_mode": ("up", "down", "nearest"),
}  # fmt: skip


def _axis(rng: Rng, rank: int) -> int:
    return int(rng.integers(-rank, rank)) if rank else 0


def _axes(rng: Rng, rank: int, _: Shape = ()) -> list[int]:
    chosen = rng.permutation(rank)[: rng.integers(0, rank + 1)].tolist()
    return [a - rank if rng.random() < 0.3 else a for a in chosen]


ATTRIBUTES: dict[str, Callable[[Rng, int], Any]] = {
    "axis": _axis,
    "axes": _axes,
    "perm": lambda rng, rank: rng.permutation(rank).tolist(),
    "to": lambda rng, _: int(rng.choice((1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 16, 17, 19, 21, 22))),
    "group": lambda rng, _: int(rng.choice((1, 1, 2, 4))),
    "blocksize": lambda rng, _: 2,
    "block_size": lambda rng, _: int(rng.choice((0, 2, 4, 16))),
    "kernel_shape": lambda rng, rank: rng.integers(1, 4, max(1, rank - 2)).tolist(),
    "strides": lambda rng, rank: rng.integers(1, 4, max(1, rank - 2)).tolist(),
    "dilations": lambda rng, rank: rng.choice((1, 1, 1, 2), max(1, rank - 2)).tolist(),
    "output_dtype": lambda rng, _: int(rng.choice((0, 2, 3, 4, 5, 21, 22))),
    "stash_type": lambda rng, _: 1,
    "sorted": lambda rng, _: 1,  # else any order is right
    "num_heads": lambda rng, _: int(rng.choice((1, 2))),
    "q_num_heads": lambda rng, _: 2,
    "kv_num_heads": lambda rng, _: int(rng.choice((1, 2))),
    "num_outputs": lambda rng, _: int(rng.choice((1, 2, 3))),
    "scales": lambda rng, rank: rng.choice((0.5, 1, 1, 1.5, 2), rank).tolist(),
    "activation_params": lambda rng, _: rng.choice((0.1, 0.5, 2.0), 2).tolist(),
    "alpha": lambda rng, _: float(rng.choice((0.01, 0.2, 1, 2, -0.5, 0))),
}

# Operands by a part of their name, given the first operand's rank and shape.
LISTS: dict[str, Callable[[Rng, int, Shape], Any]] = {
    "axes": _axes,
    "axis": lambda rng, rank, _: _axis(rng, rank),
    "repeats": lambda rng, rank, _: rng.integers(0, 3, rank),
    "pads": lambda rng, rank, _: rng.integers(-1, 3, 2 * rank),
    "starts": lambda rng, rank, _: rng.integers(-3, 3, max(1, rank)),
    "ends": lambda rng, rank, _: rng.choice((-1, 1, 2, 5, 2**31 - 1, -(2**31)), max(1, rank)),
    "steps": lambda rng, rank, _: rng.choice((1, 1, 2, -1), max(1, rank)),
    "split": lambda rng, rank, shape: [1, max(0, (shape or (1,))[0] - 1)],
    "sizes": lambda rng, rank, shape: [max(0, n + int(rng.integers(-1, 3))) for n in shape],
    "shape": lambda rng, rank, shape: list(_reshaped(rng, shape)),
    "k": lambda rng, rank, _: [int(rng.integers(0, 4))],
    "depth": lambda rng, rank, _: int(rng.integers(1, 6)),
    "indices": lambda rng, rank, shape: rng.integers(
        -min(shape or (1,)), max(1, min(shape or (1,))), _some(rng, shape)
    ),
    "trip": lambda rng, rank, _: int(rng.integers(0, 4)),
}


def _some(rng: Rng, shape: Shape) -> Shape:
    return shape if rng.random() < 0.4 else tuple(rng.integers(1, 4, rng.integers(0, 3)))


def _reshaped(rng: Rng, shape: Shape) -> Shape:
    kind = int(rng.integers(5))
    if kind == 0:
        return tuple(rng.permutation(shape).tolist())
    if kind == 1:
        return (-1,)
    if kind == 2:
        return (*shape, 1)
    if kind == 3:
        return tuple(2 if n == 1 else n for n in shape)
    return (0, -1) if len(shape) > 1 else shape


def _window(rng: Rng, attrs: dict[str, Any], names: tuple[str, str, str]) -> dict[str, Shape]:
    rank = int(rng.choice((1, 2, 2, 2, 3)))
    group = int(rng.choice((1, 1, 2, 3)))
    inner, outer = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    kernel = tuple(int(n) for n in rng.integers(1, 4, rank))
    spatial = tuple(int(k + n) for k, n in zip(kernel, rng.integers(0, 5, rank), strict=True))
    for name, size in {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 2}.items():
        if name in attrs:
            attrs[name] = rng.integers(0 if size == 2 else 1, 3, rank * size).tolist()
    if "kernel_shape" in attrs:
        attrs["kernel_shape"] = list(kernel)
    if attrs.get("auto_pad", "NOTSET") not in ("NOTSET", b"NOTSET"):
        attrs.pop("pads", None)
    attrs.pop("output_shape", None)
    attrs.pop("output_padding", None)
    attrs["group"] = group
    x, w, b = names
    return {
        x: (int(rng.integers(1, 3)), group * inner, *spatial),
        w: (group * outer, inner, *kernel),
        b: (group * outer,),
    }


def _conv(x: str, w: str, b: str) -> Callable[[Rng, dict[str, Any]], dict[str, Shape]]:
    return lambda rng, attrs: _window(rng, attrs, (x, w, b))


def _pool(x: str) -> Callable[[Rng, dict[str, Any]], dict[str, Shape]]:
    def recipe(rng: Rng, attrs: dict[str, Any]) -> dict[str, Shape]:
        rank = int(rng.choice((1, 2, 2, 2, 3)))
        attrs["kernel_shape"] = rng.integers(1, 4, rank).tolist()
        for name in ("strides", "dilations"):
            if name in attrs:
                attrs[name] = rng.integers(1, 3, rank).tolist()
        if "pads" in attrs:
            attrs["pads"] = [int(rng.integers(0, k)) for k in 2 * attrs["kernel_shape"]]
        if attrs.get("auto_pad", "NOTSET") not in ("NOTSET", b"NOTSET"):
            attrs.pop("pads", None)
        return {x: (1, int(rng.integers(1, 4)), *(int(n) for n in rng.integers(3, 8, rank)))}

    return recipe


def _product(a: str, b: str) -> Callable[[Rng, dict[str, Any]], dict[str, Shape]]:
    def recipe(rng: Rng, attrs: dict[str, Any]) -> dict[str, Shape]:
        m, k, n = (int(v) for v in rng.integers(1, 7, 3))
        batch = tuple(int(v) for v in rng.integers(1, 3, rng.integers(0, 3)))
        turned = [bool(attrs.get(t, 0)) for t in ("transA", "transB")]
        left = (k, m) if turned[0] else (m, k)
        right = (n, k) if turned[1] else (k, n)
        if "transA" in attrs or ("alpha" in attrs and "transBatchA" not in attrs):
            return {a: left, b: right, "C": (n,)}
        return {a: (*batch, *left), b: (*batch[rng.integers(len(batch) + 1) :], *right)}

    return recipe


def _normal(x: str, *scales: str) -> Callable[[Rng, dict[str, Any]], dict[str, Shape]]:
    def recipe(rng: Rng, attrs: dict[str, Any]) -> dict[str, Shape]:
        n, c = int(rng.integers(1, 3)), int(rng.choice((2, 4, 6)))
        attrs["num_groups"] = 2 if "num_groups" in attrs else 0
        if not attrs["num_groups"]:
            del attrs["num_groups"]
        return {x: (n, c, *(int(v) for v in rng.integers(2, 5, 2))), **dict.fromkeys(scales, (c,))}

    return recipe


def _last(x: str, *scales: str) -> Callable[[Rng, dict[str, Any]], dict[str, Shape]]:
    def recipe(rng: Rng, attrs: dict[str, Any]) -> dict[str, Shape]:
        attrs.pop("axis", None)
        shape = tuple(int(v) for v in rng.integers(2, 6, 3))
        return {x: shape, "skip": shape, **dict.fromkeys(scales, shape[-1:])}

    return recipe


def _pair(a: str, b: str) -> Callable[[Rng, dict[str, Any]], dict[str, Shape]]:
    def recipe(rng: Rng, attrs: dict[str, Any]) -> dict[str, Shape]:
        shape = tuple(int(v) for v in rng.integers(0 if rng.random() < 0.05 else 1, 6, 3))
        small = {f"{p}_{q}": () for p in (a, b, "C") for q in ("scale", "zero_point")}
        return {a: shape, b: shape[rng.integers(0, 3) :], **small}

    return recipe


RECIPES: dict[str, Callable[[Rng, dict[str, Any]], dict[str, Shape]]] = {
    "Conv": _conv("X", "W", "B"),
    "FusedConv": _conv("X", "W", "B"),
    "ConvInteger": _conv("x", "w", "b"),
    "QLinearConv": _conv("x", "w", "B"),
    "ConvTranspose": lambda rng, attrs: _transposed(rng, attrs),
    "MaxPool": _pool("X"),
    "AveragePool": _pool("X"),
    "LpPool": _pool("X"),
    "QLinearAveragePool": _pool("X"),
    "MatMul": _product("A", "B"),
    "Gemm": _product("A", "B"),
    "FusedGemm": _product("A", "B"),
    "FusedMatMul": _product("A", "B"),
    "TransposeMatMul": _product("A", "B"),
    "MatMulInteger": _product("A", "B"),
    "MatMulInteger16": _product("A", "B"),
    "MatMulIntegerToFloat": _product("A", "B"),
    "DynamicQuantizeMatMul": _product("A", "B"),
    "QLinearMatMul": _product("a", "b"),
    "QGemm": _product("A", "B"),
    "QLinearAdd": _pair("A", "B"),
    "QLinearMul": _pair("A", "B"),
    "BatchNormalization": _normal("X", "scale", "B", "input_mean", "input_var", "mean", "var"),
    "InstanceNormalization": _normal("input", "scale", "B"),
    "GroupNormalization": _normal("X", "scale", "bias"),
    "LayerNormalization": _last("X", "Scale", "B"),
    "RMSNormalization": _last("X", "scale"),
    "SimplifiedLayerNormalization": _last("X", "scale"),
    "SkipLayerNormalization": _last("input", "gamma", "beta", "bias"),
    "SkipSimplifiedLayerNormalization": _last("input", "gamma", "bias"),
    "BiasGelu": _last("A", "B"),
    "FastGelu": _last("X", "bias"),
}


def _transposed(rng: Rng, attrs: dict[str, Any]) -> dict[str, Shape]:
    found = _window(rng, attrs, ("X", "W", "B"))
    outer, inner, *kernel = found["W"]
    group = attrs["group"]
    weights = (inner * group, outer // group, *kernel)
    return {"X": found["X"], "W": weights, "B": (outer,)}
