"""Nodes whose inputs, attributes and extents do not fit together, as damaged models have them: each
is refused by name, and none ends in an exception or in C that reads past its tensors."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest
from onnx import AttributeProto, parser

import mlftool.compile
from mlftool.compile import ModuleSpec, compile_module
from mlftool.crash import as_ours
from mlftool.errors import INTERNAL, MlfError

HEAD = '<ir_version: 9, opset_import: ["": 17, "ai.onnx.ml": 3, "com.microsoft": 1]>\n'
MISFITS = {
    "no sequence": """g (float[2,3] x) => (float[2,3] y) { y = SequenceMap <body =
        b (float[3] e) => (float[3] f) { f = Neg (e) }> (x) }""",
    "rank of R": """g (float[3,1,2] x, float[1,4,2] w, float[4,4] r) => (float[1,1,4] h)
        { y, h = RNN <hidden_size=4> (x, w, r) }""",
    "directions": """g (float[1,1,5] x, float[2,3,5] w, float[2,3,3] r) => (float[?,?,?,?] y)
        { y = RNN <hidden_size=3> (x, w, r) }""",
    "hidden size": """g (float[2,1,3] x, float[1,20,3] w, float[1,20,5] r) => (float[2,1,1,1] y)
        { y = LSTM <hidden_size=1> (x, w, r) }""",
    "lengths": """g (float[4,3] x, int64[0] n) => (float[4,3] y)
        { y = ReverseSequence <batch_axis=1, time_axis=0> (x, n) }""",
    "updates": """g (float[3,4] x, int64[3,1] i, float u) => (float[3,4] y)
        { y = ScatterND (x, i, u) }""",
    "windows": """g (float[3,4] x, int64[2] b, int64[2] e, int64[0] a) => (float[3,4] y)
        { y = Slice (x, b, e, a) }""",
    "more windows than axes": """g (float[3] x, int64[2] b, int64[2] e) => (float[3] y)
        { y = Slice (x, b, e) }""",
    "axes of CumSum": """g (float[3,4] x, int64[2] a) => (float[3,4] y) { y = CumSum (x, a) }""",
    "norm of order 0": """g (float[1,1,4] x) => (float[1,1,3] y)
        { y = LpPool <kernel_shape=[2], p=0> (x) }""",
    "global norm of order 0": """g (float[1,1,4] x) => (float[1,1,1] y)
        { y = GlobalLpPool <p=0> (x) }""",
    "slopes": """g (float[2,3] x, float[4] s) => (float[2,3] y) { y = PRelu (x, s) }""",
    "activation": """g (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y)
        { y = com.microsoft.FusedGemm <activation="NonZero"> (x, w, b) }""",
    "state of a refused body": """g (float[2,3] x, float[4,5] w) => (float[2,3] y)
        <int64 one = {1}, bool on = {1}> { s = SequenceConstruct (x)
        bad = MatMul (x, w)
        t, y = Loop (one, on, s, x) <body = b (int64 i, bool c, seq(float[2,3]) q, float[2,3] z) =>
            (bool d, seq(float[2,3]) r, float[2,3] m)
            { d = Identity (c) m = Add (z, bad) r = SequenceInsert (q, z) }> }""",
    "channels": """g (float[72] x) => (float[72] y) { y = LRN <size=3> (x) }""",
    "boxes": """g (float b, float[1,1,6] s) => (int64[?,3] y) { y = NonMaxSuppression (b, s) }""",
    "half an output's quantisation": """g (uint8[3,5] x, float s, uint8 z, uint8[5,6] w, float t,
        uint8 v, float o) => (float[3,6] y) { y = com.microsoft.QGemm (x, s, z, w, t, v, , o) }""",
    "parts of a fraction": """g (float[4,5] x) => (int64 y) <float[1,2] s = {2.0, 3.0}>
        { q = SplitToSequence <axis=1> (x, s) y = SequenceLength (q) }""",
    "parts below zero": """g (float[4,5] x) => (int64 y) <int64 s = {-2}>
        { q = SplitToSequence <axis=1> (x, s) y = SequenceLength (q) }""",
    "positions in a sequence": """g (float[2,3] x, float[2,3] z) => (float[2,3] y)
        <int64[2] i = {0, 1}> { q = SequenceConstruct (x, z) y = SequenceAt (q, i) }""",
    "no position in a sequence": """g (float[2,3] x, float[2,3] z) => (float[2,3] y)
        <int64[0] i = {}> { q = SequenceConstruct (x, z) y = SequenceAt (q, i) }""",
    "iterations over a sequence": """g (float[2,3] x) => (float[2,3] y)
        <int64[2] n = {2, 2}, bool on = {1}, int64 last = {-1}> { q = SequenceConstruct (x)
        r = Loop (n, on, q) <body = b (int64 i, bool c, seq(float[2,3]) s) =>
            (bool d, seq(float[2,3]) t) { d = Identity (c) t = SequenceInsert (s, x) }>
        y = SequenceAt (r, last) }""",
    "steps of frames": """g (float[1,64] x, float[16] w) => (float[?,?,?,?] y)
        <int64[2] s = {4, 4}> { y = STFT (x, s, w) }""",
    "steps of frames at run time": """g (float[1,64] x, float[16] w, int64[2] s) =>
        (float[1,13,9,2] y) { y = STFT (x, s, w) }""",
    "no step of frames": """g (float[1,64] x, float[16] w) => (float[?,?,?,?] y)
        <int64[0] s = {}> { y = STFT (x, s, w) }""",
    "lengths of a cache": """g (float[1,2,8] x, int32[1] n) => (float[1,2,4] y)
        <int32[2] t = {2, 2}> { y = com.microsoft.GroupQueryAttention
            <num_heads=1, kv_num_heads=1> (x, , , , , n, t) }""",
    "numbers of a padding": """g (float[3,4] x) => (float[5,4] y)
        <int64[4] p = {1, 0, 1, 0}, float[2] v = {1.0, 2.0}> { y = Pad (x, p, v) }""",
    "numbers of Microsoft's padding": """g (float[3,4] x, int64[4] p, float[8] v) => (float[5,4] y)
        { y = com.microsoft.Pad (x, p, v) }""",
    "no number of a padding": """g (float[3,4] x) => (float[5,4] y)
        <int64[4] p = {1, 0, 1, 0}, float[0] v = {}> { y = Pad (x, p, v) }""",
    "borders": """g (float[3,4] x, int64[3] p) => (float[3,4] y) { y = Pad (x, p) }""",
    "batches": """g (float[3,4] x, int64[2,3,1] i) => (float[2,3] y)
        { y = GatherND <batch_dims=1> (x, i) }""",
    "rank of elements' places": """g (int8[4,4,5,3] x, int32[4,1] i) => (int8[4,1] y)
        { y = GatherElements <axis=3> (x, i) }""",
    "places beside the axis": """g (float[2,3] x, int64[3,3] i) => (float[3,3] y)
        { y = GatherElements <axis=1> (x, i) }""",
    "places of updates": """g (float[2,3] x, int64[2,4] i, float[2,4] u) => (float[2,3] y)
        { y = ScatterElements <axis=0> (x, i, u) }""",
    "elements of updates": """g (float[2,3] x, int64[2,3] i, float[1,3] u) => (float[2,3] y)
        { y = ScatterElements (x, i, u) }""",
    "image of long integers": """g (int64[1,1,3,3] x) => (int64[1,1,4,4] y)
        <int64[4] n = {1, 1, 4, 4}> { y = Resize <mode="linear"> (x, , , n) }""",
    "cubic image of long integers": """g (uint64[1,1,9,9] x) => (uint64[1,1,4,4] y)
        <int64[4] n = {1, 1, 4, 4}> { y = Resize <mode="cubic"> (x, , , n) }""",
    "sizes below nothing": """g (float[1,2,5,4] x) => (float[a,b,c,d] y)
        <int64[4] n = {1, -2, 3, 4}> { y = Resize <mode="nearest"> (x, , , n) }""",
    "sizes beyond all indices": """g (float[1,5] x, int64[1] n) => (float[1,h] y)
        <int64[1] most = {4611686018427387904}, int64[1] one = {1}> { k = Min (n, most)
        sizes = Concat <axis=0> (one, k) y = Resize <mode="nearest"> (x, , , sizes) }""",
    "depth of a product": """g (float[4,10] x) => (float[4,8] y) <float[8,11] w = {WEIGHTS}>
        { y = Gemm <transB=1> (x, w) }""".replace("WEIGHTS", ", ".join(["1.0"] * 88)),
    "channels of integers": """g (uint8[1,2,3,3] x, uint8[2,1,2,2] w) => (int32[1,2,2,2] y)
        { y = ConvInteger (x, w) }""",
    "half an integer": """g (int32[2,3] a, int32[3,4] b) => (int32[2,4] y)
        { y = Gemm <alpha=0.5> (a, b) }""",
    "less than no bytes": """g (uint64[2,3] a, uint64[3,4] b, uint64[4] c) => (uint64[2,4] y)
        { y = Gemm <beta=-1.0> (a, b, c) }""",
    "bias of a layer": """g (float[3,4,5] x, float[5] s, float[3] b) => (float[3,4,5] y)
        { y = LayerNormalization (x, s, b) }""",
    "scale wider than a layer": """g (float[4,5] x, float[2,4,5] s) => (float[4,5] y)
        { y = LayerNormalization (x, s) }""",
    "scale of channels": """g (float[1,4,5] x, float[3] s, float[4] b) => (float[1,4,5] y)
        { y = InstanceNormalization (x, s, b) }""",
    "negative batches": """g (uint8[2,3,4,5] x, int64[2,3,3,2] i) => (uint8[2,3,4,5,2] y)
        { y = GatherND <batch_dims=-3> (x, i) }""",
    "axis": "g (float[3,4] x) => (float[2,3,4] y) { y = LogSoftmax <axis=3> (x) }",
    "crop": """g (float[1,2,1,1] x) => (float[1,2,4,3] y) <float[4] r = {0, 0, 1, 1},
        int64[4] s = {1, 2, 4, 3}> { y = Resize <mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize"> (x, r, "", s) }""",
    "empty image": """g (float[1,1,0,9] x, float[4] s) => (float[1,1,8,9] y)
        { y = Resize <mode="linear", antialias=1> (x, "", s) }""",
    "declared repeats": """g (float[1,3] x, int64[2] r) => (float[3,2] y) { y = Tile (x, r) }""",
    "declared part": """g (float[4,3] x, int64[2] b, int64[2] e) => (float[6,3] y)
        { y = Slice (x, b, e) }""",
    "declared sums": """g (float[3,1,3] x, int64[1] a) => (float[2,3] y)
        { y = ReduceSum <keepdims=0> (x, a) }""",
    "declared sums that are kept": """g (float[3,4] x, int64[1] a) => (float[1,1] y)
        { a0 = Identity (a) y = ReduceSum (x, a0) }""",
    "declared axes": """g (float[3,3] x, int64[1] a) => (float[3,3] y) { y = Unsqueeze (x, a) }""",
    "declared without axes": """g (float[3,1,3] x, int64[1] a) => (float[9] y)
        { y = Squeeze (x, a) }""",
    "declared rank": """g (float[2,6] x, int64[2] s) => (float[2] y, float[2,4] z)
        { y, z = Split <axis=1> (x, s) }""",
    "weights of rank 5": """g (float[1,2,4,4] x, float[2,2,3,3,1] w) => (float[1,2,6,6] y)
        { y = ConvTranspose (x, w) }""",
    "same and output padding": """g (float[1,1,4,4] x, float[1,1,3,3] w) => (float[1,1,9,9] y) { y =
        ConvTranspose <auto_pad="SAME_UPPER", strides=[2,2], output_padding=[1,1]> (x, w) }""",
    "ml without input": """g (float[2,3] x) => (float[2] y) { y =
        ai.onnx.ml.LinearClassifier <coefficients=[1.0], classlabels_ints=[0]> ("") }""",
    "ml attributes": """g (float[2,3] x) => (int64[2] y, float[2,2] z) { y, z =
        ai.onnx.ml.LinearClassifier <coefficients=[1.0, 2.0], classlabels_ints=[0, 1]> (x) }""",
    "parts of a wave": """g (float[2,8,3] x) => (float[2,8,2] y) { y = DFT (x) }""",
    "parts of a signal": """g (float[2,8,3] x, int64 s, float[4] w) => (float[2,3,3,2] y)
        { y = STFT (x, s, w) }""",
    "axes of a signal": """g (float[16] x, int64 s, float[4] w) => (float[2,3,3,2] y)
        { y = STFT (x, s, w) }""",
    "coordinates of boxes": """g (float[1,6,3] b, float[1,1,6] s) => (int64[?,3] y)
        { y = NonMaxSuppression (b, s) }""",
    "scores of boxes": """g (float[1,6,4] b, float[1,1,5] s) => (int64[?,3] y)
        { y = NonMaxSuppression (b, s) }""",
    "index of each value": """g (float[1,1,2,2] x, int64[1,1,2,1] i) => (float[1,1,4,4] y)
        { y = MaxUnpool <kernel_shape=[2,2], strides=[2,2]> (x, i) }""",
    "coordinates in a box": """g (float[6,3] x, bool[6] c, int64 i) => (float[?] y)
        { p = Compress <axis=0> (x, c) y = GatherND (p, i) }""",
    "coordinates of updates in a box": """g (float[6,3] x, bool[6] c, int64 i) => (float[?,3] y)
        { p = Compress <axis=0> (x, c) y = ScatterND (p, i, p) }""",
    "split scalar": """g (float x) => (int64 n)
        { s = SplitToSequence (x) n = SequenceLength (s) }""",
}


HALF = 'ai.onnx.ml.SVMClassifier <classlabels_ints=[0, 1], kernel_type="LINEAR"'
TREE = "ai.onnx.ml.TreeEnsembleRegressor <n_targets=1, nodes_treeids=[0], nodes_nodeids=[0]"
TREE += ", nodes_truenodeids=[0], nodes_falsenodeids=[0], nodes_featureids=[0]"
# Of operators that stand for others: what does not fit is in the message.
UNFIT = {
    "com.microsoft.FusedMatMul": ('"", x', "lacks input 0"),
    "com.microsoft.QLinearConcat": ("x, x, x", "lacks attribute 'axis'"),
    "com.microsoft.QLinearConcat <axis=1.5>": ("x, x, x", "is 1.5; expected a whole number"),
    "com.microsoft.QGemm <perm=[1]>": ("x, x, x, x, x, x", "'perm', which QGemm does not know"),
    'com.microsoft.FusedGemm <activation="Clip">': ("x, x", "has 0 parameters; expected 2"),
    "com.microsoft.Attention <num_heads=2>": ("x, x", "'x' has 2 axes; expected 3"),
    "com.microsoft.Attention <num_heads=0>": ("c, x", "num_heads is 0; expected 1 or more"),
    "com.microsoft.Attention <num_heads=9>": ("c, x", "9 heads do not fit the width"),
    "com.microsoft.Attention <num_heads=1, qkv_hidden_sizes=[1, 1]>": ("c, x", "expected 3"),
    "com.microsoft.MatMulNBits <N=1, K=3, block_size=0>": ("x, x, x", "expected 1 or more"),
    "com.microsoft.MatMulNBits <N=1, K=3, block_size=16>": ("x, x, x", "6 bytes; expected 8"),
    "ai.onnx.ml.LinearRegressor": ("x", "lacks attribute 'coefficients'"),
    "ai.onnx.ml.LinearRegressor <coefficients=[1.0]>": ("s", "'s' has 0 axes; expected 1 or more"),
    "ai.onnx.ml.SVMRegressor <rho=[1.0], coefficients=[1.0], support_vectors=[1.0], "
    "n_supports=2>": ("x", "'support_vectors' has 1 numbers; expected 2 equal rows"),
    f"{HALF}, rho=[0.0], coefficients=[1.0, 2.0, 3.0]>": ("x", "3 numbers; expected 2 equal rows"),
    f"{HALF}, vectors_per_class=[1, 1], coefficients=[1.0]>": ("x", "no 1 rows of 2 numbers"),
    'ai.onnx.ml.CategoryMapper <cats_strings=["a"], cats_int64s=[1, 2]>': ("i", "as many of each"),
    f"ai.onnx.ml.Binarizer <threshold={10**38}.0>": ("i", "is not a value of type int64"),
    f'{TREE}, nodes_modes=["LEAF", "LEAF"], nodes_values=[0.0]>': ("x", "2 of 'nodes_modes'"),
    f'{TREE}, nodes_modes=["LEAF"], nodes_values=[0.0], target_treeids=[0], target_nodeids=[7], '
    "target_ids=[0], target_weights=[1.0]>": ("x", "tree 0 has no node 7"),
}


@pytest.mark.parametrize("operator", UNFIT)
def test_what_does_not_fit_is_named(operator: str) -> None:
    inputs, message = UNFIT[operator]
    text = "g (float[2,3] x, float[1,2,3] c, float s, int64[2] i)"
    outputs = "y, z" if "SVMClassifier" in operator else "y"
    made = f"{{ {outputs} = {operator} ({inputs}) }}"
    model = parser.parse_model(f"{HEAD}{text} => (float[n] y) {made}")
    with pytest.raises(MlfError) as refused:
        compile_module(ModuleSpec(model))
    (problem,) = refused.value.problems
    assert problem.code == "MLF0303"
    assert message in problem.message


@pytest.mark.parametrize("name", MISFITS)
def test_refused_by_name(name: str) -> None:
    model = parser.parse_model(HEAD + MISFITS[name])
    with pytest.raises(MlfError) as refused:
        compile_module(ModuleSpec(model))
    assert refused.value.exit_code == 2, refused.value
    assert all(p.code.startswith(("MLF02", "MLF03")) for p in refused.value.problems)
    assert any("node" in p.path for p in refused.value.problems)


@pytest.mark.parametrize(
    ("w", "o", "said"),
    [
        ("1,2,2,3", "1,8,2,2", "kernel_shape"),
        ("1,3,2,2", "1,8,2,2", "2 channels"),
        ("1,2,2,2", "1,8,2,1", "offsets"),
        ("1,2,2,2", "1,7,2,2", "offsets"),
    ],
)
def test_parts_of_a_deformed_convolution(w: str, o: str, said: str) -> None:
    text = f"""g (float[1,2,3,3] x, float[{w}] w, float[{o}] o) => (float[1,1,2,2] y)
        {{ y = DeformConv <kernel_shape=[2, 2]> (x, w, o) }}"""
    with pytest.raises(MlfError, match=f"MLF0303.*{said}"):
        compile_module(ModuleSpec(parser.parse_model(HEAD.replace("17", "21") + text)))


@pytest.mark.parametrize("count", [0, 2])
def test_a_product_runs_along_one_axis(count: int) -> None:
    text = f"""g (float[2,3] x) => (float[2,3] y)
        <int64[{count}] a = {{{", ".join("0" * count)}}}> {{ y = CumProd (x, a) }}"""
    with pytest.raises(MlfError, match="MLF0303"):
        compile_module(ModuleSpec(parser.parse_model(HEAD.replace("17", "26") + text)))


def test_attributes_name_axes_of_the_input() -> None:
    text = """g (float[5] x) => (float[?] y)
        { y = Slice <axes=[0, 1], starts=[1, -3], ends=[9, -1]> (x) }"""
    with pytest.raises(MlfError, match=r"MLF0303.*axes \[0, 1\] of 5"):
        compile_module(ModuleSpec(parser.parse_model(HEAD.replace("17", "9") + text)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("float[4] x, float[2] s, float[2] b) => (float[4] y) { y = Group <num_groups=2>",
         "2 axes"),
        ("float[2,4,3] x, float[3] s, float[4] b) => (float[2,4,3] y) { y = Group <num_groups=2>",
         "for 4 channels"),
        ("float[4,3] x, float[3] s, float[3] b) => (float[4,3] y) { y = Instance", "3 axes"),
        ("float[1,4,3] x, float[4] s, float[4] b) => (float[1,4,3] y) { y = Group <num_groups=3>",
         "num_groups 3; expected a divisor of 4"),
        ("float[1,4,3] x, float[4,1] s, float[4] b) => (float[1,4,3] y) { y = Group <num_groups=2>",
         "expected 1 axis"),
    ],
)  # fmt: skip
def test_images_of_normalisations(text: str, said: str) -> None:
    text = text.replace("= Group", "= GroupNormalization")
    text = text.replace("= Instance", "= InstanceNormalization")
    model = parser.parse_model(HEAD.replace("17", "21") + f"g ({text} (x, s, b) }}")
    with pytest.raises(MlfError, match=said):
        compile_module(ModuleSpec(model))


@pytest.mark.parametrize("attribute", ["group", "offset_group"])
@pytest.mark.parametrize("count", [0, -1, 3])
def test_groups_of_a_deformed_convolution(attribute: str, count: int) -> None:
    text = """g (float[1,2,4,4] x, float[2,2,2,2] w, float[1,8,3,3] o) => (float[1,2,3,3] y)
        { y = DeformConv <ATTRIBUTE=COUNT> (x, w, o) }"""
    text = text.replace("ATTRIBUTE", attribute).replace("COUNT", str(count))
    with pytest.raises(MlfError, match=f"{attribute} {count}; expected a divisor"):
        compile_module(ModuleSpec(parser.parse_model(HEAD.replace("17", "21") + text)))


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("name", ["y = ConstantOfShape (n)", "y = com.microsoft.Gelu (x)"])
def test_tensors_among_attributes(name: str, stored: bool) -> None:
    """One of no element type, or none at all where the attribute says that it is a tensor."""
    text = f"g (int64[1] n, float[3] x) => (float[3] y) {{ {name} }}"
    model = parser.parse_model(HEAD + text)
    made = model.graph.node[0].attribute.add(name="value", type=AttributeProto.TENSOR)
    if stored:
        made.t.dims.append(3)
    with pytest.raises(MlfError, match=r"MLF0303.*attribute 'value'"):
        compile_module(ModuleSpec(model))


@pytest.mark.parametrize("version", [2**31, 2**62, -(2**63)])
def test_versions_that_are_none(version: int) -> None:
    model = parser.parse_model(HEAD + "g (float[3] x) => (float[3] y) { y = Relu (x) }")
    for entry in model.opset_import:
        changed = type(model)()
        changed.CopyFrom(model)
        for other in changed.opset_import:
            other.version = version if other.domain == entry.domain else other.version
        with pytest.raises(MlfError, match="MLF0204"):
            compile_module(ModuleSpec(changed))


def test_quantised_bias_with_a_computed_scale_compiles() -> None:
    text = """g (int8[1,4] x, float[2] s) => (int8[1,2] y)
        <float sx = {0.1}, int8 zx = {1}, int8[4,2] w = {1,2,3,4,5,6,7,8}, float sw = {0.2},
         int8 zw = {0}, int32[2] b = {3,4}, int32[2] zb = {0,0}> {
        a = DequantizeLinear (x, sx, zx)
        c = DequantizeLinear (w, sw, zw)
        d = DequantizeLinear <axis=0> (b, s, zb)
        e = Gemm (a, c, d)
        y = QuantizeLinear (e, sx, zx)
    }"""
    assert compile_module(ModuleSpec(parser.parse_model(HEAD + text))).sources.lib1


def test_a_bug_is_one_line_and_a_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The report's model is the one node of three that it takes."""
    import io
    import zipfile

    import onnx

    real = mlftool.compile.imported

    def fail(model: onnx.ModelProto, *rest: object) -> object:
        if any(n.op_type == "Exp" for n in model.graph.node):
            raise KeyError("a bug")
        return real(model, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(mlftool.compile, "imported", fail)
    monkeypatch.setenv("MLF_REPORTS", str(tmp_path))
    text = "g (float[3] x) => (float[3] y) { a = Neg (x) b = Exp (a) y = Abs (b) }"
    with pytest.raises(MlfError) as ours:
        compile_module(ModuleSpec(parser.parse_model(HEAD + text)))
    assert ours.value.exit_code == INTERNAL
    (problem,) = ours.value.problems
    assert problem.code == "MLF0900"
    (report,) = tmp_path.iterdir()
    assert str(report) in problem.help
    with zipfile.ZipFile(io.BytesIO(report.read_bytes())) as archive:
        assert "KeyError" in archive.read("report.txt").decode()
        small = onnx.load_model_from_string(archive.read("model.onnx"))
    assert [n.op_type for n in small.graph.node] == ["Exp"]


def test_memory_and_disk_are_no_bugs() -> None:
    assert as_ours(MemoryError()).problems[0].code == "MLF0703"
    assert as_ours(OSError(errno.ENOSPC, "full")).problems[0].code == "MLF0704"


TEXTS = """<ir_version: 9, opset_import: ["": 17, "some_domain": 1]>
g (float[3] x, bool some_flag) => (float[3] y) {
  z = If (some_flag) <then_branch = a () => (float[3] p) { some_tensor = Neg (x)
    p = Softsign <some_attr = 1> (some_tensor) },
    else_branch = b () => (float[3] q) { q = Tanh (x) }>
  y = some_domain.some_function (z)
}
<domain: "some_domain", opset_import: ["": 17]>
some_function (v) => (w) { some_inner = Softplus (v) w = Sigmoid (some_inner) }
"""
NAMES = (
    *("some_domain", "some_flag", "some_tensor", "some_attr", "some_function", "some_inner"),
    *("Neg", "Softsign", "Tanh", "Softplus", "Sigmoid"),
)


@pytest.mark.parametrize("name", NAMES)
def test_text_that_is_none_anywhere(name: str, tmp_path: Path) -> None:
    """In branches, functions and versions as well as in the graph itself."""
    data = parser.parse_model(TEXTS).SerializeToString()
    assert name.encode() in data
    path = tmp_path / "m.onnx"
    path.write_bytes(data.replace(name.encode(), b"\xff" + name.encode()[1:]))
    with pytest.raises(MlfError, match="is not UTF-8") as refused:
        compile_module(ModuleSpec(path))
    assert refused.value.exit_code == 2


PRODUCTS = {
    "QLinearConv": ("x, xs, xz, w, ws, wz, ys, yz", "1,2,5,5", "6,2,3,3", "uint8[1,6,3,3]"),
    "com.microsoft.QLinearConv": (
        *("x, xs, xz, w, ws, wz, ys, yz", "1,2,5,5", "6,2,3,3", "uint8[1,6,3,3]"),
    ),
    "ConvInteger": ("x, w, xz, wz", "1,2,5,5", "6,2,3,3", "int32[1,6,3,3]"),
    "QLinearMatMul": ("x, xs, xz, w, ws, wz, ys, yz", "4,5", "5,6", "uint8[4,6]"),
    "MatMulInteger": ("x, w, xz, wz", "4,5", "5,6", "int32[4,6]"),
    "com.microsoft.QGemm": ("x, xs, xz, w, ws, wz, , ys, yz", "4,5", "5,6", "uint8[4,6]"),
}


@pytest.mark.parametrize("is_const", [True, False])
@pytest.mark.parametrize("operator", PRODUCTS)
def test_quantised_products_have_fitting_scales(operator: str, is_const: bool) -> None:
    """One for all, or of the weights one for each channel: C reads as many."""
    inputs, x, w, y = PRODUCTS[operator]
    for name in inputs.replace(",", "").split()[1:]:
        for count in (0, 2, 7) if name != "w" else ():
            kind = "float" if name.endswith("s") else "uint8"
            values = ", ".join(["1.0" if kind == "float" else "1"] * count)
            given = [f"uint8[{w}] w", f"{kind}[{count}] {name}"]
            others = [n for n in ("xs", "xz", "ws", "wz", "ys", "yz") if n in inputs and n != name]
            held = [f"{'float' if n[1] == 's' else 'uint8'} {n} = {{1}}" for n in others]
            if is_const:
                held.append(f"{given.pop()} = {{{values}}}")
            text = f"g (uint8[{x}] x, {', '.join(given)}) => ({y} y) <{', '.join(held)}>"
            model = parser.parse_model(f"{HEAD}{text} {{ y = {operator} ({inputs}) }}")
            with pytest.raises(MlfError) as refused:
                compile_module(ModuleSpec(model))
            assert refused.value.exit_code == 2, (name, count, refused.value)


def test_no_folder_for_temporary_files_is_the_machines_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when every one is on a full disk; a bug still has its message then, without a report."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/dev/null/none"])
    monkeypatch.delenv("MLF_REPORTS", raising=False)
    with pytest.raises(FileNotFoundError) as caught:
        tempfile.mkdtemp()
    assert as_ours(caught.value).problems[0].code == "MLF0704"
    problem = as_ours(ValueError("odd")).problems[0]
    assert (problem.code, "report it" in (problem.help or "")) == ("MLF0900", True)
    assert as_ours(FileNotFoundError(errno.ENOENT, "gone", "x")).problems[0].code == "MLF0900"
