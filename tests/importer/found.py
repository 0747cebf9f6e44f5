"""What campaigns found, made small: one model of each fault, and what must become of it.

"agrees": with onnxruntime or onnx's evaluator, bit for bit or within what mutant_judge.py allows.
"runs": neither of them takes it; under sanitizers its C does. Anything else: a part of our refusal.
All of them are among the models that mutants are made of.
"""

from __future__ import annotations

AGREES, RUNS = "agrees", "runs"

FOUND: dict[str, tuple[str, int, str]] = {  # name -> what becomes of it, opset, text
    "stacks of four bits": (
        RUNS,  # tests/ops/test_control.py has its numbers
        21,
        """g (float[4] v, float[2,4] w) => (float[3,4] s, float[2,4] u)
        <int64 m = {3}, float lo = {-8}, float hi = {7}> {
        x = Clip (v, lo, hi) c = Clip (w, lo, hi) z = Cast <to=22> (c)
        p = Loop (m, "") <body = b (int64 i, bool on) => (bool d, int4[4] e)
            { d = Identity (on) e = Cast <to=22> (x) }>
        q = Scan <num_scan_inputs=1, body = b (int4[4] f) => (int4[4] h) { h = Identity (f) }> (z)
        s = Cast <to=1> (p) u = Cast <to=1> (q) }""",
    ),
    "stacks of half bytes": (
        "a stack of tensors of 3 int4",
        21,
        """g (float[3] x) => (float[3,3] s) <int64 m = {3}> {
        p = Loop (m, "") <body = b (int64 i, bool c) => (bool d, int4[3] e)
            { d = Identity (c) e = Cast <to=22> (x) }>
        s = Cast <to=1> (p) }""",
    ),
    "nearest has no filter": (
        RUNS,
        18,
        """g (uint8[1,2,6,6] x) => (uint8[1,2,6,11] y) <int64[4] s = {1, 2, 6, 11}> { y = Resize
        <antialias=1, coordinate_transformation_mode="align_corners"> (x, "", "", s) }""",
    ),
    "rows of none": (
        AGREES,
        17,
        """g (float[6,4] x, bool[0] c) => (float[4] a, float[1,1] s) { p = Compress <axis=0> (x, c)
        a = ReduceL1 <axes=[0], keepdims=0> (p) s = ReduceSumSquare (p) }""",
    ),
    "sums of no and of two": (
        "Einsum of 2 and of 0 along 'b'",
        21,
        """g (float[2,3,4] x, float[0,4,5] z) => (float[?,3,5] y)
        { y = Einsum <equation="bij,bjk->bik"> (x, z) }""",
    ),
    "sums of more than onnx infers": (
        AGREES,
        21,
        """g (float[1,7] x, float[3,7] z, float[3,1] t) => (float[?] y, float[?,7] u, float[?] v)
        { y = Einsum <equation="ij,ij->i"> (x, z) u = Einsum <equation="ij,ij->ij"> (t, x)
        v = Einsum <equation="ij,ij"> (t, x) }""",
    ),
    "a shape for what is unpooled": (
        AGREES,
        11,
        """g (float[1,1,2,2] x) => (float[?,?,?,?] y, float[?,?,?,?] z) <int64[4] s = {1, 1, 4, 4},
        int64[1,1,2,2] i = {5, 7, 13, 15}> { y = MaxUnpool <kernel_shape=[2,2], strides=[2,2]>
        (x, i, s) z = MaxUnpool <kernel_shape=[2,2], strides=[2,2]> (x, i) }""",
    ),
    "a shape for a scalar": (
        "--input-shape y:4,6",
        21,
        """g (float x, int64[2] s) => (float[?,?] y) { y = Reshape (x, s) }""",
    ),
    "a mask of nothing": (
        "lacks output 'output'",
        13,
        """g (float[3] x) => (bool[3] m) { "", m = Dropout (x) }""",
    ),
    "diagonals beyond 32 bits": (
        AGREES,
        14,
        """g (float[3,4] x) => (float[3,4] y, float[3,4] z) <int64 k = {1099511627776},
        int64 l = {-1099511627776}> { y = Trilu (x, k) z = Trilu <upper = 0> (x, l) }""",
    ),
    "products of a box of nothing": (
        AGREES,
        16,
        """g (float[0,2] x, int64[1] e, uint8[0,2] q) => (float[?,2] y, float[?,2] z, int32[?,2] i)
        <int64[1] k = {0}, float[2,2] w = {1, 2, 3, 4}, int8[2,2] u = {1, 2, 3, 4}> {
        v = Slice (x, k, e, k) y = MatMul (v, w) z = Gemm (v, w)
        p = Slice (q, k, e, k) i = MatMulInteger (p, u) }""",
    ),
    "a sum of nothing": (
        AGREES,
        21,
        """g (float[3,0] x, float[0,5] z, float[1,5] v) => (float[3,5] y, float[3,5] w)
        { y = Einsum <equation="ij,jk->ik"> (x, z) w = Einsum <equation="ij,jk->ik"> (x, v) }""",
    ),
    "limits in the wrong order": (
        AGREES,
        21,
        """g (uint8[1,2,5] x, uint8[1,2,5] z) => (uint8[1,2,5] y, uint8[1,2,5] w, float[1,2,5] f)
        <float s = {0.03}, uint8 o = {100}, uint8[2,2,1] k = {90, 110, 140, 70}, float t = {0.05},
        uint8 p = {81}, float lo = {1.25}, float hi = {0.5}> {
        a = DequantizeLinear (x, s, o) b = DequantizeLinear (k, s, o) c = Conv (a, b)
        d = Clip (c, lo, hi) y = QuantizeLinear (d, t, p)
        e = DequantizeLinear (z, s, o) g = Add (a, e) h = Clip (g, lo, hi)
        w = QuantizeLinear (h, t, p) f = Clip (a, lo, hi) }""",
    ),
    "means of doubles": (
        AGREES,
        21,
        """g (double[3,4] x, double[4] s) => (double[3,4] y, float[3,1] m, float[3,1] f)
        { y, m, f = LayerNormalization (x, s) }""",
    ),
    "thresholds of no elements": (
        "a limit or threshold without elements",
        11,
        """g (float[1,6,4] b, float[1,1,6] s, int64[0] n, float[0] t) => (int64[?,3] y)
        { y = NonMaxSuppression (b, s, n, t, t) }""",
    ),
    "places on no elements": (
        "which has no elements",
        21,
        "g (float[2,0] x, int64[3] i) => (float[2,3] y) { y = Gather <axis=1> (x, i) }",
    ),
    "elements of none": (
        "which has no elements",
        21,
        """g (float[2,0] x, int64[2,3] i) => (float[2,3] y)
        { y = GatherElements <axis=1> (x, i) }""",
    ),
    "rows of no table": (
        "which has no elements",
        21,
        "g (float[0,2] x, int64[3,1] i) => (float[3,2] y) { y = GatherND (x, i) }",
    ),
    "losses of no classes": (
        "which has no elements",
        22,
        """g (float[3,0,6] x, int64[3,6] t) => (float y)
        { y = NegativeLogLikelihoodLoss <reduction="sum"> (x, t) }""",
    ),
    "scales of zero": (
        AGREES,
        21,
        """g (int8[1,3,4] x) => (int8[1,3,2] y)
        <float s = {0}, int8 z = {3}, int8[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}>
        { y = QLinearMatMul (x, s, z, w, s, z, s, z) }""",
    ),
    "scales of no channels": (
        AGREES,
        17,
        """g (int8[0,1,3] x, float[2] v) => (float[0,1,3] y, float[2] w)
        <float[0] s = {}, int8[0] z = {}>
        { y = DequantizeLinear <axis=0> (x, s, z) w = Neg (v) }""",
    ),
    "numbers in capitals": (
        "input 'x' is uint16; expected string",
        10,
        """g (uint16[2] x) => (uint16[2] y)
        { y = StringNormalizer <case_change_action="UPPER"> (x) }""",
    ),
    "classical models of small types": (
        "input 'x' is uint8; expected double, float, int32, int64",
        17,
        """g (uint8[2,3] x) => (float[2,3] y)
        { y = ai.onnx.ml.Scaler <offset=[1.0], scale=[2.0]> (x) }""",
    ),
    "numbers as text": (
        AGREES,
        17,
        """g (float[2] x) => (string[2] y) { y = Cast <to=8> (x) }""",
    ),
    "text as numbers": (
        "from string to float32",
        17,
        """g (string[2] x) => (float[2] y) { y = Cast <to=1> (x) }""",
    ),
    "a vector by a matrix in integers": (
        AGREES,
        15,
        """g (float[2] x, float[2,3,2] u) => (float[4] y, float[4] w, float[2,3,4] v)
        <float s = {0.1}, uint8 z = {3}, int8 o = {0}, int8[2,4] k = {1, 2, -3, 4, 5, -6, 7, 8}> {
        a = QuantizeLinear (x, s, z) b = DequantizeLinear (a, s, z) c = DequantizeLinear (k, s, o)
        w = MatMul (b, c) e = QuantizeLinear (w, s, o) y = DequantizeLinear (e, s, o)
        f = QuantizeLinear (u, s, z) p = QLinearMatMul (f, s, z, k, s, o, s, z)
        v = DequantizeLinear (p, s, z) }""",
    ),
    "products over nothing in integers": (
        AGREES,
        15,
        """g (float[0] x, float[2,0] u) => (float[4] y, float[2,4] v)
        <float s = {0.1}, uint8 z = {3}, int8 o = {0}, int8[0,4] k = {}> {
        a = QuantizeLinear (x, s, z) b = DequantizeLinear (a, s, z) c = DequantizeLinear (k, s, o)
        y = MatMul (b, c) f = QuantizeLinear (u, s, z) d = DequantizeLinear (f, s, z)
        w = MatMul (d, c) e = QuantizeLinear (w, s, o) v = DequantizeLinear (e, s, o) }""",
    ),
    "wraps what is left": (
        AGREES,
        19,
        """g (float[2,3] x, int64[4] p) => (float[3,4] y, float[3,4] w, float[3] c)
        <int64[4] q = {-1, 3, 2, -2}, int64[2] r = {-2, 2}, float[3] k = {1, 2, 3}> {
        y = Pad <mode="wrap"> (x, q) m = Abs (p) n = Neg (m) z = Sub (m, m) t = Add (q, z)
        w = Pad <mode="wrap"> (x, t) c = Pad <mode="wrap"> (k, r) }""",
    ),
    "more than whole": (
        "auto_pad SAME_UPPER with output_padding",
        17,
        """g (float[1,1,3] x) => (float[1,1,?] y) <float[1,1,2] w = {1, 2}> { y = ConvTranspose
        <auto_pad="SAME_UPPER", strides=[3], output_padding=[2]> (x, w) }""",
    ),
    "Affine without its parameters": (
        "activation Affine without activation_alpha",
        14,
        """g (float[2,1,1] x) => (float[2,1,1,1] y) <float[1,1,1] w = {1}> {
        y = RNN <hidden_size=1, activations=["Affine"]> (x, w, w) }""",
    ),
    "ScaledTanh without its parameters": (
        "activation ScaledTanh without activation_alpha",
        14,
        """g (float[2,1,1] x) => (float[2,1,1,1] y) <float[1,3,1] w = {1, 1, 1}> {
        y = GRU <hidden_size=1, activations=["Sigmoid", "ScaledTanh"]> (x, w, w) }""",
    ),
    "as many products as a run decides": (
        "6 products for 5 weights",
        17,
        """g (float[6] x, bool[6] c, float[5,2] w) => (float[2] y)
        { k = Compress (x, c) y = MatMul (k, w) }""",
    ),
    "products of truth values": (
        AGREES,
        18,
        """g (bool[3,4] x, bool[2,4] u) => (bool[3,4] y, bool[3,4] z)
        <int64[2,4] i = {0, 0, 1, 2, 0, 2, 1, 2}> {
        y = ScatterElements <reduction="mul"> (x, i, u)
        z = ScatterElements <reduction="add"> (x, i, u) }""",
    ),
    "rows and elements of no columns": (
        AGREES,
        21,
        """g (float[2,0,0,0,1] x) => (int64[5,0] p, int64[2,0,0] y, int64[0,0] z)
        <int64[2,0] i = {}, int64[0,1] k = {}>
        { p = NonZero (x) y = Gather (p, i) z = GatherND (p, k) }""",
    ),
    "axes from the end before opset 11": (
        AGREES,
        9,
        """g (float[2,3] x, float[2,1,4] u) => (float[2,3,1] a, float[2,1,3,1] b, float[2,4] c)
        { a = Unsqueeze <axes=[-1]> (x) b = Unsqueeze <axes=[1, -1]> (x)
        c = Squeeze <axes=[-2]> (u) }""",
    ),
    "a byte and its amount": (
        AGREES,  # both read one DequantizeLinear, and are one kernel
        13,
        """g (uint8[1,4,4] x) => (bool[1,4,4] y, float[1,4,4] z)
        <float s = {0.0225}, uint8 o = {63}> { f = DequantizeLinear (x, s, o) a = Abs (f)
        n = Neg (f) y = Greater (f, a) m = Sin (n) z = Mul (f, m) }""",
    ),
    "queries of integers": (
        "queries of int32; expected floats",
        21,
        """g (int32[1,1,8] q, int32[1,1,4] k, int32[1,1,4] v) => (y)
        <int32[1] n = {0}, int32 t = {1}> {
        y = com.microsoft.GroupQueryAttention <num_heads=2, kv_num_heads=1>
            (q, k, v, "", "", n, t) }""",
    ),
    "a crop of all": (
        AGREES,
        18,
        """g (float[1,3,7,9] x) => (y) <int64[4] s = {1, 3, 14, 18}> { y = Resize
        <coordinate_transformation_mode="tf_crop_and_resize", mode="linear"> (x, "", "", s) }""",
    ),
    "nothing to repeat": (
        "an axis of which negative pads leave nothing",
        21,
        """g (float[3] x) => (y) <int64[2] p = {-5, 4}> { y = Pad <mode="wrap"> (x, p) }""",
    ),
    "pads that contradict a shape": (
        AGREES,
        21,
        """g (int32[1,3,4,5] x, int64[8] p) => (int32[1,3,6,8] y)
        { y = Pad <mode="wrap"> (x, p) }""",
    ),
    "branches of sequences, one of which gives more": (
        "branches give 1 and 2 outputs",
        17,
        """g (bool b, float[2] x) => (seq(float[2]) s) { s = If (b) <
        then_branch = t () => (seq(float[2]) p, seq(float[2]) p) { p = SequenceConstruct (x) },
        else_branch = e () => (seq(float[2]) q) { q = SequenceConstruct (x) }> }""",
    ),
    "a body of a sequence that gives nothing": (
        "its subgraph gives 0 outputs; expected 1",
        17,
        """g (float[2] x) => (seq(float[2]) s) <int64 n = {3}> { z = SequenceConstruct (x)
        s = Loop (n, "", z) <body = b (int64 i, bool c, seq(float[2]) a) => ()
        { p = SequenceInsert (a, x) }> }""",
    ),
    "rows of run-time extents, scattered where they are not": (
        "ScatterND",
        17,
        """g (float[6,3] x, bool[6] c, float[3] u) => (float[k,3] y, float[3] w)
        { p = Compress <axis=0> (x, c) n = NonZero (p) at = Transpose (n) to = Transpose (at)
        old = GatherND (p, at) y = ScatterND (p, to, old) w = Neg (u) }""",
    ),
    "a sum beyond float32": (
        AGREES,
        21,
        """g (uint8[2,3] a, uint8[2,3] b) => (int8[2,3] y) <float r = {1e38}, uint8 z = {36},
        float t = {0.1}, float s = {0.2}, int8 o = {-113}> { p = DequantizeLinear (a, r, z)
        q = DequantizeLinear (b, t, z) u = Add (p, q) y = QuantizeLinear (u, s, o) }""",
    ),
    "parts of other ranks and run-time extents": (
        "All inputs to Concat must have same rank",
        17,
        """g (float[6,3] x, bool[6] c) => (float[m,n,k] y) <int64[1] a = {2}>
        { p = Compress <axis=0> (x, c) q = Unsqueeze (p, a) y = Concat <axis=2> (q, p) }""",
    ),
    **{
        f"equation {equation}": (
            text,
            17,
            f"""g (float[2,2] x) => (float[2,2] y) {{ y = Einsum <equation="{equation}"> (x) }}""",
        )
        for equation, text in {
            "i-j->ij": "is not an equation",  # onnx's inference does not end
            "......->": "is not an equation",
            "ij->ji->j": "is not an equation",
            "ij->jj": "has 'j' twice after '->'",
            "ij->ik": "has 'k' after '->' alone",
        }.items()
    },
    "a Slice of axes in no order": (
        AGREES,
        9,
        """g (float[3,4,5] x) => (float[?,?,?] y, float[?,?,?] z) { y = Slice
        <axes=[2,0], starts=[1,0], ends=[9223372036854775807,2]> (x)
        z = Slice <axes=[1,0], starts=[-3,-9], ends=[2147483647,-1]> (x) }""",
    ),
    **{
        f"{name} of axes in no order": (
            AGREES,
            opset,
            f"""g (float[1,3,1,2,1] x) => (y, z) <float[1,1,1,2,1] c = {{5, 7}}> {{
            y = {name} <axes={axes}> (x) d = {name} <axes={axes}> (c) z = Mul (y, d) }}""",
        )
        for name, opset, axes in (
            ("Squeeze", 9, [4, 2, 0]),
            ("Squeeze", 12, [2, -5]),
            ("Unsqueeze", 12, [5, 0, 3]),
        )
    },
    "a mask that is read": (
        AGREES,  # of its shape: onnxruntime's mask is 0
        9,
        "g (float[2,3] x) => (float[2,3] y, z) { y, m = Dropout (x) z = Shape (m) }",
    ),
    "axes of int32": (
        AGREES,
        21,
        """g (float[2,3] x) => (float[?,?] y) <int64[2] p = {1, 2}, int32[1] a = {-1}>
        { b = Identity (a) y = Pad (x, p, "", b) }""",
    ),
    "infinities times a beta of 0": (
        AGREES,
        13,
        """g (float[2,3] x) => (float[2,4] y, float[2,4] z)
        <float[3,4] w = {1,2,3,4,5,6,7,8,9,8,7,6},
        float[4] o = {0,0,0,0}, int64[1] a = {1}> { i = Reciprocal (o) y = Gemm <beta=0.0> (x, w, i)
        s = Sub (x, x) t = Reciprocal (s) c = ReduceSum (t, a) z = Gemm <beta=0.0> (x, w, c) }""",
    ),
    "a tensor that is its own scale": (
        AGREES,
        23,
        """g (float[4] x, float16[4] h) => (float[4] a, float[4] b, float16[4] c, float16[4] d)
        { s = Sigmoid (x) a = LayerNormalization (s, s) b = RMSNormalization (s, s)
        c = LayerNormalization (h, h, h) d = RMSNormalization (h, h) }""",
    ),
    "weights of classes, in lists of other lengths": (
        "class_nodeids",
        17,
        """g (float[2,3] x) => (int64[2] y, float[2,2] z) { y, z = ai.onnx.ml.TreeEnsembleClassifier
        <nodes_treeids=[0,0,0], nodes_nodeids=[0,1,2], nodes_featureids=[0,0,0],
        nodes_values=[0.5,0.0,0.0], nodes_modes=["BRANCH_LEQ","LEAF","LEAF"],
        nodes_truenodeids=[1,0,0], nodes_falsenodeids=[2,0,0], class_treeids=[0,0],
        class_nodeids=[1,2,2], class_ids=[0,1], class_weights=[0.25,0.75],
        classlabels_int64s=[0,1], post_transform="NONE"> (x) }""",
    ),
    "an equation without letters": (
        "Einsum '' of a tensor of 2 axes",
        17,
        """g (double[3,4] x) => (double[4,3] y) { y = Einsum <equation=""> (x) }""",
    ),
    **{
        f"{op} of rank {rank}": (
            "expected 3 axes or more",
            22,
            f"""g (float[{shape}] x) => (float[{shape}] y) {{ z = Acos (x) y = {op} (z) }}""",
        )
        for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
        for rank, shape in enumerate(("", "3", "1,3"))
        if rank
    },
    **{
        f"{name} without axes": (
            "windows for the axes of scalar" if name == "Slice" else "expected 1 axis or more",
            opset,
            f"g ({inputs}) => (float y) {{ {node} }}",
        )
        for name, (opset, inputs, node) in {
            "Add": (6, "double x, double[3] b", "y = Add <broadcast=1, axis=1> (x, b)"),
            "ReduceMean": (6, "float x", "y = ReduceMean <axes=[2], keepdims=0> (x)"),
            "ReduceSum": (6, "float x", "y = ReduceSum <axes=[2], keepdims=0> (x)"),
            "Resize": (19, "float x, float[4] s", 'y = Resize <mode="cubic"> (x, "", s)'),
            "Scatter": (
                10,
                "float x, int64[1,2] i, float[1,2] u",
                "y = Scatter <axis=1> (x, i, u)",
            ),
            "Slice": (13, "float x, int64[3] s, int64[3] e", "y = Slice (x, s, e)"),
            "Upsample": (9, "float x, float[4] s", 'y = Upsample <mode="nearest"> (x, s)'),
        }.items()
    },
}
