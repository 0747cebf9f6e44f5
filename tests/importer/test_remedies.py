"""What a refusal of a model that no option mends says to do."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

CUT = "onnx.utils.extract_model"
HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "com.microsoft.nchwc" : 1]>'
MODELS = {
    "run_time": (f"""{HEAD} g (float[3, 2] x) => (float y) {{
        n = NonZero (x)
        f = Cast <to = 1> (n)
        y = Det (f)
    }}""", ("--input-shape", CUT)),
    "ranks": (f"""{HEAD} g (bool c, float[3, 2] x) => (float y) {{
        y = If (c) <
            then_branch = a () => (float p) {{ p = Identity (x) }},
            else_branch = b () => (float q) {{ q = ReduceSum <keepdims = 0> (x) }}
        >
    }}""", ("--input-value", CUT)),
    "unknown": (f"""{HEAD} g (int32[4] x) => (uint32[4] y) {{
        y = com.microsoft.WordConvEmbedding (x)
    }}""", (CUT,)),
    "search": (f"""{HEAD} g (int32[1, 4] x, int32[1] n) => (int32[1, 4] y) {{
        y = com.microsoft.BeamSearch (x, n)
    }}""", ("search in the application",)),
    "left_by_tf2onnx": (f"""{HEAD} g (float[1, 4] x) => (float y) {{
        y = Erfc (x)
    }}""", ("1 - erf(x)",)),
    "optimised": (f"""{HEAD} g (float[1, 8, 4, 4] x, float[8, 8, 1, 1] w) => (float y) {{
        y = com.microsoft.nchwc.Conv (x, w)
    }}""", ("ORT_ENABLE_EXTENDED",)),
    "cached": (f"""{HEAD} g (float[1, 2, 8] q, float[1, 2, 4] k, float[1, 2, 4] v,
            float[1, 1, 5, 4] old_k, float[1, 1, 5, 4] old_v, int32[1] n, int32 t) => (float y) {{
        y = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (
            q, k, v, old_k, old_v, n, t)
    }}""", ("--input-value",)),
    "pads": (f"""{HEAD} g (float[1, 2, 4, 4] x, float[2, 2, 3, 3] w, int64[4] p) => (float y) {{
        y = com.microsoft.ConvTransposeWithDynamicPads (x, w, p)
    }}""", ("--input-value",)),
    "crops": (f"""{HEAD} g (float[1, 2, 4, 4] x, float[1, 4] b, int32[1] k, int32[2] n)
            => (float y) {{
        y = com.microsoft.CropAndResize (x, b, k, n)
    }}""", ("--input-value",)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_the_remedy_is_named(name: str) -> None:
    text, words = MODELS[name]
    model: onnx.ModelProto = parser.parse_model(text)
    with pytest.raises(MlfError) as raised:
        compile_module(ModuleSpec(model))
    (problem,) = raised.value.problems
    assert raised.value.exit_code == 2
    assert all(word in problem.help for word in words), problem.help
    assert "QGemm" not in problem.help  # near only by its domain


def test_operators_are_named_beside_inputs_without_a_shape() -> None:
    text = MODELS["left_by_tf2onnx"][0].replace("float[1, 4] x", "float[n, 4] x")
    with pytest.raises(MlfError) as raised:
        compile_module(ModuleSpec(parser.parse_model(text)))
    shape, operator = raised.value.problems
    assert "--input-shape x:1,4" in shape.help
    assert "no such operator" in operator.message
