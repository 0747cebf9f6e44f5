"""Where inputs decide a size, the help names them, and compiles with what it names."""

from __future__ import annotations

import re

import pytest
from onnx import ModelProto, parser

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.onnx_rules.scope import CUT

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g'
CONST = "zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()"
AXES = "at = Constant <value = int64[1] {0}> () from = Constant <value = int64[1] {0}> ()"
DECIDED = {
    # torchaudio's Conformer: a mask of the longest of some lengths
    "range": (f"""{HEAD} (int64[2] n) => (float[m] y) {{ {CONST}
        most = ReduceMax <keepdims = 0> (n) r = Range (zero, most, one) y = Cast <to = 1> (r)
    }}""", {"n"}),
    "expand": (f"""{HEAD} (int32[1, 1] n, int64 k) => (float[m, 3] y) {{
        shape = Constant <value = int64[1] {{-1}}> () three = Constant <value = int64[1] {{3}}> ()
        a = Cast <to = 7> (n) b = Add (a, k) c = Reshape (b, shape) d = Concat <axis = 0> (c, three)
        f = Constant <value = float {{1.0}}> () y = Expand (f, d)
    }}""", {"n", "k"}),
    "filled": (f"""{HEAD} (int64[2] n) => (float[a, b] y) {{ y = ConstantOfShape (n) }}""", {"n"}),
}  # fmt: skip
# torchaudio's Emformer: slices that a length separates, joined again, as wide as the whole
JOINED = f"""{HEAD} (float[4, 3] x, float[4, 1] z, int64[1] n) => (float[4, 3] y) {{ {AXES}
    end = Constant <value = int64[1] {{9}}> ()
    a = Slice (x, from, n, at) b = Slice (x, n, end, at) c = Concat <axis = 0> (a, b)
    t = Transpose (z) y = MatMul (t, c)
}}"""
# The first of some frames, as many as an input says, convolved along time
ALONG = f"""{HEAD} (float[1, 2, 8] x, int64[1] n, float[3, 2, 3] w) => (float[1, 3, m] y) {{
    two = Constant <value = int64[1] {{2}}> () from = Constant <value = int64[1] {{0}}> ()
    a = Slice (x, from, n, two) y = Conv (a, w)
}}"""
BY_DATA = {
    "elements": f"""{HEAD} (int64[9] n) => (float y) {{ y = ConstantOfShape (n) }}""",
    "floats": f"""{HEAD} (float[2] x) => (float y) {{
        n = Cast <to = 7> (x) y = ConstantOfShape (n)
    }}""",
}


def refused(model: ModelProto) -> str:
    """The help of the only problem."""
    with pytest.raises(MlfError) as raised:
        compile_module(ModuleSpec(model))
    assert raised.value.exit_code == 2
    (problem,) = raised.value.problems
    return problem.help


def named(help: str) -> set[str]:
    return set(re.findall(r"--input-value (\w+):VALUE", help))


@pytest.mark.parametrize("name", DECIDED)
def test_the_help_names_the_inputs_that_decide_a_size(name: str) -> None:
    text, inputs = DECIDED[name]
    model: ModelProto = parser.parse_model(text)
    help = refused(model)
    assert "--input-shape" in help
    assert named(help) == inputs
    compile_module(ModuleSpec(model, input_values=dict.fromkeys(inputs, (2,))))


@pytest.mark.parametrize("name", BY_DATA)
def test_inputs_that_nobody_types_are_not_named(name: str) -> None:
    help = refused(parser.parse_model(BY_DATA[name]))
    assert "--input-shape" in help
    assert not named(help)


def test_sizes_that_do_not_fit_at_their_greatest_are_called_that() -> None:
    model: ModelProto = parser.parse_model(JOINED)
    help = refused(model)
    assert "as large as they may get" in help
    assert named(help) == {"n"}
    compile_module(ModuleSpec(model, input_values={"n": (2,)}))


def test_a_limit_of_another_number_of_axes_is_called_that() -> None:
    model: ModelProto = parser.parse_model(DECIDED["expand"][0])
    with pytest.raises(MlfError, match="4,4,4 is given, but it has 2 axes"):
        compile_module(ModuleSpec(model, input_shapes={"y": (4, 4, 4)}))


def test_what_decides_how_far_a_layer_computes_is_named() -> None:
    model: ModelProto = parser.parse_model(ALONG)
    assert named(refused(model)) == {"n"}
    compile_module(ModuleSpec(model, input_values={"n": (5,)}))


def test_a_model_that_is_wrong_in_itself_is_not_said_to_depend_on_inputs() -> None:
    text = f"{HEAD} (float[4, 3] x, float[4, 3] z) => (float y) {{ y = MatMul (x, z) }}"
    assert refused(parser.parse_model(text)) == f"change the node, or {CUT}"
