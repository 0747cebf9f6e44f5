"""Operators on a batch whose size is known only at run time, against onnxruntime: whatever computes
each element of a batch by itself takes such a batch, and its result has as many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from onnx import TensorProto, helper, numpy_helper, parser
from oracle import Array, onnxruntime_float, relative_error

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HELD = np.array([1, 0, 1, 1, 0, 1], bool)
R = np.random.default_rng(15)
IMAGE = R.normal(size=(6, 2, 5, 7)).astype(np.float32)
ROWS = R.normal(size=(6, 4)).astype(np.float32)
INT64 = np.int64
M = "ai.onnx.ml"
TREE = {
    **{f"nodes_{name}": [0, 0, 0] for name in ("treeids", "featureids")},
    **{"nodes_nodeids": [0, 1, 2], "nodes_values": [0.2, 0.0, 0.0]},
    **{"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "n_targets": 1},
    **{"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]},
    **{"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0]},
    "target_weights": [1.0, 2.0],
}
SVM = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "coefficients": [1.0, -2.0]}


@dataclass(frozen=True)
class Case:
    """Arrays named x0, x1 ... are batches, others constants; `form` has their names in order."""

    op: str
    form: str
    arrays: Mapping[str, Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 22


def _sizes(*n: int) -> Array:
    return np.array(n, INT64)


def _scales(*n: float) -> Array:
    return np.array(n, np.float32)


X = {"x0": IMAGE}
BORDERS = {**X, "p": _sizes(0, 0, 1, 2, 0, 0, 1, 0)}
CASES = {
    **{
        f"resize {mode}": Case("Resize", "x0,,s", {**X, "s": _scales(1, 1, 2, 1.5)}, {"mode": mode})
        for mode in ("nearest", "linear", "cubic")
    },
    "resize to sizes": Case(
        "Resize", "x0,,,n", {**X, "n": _sizes(3, 9)}, {"axes": [2, 3], "mode": "linear"}
    ),
    "resize 11": Case("Resize", "x0,s,s", {**X, "s": _scales(1, 1, 0.5, 2)}, opset=11),
    "resize 10": Case("Resize", "x0,s", {**X, "s": _scales(1, 1, 3, 2)}, opset=10),
    "upsample": Case("Upsample", "x0,s", {**X, "s": _scales(1, 1, 2, 2)}, opset=9),
    **{
        f"pad {mode}": Case("Pad", "x0,p", BORDERS, {"mode": mode})
        for mode in ("constant", "edge", "reflect", "wrap")
    },
    "pad axes": Case("Pad", "x0,p,,a", {**X, "p": _sizes(1, 2, -1, 0), "a": _sizes(2, -1)}),
    "pad 9": Case("Pad", "x0", X, {"pads": [0, 0, 1, 2, 0, 0, 1, 0]}, opset=9),
    "pad the batch": Case("Pad", "x0,p", {**X, "p": _sizes(1, 0, 1, 2, 1, 0, 1, 0)}),
    "crop": Case("CenterCropPad", "x0,n", {**X, "n": _sizes(3, 9)}, {"axes": [2, 3]}),
    "sample": Case("GridSample", "x0,x1", {**X, "x1": R.normal(size=(6, 3, 4, 2)) * 0.5}),
    "deform": Case(
        "DeformConv",
        "x0,w,x1",
        {**X, "w": R.normal(size=(3, 2, 3, 3)), "x1": R.normal(size=(6, 18, 5, 7)) * 0.3},
        {"pads": [1] * 4},
    ),
    "reverse": Case(
        "ReverseSequence",
        "x0,x1",
        {"x0": IMAGE[..., 0], "x1": _sizes(1, 2, 2, 1, 2, 1)},
        {"batch_axis": 0, "time_axis": 1},
    ),
    "transform": Case("DFT", "x0,,a", {"x0": IMAGE[..., :1], "a": _sizes(2)[0]}),
    "transform of the axis before the last": Case("DFT", "x0", {"x0": IMAGE[..., :2]}),
    "first half of a transform": Case(
        "DFT",
        "x0,n,a",
        {"x0": IMAGE[..., :1], "n": _sizes(7)[0], "a": _sizes(-2)[0]},
        {"onesided": 1},
    ),
    "transform 17": Case("DFT", "x0", {"x0": IMAGE[..., :2]}, {"axis": 2, "inverse": 1}, opset=17),
    "ones on a diagonal": Case("EyeLike", "x0", {"x0": ROWS}, {"k": 1}),
    "inverses": Case("com.microsoft.Inverse", "x0", {"x0": R.normal(size=(6, 3, 3))}),
    "determinants": Case("Det", "x0", {"x0": R.normal(size=(6, 3, 3))}),
    "columns": Case(
        "Col2Im", "x0,n,k", {"x0": R.normal(size=(6, 8, 12)), "n": _sizes(4, 5), "k": _sizes(2, 2)}
    ),
    "space": Case("SpaceToDepth", "x0", {"x0": IMAGE[:, :, :4, :6]}, {"blocksize": 2}),
    "depth": Case("DepthToSpace", "x0", {"x0": R.normal(size=(6, 8, 2, 3))}, {"blocksize": 2}),
    "attention": Case(
        "Attention", "x0,x0,x0", {"x0": R.normal(size=(6, 2, 3, 4)).astype(np.float32)}, opset=24
    ),
    "scaler": Case(f"{M}.Scaler", "x0", {"x0": ROWS}, {"offset": [0.1] * 4, "scale": [2.0] * 4}),
    "normalizer": Case(f"{M}.Normalizer", "x0", {"x0": ROWS}, {"norm": "L2"}),
    "binarizer": Case(f"{M}.Binarizer", "x0", {"x0": ROWS}, {"threshold": 0.1}),
    "imputer": Case(f"{M}.Imputer", "x0", {"x0": ROWS}, {"imputed_value_floats": [1.0] * 4}),
    "columns picked": Case(f"{M}.ArrayFeatureExtractor", "x0,i", {"x0": ROWS, "i": _sizes(1, 3)}),
    "columns joined": Case(
        f"{M}.FeatureVectorizer", "x0,x0", {"x0": ROWS}, {"inputdimensions": [4, 6]}
    ),
    "linear": Case(
        f"{M}.LinearRegressor", "x0", {"x0": ROWS}, {"coefficients": [1.0, 2, 3, 4], "targets": 1}
    ),
    "support vectors": Case(
        f"{M}.SVMRegressor",
        "x0",
        {"x0": ROWS},
        {**SVM, "support_vectors": [1.0, 2, 3, 4] * 2, "n_supports": 2, "rho": [0.1]},
    ),
    "tree": Case(f"{M}.TreeEnsembleRegressor", "x0", {"x0": ROWS}, TREE),
    "labels": Case(
        f"{M}.LabelEncoder",
        "x0",
        {"x0": _sizes(0, 1, 2, 3, 1, 2)},
        {"keys_int64s": [0, 1], "values_floats": [0.5, 0.2]},
    ),
    "one hot": Case(
        f"{M}.OneHotEncoder", "x0", {"x0": _sizes(0, 1, 2, 1, 1, 2)}, {"cats_int64s": [0, 1, 2]}
    ),
}


def _built(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    arrays = {
        n: np.asarray(a, np.float32) if np.asarray(a).dtype == np.float64 else a
        for n, a in case.arrays.items()
    }
    batches = {n: a for n, a in arrays.items() if n.startswith("x")}
    kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in batches.items()}
    domain, _, op = case.op.rpartition(".")
    names = [f"{n}.held" if n in batches else n for n in case.form.split(",")]
    nodes = [
        *(helper.make_node("Compress", [n, "c"], [f"{n}.held"], axis=0) for n in batches),
        helper.make_node(op, names, ["y"], domain=domain, **case.attrs),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, [6]),
            *(helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in batches.items()),
        ],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in batches],
    )
    opsets = [helper.make_opsetid("", case.opset), helper.make_opsetid(M, 3)]
    opsets.append(helper.make_opsetid("com.microsoft", 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {"c": HELD, **batches}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    built = {name: _built(case) for name, case in CASES.items()}
    made = {name: Job(model, [feeds]) for name, (model, feeds) in built.items()}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("batches"))
    return made


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    (want,), (got,) = onnxruntime_float(job.model, job.feeds), job.results
    assert got["y"].shape == want["y"].shape
    assert relative_error(got["y"], want["y"]) <= 1e-5


# Sizes that a model computes of the shape of such a batch, as PyTorch's exporter writes them.
SHAPES = {
    "a resize to computed sizes": """s = Shape (a) p = Slice (s, z, two)
        t = Concat <axis = 0> (p, n) y = Resize <mode = "linear"> (a, , , t)""",
    "extents joined by products": """s = Shape (a) b, c, h, w = Split <num_outputs = 4> (s)
        v = Mul (h, w) t = Concat <axis = 0> (b, v, c) y = Reshape (a, t)""",
    "extents taken apart": """s = Shape (a) b = Slice (s, z, one) c = Slice (s, one, two)
        d = Div (c, two) e = Add (d, one) f = Sub (e, one) t = Concat <axis = 0> (b, f, two, m)
        y = Reshape (a, t)""",
    "one of them, counted from the end": "e = Neg (j) y = Gather (a, e)",
    "each of them in a loop": """y = Loop (three, yes) <body = b (int64 k, bool g) =>
        (bool d, float[4] v) { d = Identity (g) p = Gather (a, k) q = Gather <axis = 2> (p, i)
        v = Gather <axis = 1> (q, i) }>""",
}
HEAD = """<ir_version: 10, opset_import: ["": 18]> g (float[6,4,5,3] x0, bool[6] c0, int64 j)
    => (float[k] y) <int64[1] z = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] m = {-1},
     int64[2] n = {3, 7}, int64 i = {0}, int64 three = {3}, bool yes = {1}> {"""


@pytest.mark.parametrize("name", SHAPES)
def test_sizes_computed_of_its_shape(name: str, tmp_path: Any) -> None:
    text = f"{HEAD} a = Compress <axis = 0> (x0, c0) {SHAPES[name]} }}"
    model = parser.parse_model(text)
    model.graph.output[0].ClearField("type")
    feeds = {"x0": R.normal(size=(6, 4, 5, 3)).astype(np.float32), "c0": HELD, "j": np.array(2)}
    job = Job(model, [feeds])
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    (want,) = onnxruntime_float(model, [feeds])
    assert job.results[0]["y"].shape == want["y"].shape
    assert relative_error(job.results[0]["y"], want["y"]) <= 1e-5


TRUE = {
    "scales": Case("Resize", "x0,,s", {**X, "s": _scales(2, 1, 2, 2)}),
    "crop": Case("CenterCropPad", "x0,n", {**X, "n": _sizes(3, 2, 3, 9)}),
    "time": Case(
        "ReverseSequence", "x0,n", {"x0": IMAGE[..., 0], "n": _sizes(1, 1)}, {"time_axis": 0}
    ),
    "reflect": Case("Pad", "x0,p", {**X, "p": _sizes(1, 0, 1, 2, 1, 0, 1, 0)}, {"mode": "reflect"}),
    "attribute": Case("Pad", "x0", X, {"pads": [1, 0, 1, 2, 1, 0, 1, 0]}, opset=9),
    "transformed": Case("DFT", "x0,,a", {"x0": IMAGE[..., :1], "a": _sizes(0)[0]}),
    "of two": Case("GridSample", "x0,x1", {**X, "x1": R.normal(size=(6, 3, 4, 2))[:5]}),
}


@pytest.mark.parametrize("name", TRUE)
def test_what_changes_the_batch_is_refused(name: str) -> None:
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(_built(TRUE[name])[0]))
    assert {p.code for p in caught.value.problems} <= {"MLF0302", "MLF0206"}
    assert all(p.help for p in caught.value.problems if p.code == "MLF0302")
