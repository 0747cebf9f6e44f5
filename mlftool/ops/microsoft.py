"""onnxruntime's own operators in terms of the standard's: what its optimiser fuses, and
what was its own before it was the standard's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx

from mlftool.onnx_rules.boxes import as_it_is
from mlftool.onnx_rules.scope import CONSTANT, Refuse
from mlftool.onnx_rules.steps import Steps, check_kinds
from mlftool.ops.base import Expansion, Signature, UnsupportedError, expands

WINDOW = "auto_pad kernel_shape pads strides"
# The attributes that the expansions read, which have no schema in the onnx package.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("axis", "bits", "block_size", "causal", "do_rotary"), "INT"),
    **dict.fromkeys(("gather_axis", "interleaved", "is_packed_batching", "K", "keepdims"), "INT"),
    **dict.fromkeys(("kv_num_heads", "local_window_size", "mark", "mask_index_type"), "INT"),
    **dict.fromkeys(("mincharnum", "N", "num_heads", "opset", "past_present_share_buffer"), "INT"),
    **dict.fromkeys(("qk_output", "quantize_axis", "rotary_embedding_dim"), "INT"),
    **dict.fromkeys(("rotary_interleaved", "sliding_window_cache", "smooth_softmax"), "INT"),
    **dict.fromkeys(("transA", "transB", "transBatchA", "transBatchB", "unidirectional"), "INT"),
    **dict.fromkeys(("alpha", "epsilon", "mask_filter_value", "scale", "softcap"), "FLOAT"),
    **dict.fromkeys(("extrapolation_value",), "FLOAT"),
    **dict.fromkeys(("align_corners", "dim", "size", "step"), "INT"),
    **dict.fromkeys(("channels_last", "dilation", "ndim", "ngram_size", "state_window"), "INT"),
    **dict.fromkeys(("activation", "metric", "mode", "pad_value", "tokenexp"), "STRING"),
    **dict.fromkeys(("axes", "qkv_hidden_sizes"), "INTS"),
    **dict.fromkeys(("k", "normalize_routing_weights", "use_sparse_mixer"), "INT"),
    **dict.fromkeys(("expert_weight_bits", "swiglu_fusion", "weights_prepacked"), "INT"),
    **{f"fc{k}_expert_weight_bits": "INT" for k in (1, 2, 3)},
    "activation_type": "STRING",
    "blk_quant_type": "INT",
    "swiglu_limit": "FLOAT",
    "activation_params": "FLOATS",
    "separators": "STRINGS",
}


def microsoft(boxes: bool = False, **signatures: str) -> Callable[[Expansion], Expansion]:
    """Operators with their signatures. `boxes`: those that they stand for depend on no extent that
    a run may decide."""

    def register(expansion: Expansion) -> Expansion:
        for name, text in signatures.items():
            said, extents = Signature.of(text), as_it_is if boxes else None
            expands(f"com.microsoft.{name}", kinds=KINDS, signature=said, extents=extents)(
                expansion
            )
        return expansion

    return register


@microsoft(QuantizeLinear="xx? axis", DequantizeLinear="xx? axis", boxes=True)
@microsoft(GatherND="xx", Trilu="x? upper", Range="xx?", Pad="xx? mode", boxes=True)
def _same_name(s: Steps) -> None:
    s(s.node.op_type, *s.node.input, out=0, **s.known_to(s.node.op_type))


# The standard's words for what was onnxruntime's GridSample before.
MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


@microsoft(GridSample="xx align_corners mode padding_mode", boxes=True)
def _sampled(s: Steps) -> None:
    mode = s.attrs.get("mode", "bilinear")
    if mode not in MODES:
        raise Refuse("MLF0303", f"mode '{mode}'; expected one of {', '.join(MODES)}")
    attrs = {**s.known_to("GridSample"), "mode": MODES[mode]}
    s("GridSample", s.x(0), s.x(1), out=0, **attrs)


@microsoft(UnfoldTensor="x dim size step")
def _unfolded(s: Steps) -> None:
    """Windows of `size` elements along `dim`, `step` apart; each window is the last axis."""
    shape = s.shape(0, 1, -1)
    dim, size, step = s.attrs.get("dim", -1), s.attrs["size"], s.attrs.get("step", 1)
    if not -len(shape) <= dim < len(shape):
        raise Refuse("MLF0303", f"dim {dim}; expected one of the {len(shape)} axes")
    axis = dim % len(shape)
    if not 0 < size <= shape[axis] or step < 1:
        text = f"windows of {size} elements, {step} apart; the axis has {shape[axis]}"
        raise Refuse("MLF0303", text)
    starts = np.arange(0, shape[axis] - size + 1, step)
    windows = s.const(starts[:, None] + np.arange(size), np.int64)
    value = s("Gather", s.x(0), windows, axis=axis)
    perm = [k for k in range(len(shape) + 1) if k != axis + 1]
    s("Transpose", value, out=0, perm=[*perm, axis + 1])


@microsoft(Unique="x>3")
def _unique(s: Steps) -> None:
    """Values, which of them each element is, and counts: the standard's has another output between
    them, and its attribute says that the first one that appears stays the first."""
    outputs = [*s.node.output, "", ""]
    several = [outputs[0], "", outputs[1], outputs[2]]
    s.made.append(onnx.helper.make_node("Unique", [s.x(0)], several, s.node.name, sorted=0))


@microsoft(
    ConvTransposeWithDynamicPads="xx?? auto_pad dilations group kernel_shape output_padding strides"
)
def _padded_transpose(s: Steps) -> None:
    """A ConvTranspose whose pads are an input; here they are constants."""
    attrs = dict(s.known_to("ConvTranspose"))
    if s.x(2):
        pads = s.consts.get(s.x(2))
        if pads is None:
            raise Refuse("MLF0302", "pads known only at run time; supported: constants", CONSTANT)
        attrs["pads"] = [int(n) for n in np.ravel(pads)]
    s("ConvTranspose", s.x(0), s.x(1), *filter(None, (s.x(3),)), out=0, **attrs)


@microsoft(Tokenizer="x mark mincharnum pad_value separators tokenexp")
def _tokenizer(s: Steps) -> None:
    s("mlf.Tokenizer", s.x(0), out=0, **s.attrs)


@microsoft(ExpandDims="xx", boxes=True)
def _expand_dims(s: Steps) -> None:
    axis = s("Cast", s.x(1), to=onnx.TensorProto.INT64)
    s("Unsqueeze", s.x(0), s("Reshape", axis, s.const([1], np.int64)), out=0)


def turned(s: Steps, value: str, rank: int, back: bool = False) -> str:
    """Channels-last data with their channels second, or back again; for the latter the output."""
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    return s("Transpose", value, perm=last, out=0) if back else s("Transpose", value, perm=first)


@microsoft(NhwcMaxPool=f"x {WINDOW} ceil_mode dilations", boxes=True)
def _channels_last(s: Steps) -> None:
    x = s.type(0)
    value = s("MaxPool", turned(s, s.x(0), len(x.shape)), **s.known_to("MaxPool"))
    turned(s, value, len(x.shape), back=True)


@microsoft(FusedMatMul="xx alpha transA transB transBatchA transBatchB", boxes=True)
@microsoft(TransposeMatMul="xx alpha transA transB", boxes=True)
def _fused_matmul(s: Steps) -> None:
    """transA and transB turn the last two axes, transBatchA and B the axes before the last."""
    sides = []
    for i, side in enumerate("AB"):
        least, name = int(s.attrs.get(f"transBatch{side}", 0) != 0), s.x(i)
        axes = list(range(len(s.shape(i, least, -1))))
        if s.attrs.get(f"transBatch{side}", 0):
            axes = [*axes[1:-1], axes[0], axes[-1]]
        if s.attrs.get(f"trans{side}", 0):
            axes[-2:] = axes[:-3:-1]
        sides.append(s("Transpose", name, perm=axes) if axes != sorted(axes) else name)
    alpha = s.attrs.get("alpha", 1.0)
    if alpha == 1.0:
        s("MatMul", *sides, out=0)
    else:
        s("Mul", s("MatMul", *sides), s.const(alpha, s.type(0).dtype.numpy), out=0)


_PARAMETERS = "activation_alpha activation_beta activation_gamma"
# What onnxruntime's optimiser joins with them.
ACTIVATIONS = (
    *("", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid"),
    *("Elu", "Selu", "Softplus", "Softsign", "ThresholdedRelu"),
)


@microsoft(FusedGemm=f"xx? activation {_PARAMETERS} alpha beta transA transB", boxes=True)
@microsoft(FusedConv=f"xx?? {WINDOW} activation activation_params dilations group", boxes=True)
def _fused_activation(s: Steps) -> None:
    """A Gemm or Conv with an activation; a Conv may add its fourth input before that."""
    params = s.attrs.pop("activation_params", [])
    activation = s.attrs.pop("activation", "")
    if activation not in ACTIVATIONS:
        names = ", ".join(filter(None, ACTIVATIONS))
        raise UnsupportedError(f"activation '{activation}'; supported: {names}")
    for key in _PARAMETERS.split():  # FusedGemm's
        if key in s.attrs:
            check_kinds({key: s.attrs[key]}, {key: "FLOAT"})
            params = [*params, s.attrs.pop(key)]
    if len(params) < 2 and activation in ("Clip", "HardSigmoid"):
        raise Refuse("MLF0303", f"activation {activation} has {len(params)} parameters; expected 2")
    inputs, core = [s.x(i) for i in range(3)], s.node.op_type.removeprefix("Fused")
    value = s(core, *inputs, **s.known_to(core))
    if s.x(3):
        value = s("Add", value, s.x(3))
    if activation == "Clip":
        ends = [s.const(end, s.type(0).dtype.numpy) for end in params[:2]]
        s("Clip", value, *ends, out=0)
    elif activation == "LeakyRelu":
        s("LeakyRelu", value, out=0, alpha=params[0] if params else 0.01)
    elif activation == "HardSigmoid":
        s("HardSigmoid", value, out=0, alpha=params[0], beta=params[1])
    else:
        s(activation or "Identity", value, out=0)


@microsoft(Gelu="x", FastGelu="x?", BiasGelu="xx", boxes=True)
def _gelu(s: Steps) -> None:
    value = s("Add", s.x(0), s.x(1)) if s.x(1) else s.x(0)
    fast = s.node.op_type == "FastGelu"
    s("Gelu", value, out=0, approximate="tanh" if fast else "none")


@microsoft(QuickGelu="x alpha", boxes=True)
def _quick_gelu(s: Steps) -> None:
    s("Swish", s.x(0), out=0, alpha=s.attrs.get("alpha", 1.702))


@microsoft(SkipLayerNormalization="xxx??>4 epsilon", boxes=True)
@microsoft(SkipSimplifiedLayerNormalization="xxx?>4 epsilon", boxes=True)
def _skip_layer(s: Steps) -> None:
    """Normalisation of input + skip (+ bias); that sum may be the fourth output."""
    simple = "Simplified" in s.node.op_type
    bias = s.x(3 if simple else 4)
    total = s("Add", s.x(0), s.x(1), out=None if bias else 3 if s.wants(3) else None)
    if bias:
        total = s("Add", total, bias, out=3 if s.wants(3) else None)
    attrs = {"axis": -1, "epsilon": s.attrs.get("epsilon", 1e-12)}
    if simple:
        s("RMSNormalization", total, s.x(2), out=0, **attrs)
    else:
        beta = (s.x(3),) if s.x(3) else ()
        s("LayerNormalization", total, s.x(2), *beta, out=0, **attrs)


@microsoft(EmbedLayerNormalization="x?xx?xx??>3 epsilon mask_index_type")
def _embed_layer(s: Steps) -> None:
    """Rows of tables for words, places and perhaps segments, added and normalised. The second
    output counts the ones in each row of a mask, as an index of where it ends; the third is the
    sum."""
    batch, time = s.shape(0, 2)
    places = s.x(8) or s.const(np.arange(time)[None], np.int64)
    total = s("Gather", s.x(2), s.x(0), axis=0)
    added = [(s.x(3), places), (s.x(4), s.x(1))] if s.x(4) else [(s.x(3), places)]
    for k, (table, rows) in enumerate(added, 1):
        out = 2 if s.wants(2) and k == len(added) else None
        total = s("Add", total, s("Gather", table, rows, axis=0), out=out)
    attrs = {"axis": -1, "epsilon": s.attrs.get("epsilon", 1e-12)}
    s("LayerNormalization", total, s.x(5), s.x(6), out=0, **attrs)
    _ends(s, batch)


@microsoft(QEmbedLayerNormalization="x?xx?xx?xx?xxxx?xx>2 epsilon")
def _quantised_embed_layer(s: Steps) -> None:
    """Embeddings whose tables and factors are quantised, each with one scale and zero point, which
    come after the mask in the tables' order: rows are dequantised once they are selected."""
    batch, time = s.shape(0, 2)
    places = s.const(np.arange(time)[None], np.int64)

    def real(i: int, value: str) -> str:
        """Of input 2 (words) to 6 (what is added last)."""
        s.one(i + 6)
        s.one(i + 11)
        return s("DequantizeLinear", value, s.x(i + 6), s.x(i + 11))

    tables = [(2, s.x(0)), (3, places)] + ([(4, s.x(1))] if s.x(4) else [])
    first, *others = [real(i, s("Gather", s.x(i), rows, axis=0)) for i, rows in tables]
    for value in others:
        first = s("Add", first, value)
    attrs = {"axis": -1, "epsilon": s.attrs.get("epsilon", 1e-12)}
    s("LayerNormalization", first, real(5, s.x(5)), real(6, s.x(6)), out=0, **attrs)
    _ends(s, batch)


def _ends(s: Steps, batch: int) -> None:
    """The second output: how many ones each row of the mask, input 7, has; zeros without one."""
    if s.wants(1) and s.x(7):
        ones = s("Cast", s("Equal", s.x(7), s.const(1, np.int32)), to=onnx.TensorProto.INT32)
        s("ReduceSum", ones, s.const([1], np.int64), out=1, keepdims=0)
    elif s.wants(1):
        s("Identity", s.const([0] * batch, np.int32), out=1)


@microsoft(CDist="xx metric", boxes=True)
def _distances(s: Steps) -> None:
    """From each row of one matrix to each of another: sqrt(a * a - 2 * a * b + b * b)."""
    if (metric := s.attrs.get("metric", "sqeuclidean")) not in ("euclidean", "sqeuclidean"):
        raise Refuse("MLF0303", f"metric '{metric}'; expected 'euclidean' or 'sqeuclidean'")
    squares = []
    for i, axis in ((0, [1]), (1, [0])):
        s.shape(i, 2)
        sums = s("ReduceSumSquare", s.x(i), s.const([1], np.int64), keepdims=0)
        squares.append(s("Unsqueeze", sums, s.const(axis, np.int64)))
    dtype = s.type(0).dtype.numpy
    product = s("MatMul", s.x(0), s("Transpose", s.x(1), perm=[1, 0]))
    value = s("Add", s("Mul", product, s.const(-2, dtype)), squares[0])
    least = s("Add", value, squares[1]), s.const(0, dtype)
    if metric == "euclidean":
        s("Sqrt", s("Max", *least), out=0)
    else:
        s("Max", *least, out=0)


@microsoft(NGramRepeatBlock="xx ngram_size")
def _without_repetition(s: Steps) -> None:
    """Scores, -inf of tokens that would end a run of `ngram_size` that was there before."""
    (_, time), (batch, words), n = s.shape(0, 2), s.shape(1, 2), s.attrs["ngram_size"]
    if n < 1:
        raise Refuse("MLF0303", f"ngram_size {n}; expected 1 or more")
    if n > time:
        s("Identity", s.x(1), out=0)
        return

    def part(start: int, end: int) -> str:
        ends = (s.const([e], np.int64) for e in (start, end, 1))
        return s("Slice", s.x(0), *ends)

    ended = s.const(np.ones((batch, time - n + 1), bool), np.bool_)
    for k in range(n - 1):
        same = s("Equal", part(k, time - n + 1 + k), part(time - n + 1 + k, time - n + 2 + k))
        ended = s("And", ended, same)
    marks = s("Cast", ended, to=onnx.TensorProto.INT32)
    none, last = s.const(np.zeros((batch, words)), np.int32), part(n - 1, time)
    found = s("ScatterElements", none, last, marks, axis=1, reduction="max")
    never = s.const(-np.inf, s.type(1).dtype.numpy)
    s("Where", s("Equal", found, s.const(1, np.int32)), never, s.x(1), out=0)


@expands("SimplifiedLayerNormalization", extents=as_it_is)
def _simplified_layer(s: Steps) -> None:
    """onnxruntime writes this one into the standard's own domain."""
    attrs = {k: v for k, v in s.attrs.items() if k in ("axis", "epsilon")}
    s("RMSNormalization", s.x(0), s.x(1), out=0, **attrs)
