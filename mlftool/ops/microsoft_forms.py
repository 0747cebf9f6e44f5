"""What nodes of onnxruntime's own operators may have, for which the onnx package has no schemas."""

from __future__ import annotations

from typing import NamedTuple


class Form(NamedTuple):
    """An "x" for each input that must be there, a "?" for each that need not, "*" for any number
    more; the names of its attributes; at most so many outputs."""

    inputs: str
    attributes: str = ""
    outputs: int = 1


_WINDOW = "auto_pad kernel_shape pads strides"
_HEADS = "mask_filter_value num_heads scale unidirectional"
_PAST = f"{_HEADS} do_rotary past_present_share_buffer"
_LSTM = "activation_alpha activation_beta activations clip direction hidden_size input_forget"
_GEMM = "activation activation_alpha activation_beta activation_gamma alpha beta transA transB"

_FORMS: tuple[tuple[str, Form], ...] = (
    ("Attention", Form("xx?????", f"{_PAST} qkv_hidden_sizes rotary_embedding_dim", 2)),
    ("BiasGelu ExpandDims GatherND MatMulInteger16", Form("xx")),
    ("CDist", Form("xx", "metric")),
    ("DequantizeLinear QuantizeLinear", Form("xx?", "axis")),
    ("DynamicQuantizeLSTM", Form("xxx?????xxxx", _LSTM, 3)),
    ("DynamicQuantizeMatMul", Form("xxx??")),
    ("EmbedLayerNormalization", Form("x?xx?xx??", "epsilon mask_index_type", 3)),
    ("FastGelu", Form("x?")),
    ("FusedConv", Form("xx??", f"{_WINDOW} activation activation_params dilations group")),
    ("FusedGemm", Form("xx?", _GEMM)),
    ("FusedMatMul", Form("xx", "alpha transA transB transBatchA transBatchB")),
    ("GatherBlockQuantized", Form("xxx?", "bits block_size gather_axis quantize_axis")),
    ("Gelu", Form("x")),
    ("MatMulIntegerToFloat", Form("xxxx???")),
    ("MatMulNBits", Form("xxx???", "K N accuracy_level bits block_size weight_prepacked")),
    ("MultiHeadAttention", Form("x?????????", _HEADS, 4)),
    ("NhwcMaxPool", Form("x", f"{_WINDOW} ceil_mode dilations")),
    ("Pad", Form("xx?", "mode")),
    ("QAttention", Form("xxxxx????", _PAST, 2)),
    ("QGemm", Form("xxxxxx???", "alpha transA transB")),
    ("QLinearAdd QLinearMul", Form("xx?xx?x?")),
    ("QLinearAveragePool", Form("xx?x?", f"{_WINDOW} ceil_mode channels_last count_include_pad")),
    ("QLinearConcat", Form("xx*", "axis")),
    ("QLinearConv", Form("xxxxxxxx?", f"{_WINDOW} channels_last dilations group")),
    ("QLinearGlobalAveragePool", Form("xxxxx", "channels_last")),
    ("QLinearLeakyRelu", Form("xx?x?", "alpha")),
    ("QLinearReduceMean", Form("xx?x?", "axes keepdims")),
    ("QLinearSigmoid", Form("xx?x?")),
    ("QLinearSoftmax", Form("xx?xx", "axis opset")),
    ("QLinearWhere", Form("xxxxxxxxx")),
    ("QuickGelu", Form("x", "alpha")),
    ("Range", Form("xx?")),
    ("SkipLayerNormalization", Form("xxx??", "epsilon", 4)),
    ("SkipSimplifiedLayerNormalization", Form("xxx?", "epsilon", 4)),
    ("TransposeMatMul", Form("xx", "alpha transA transB")),
    ("Trilu", Form("x?", "upper")),
)
FORMS = {f"com.microsoft.{name}": form for names, form in _FORMS for name in names.split()}
