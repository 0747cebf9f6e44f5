"""The operators of ai.onnx.ml, as scikit-learn's models come in ONNX, against onnxruntime."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from cases import Case, Results
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mlftool.backend
from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"


def case(
    name: str, op: str, *feeds: Array, outputs: int = 1, version: int = 3, **attrs: Any
) -> Case:
    """One node; what is fed is also how its inputs are typed."""
    infos = [
        helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in enumerate(feeds)
    ]
    names = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, [i.name for i in infos], names, domain=ML, **attrs)
    graph = helper.make_graph(
        [node], "net", infos, [helper.make_empty_tensor_value_info(n) for n in names]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, version)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    return Case(name, model, feeds=[{f"x{k}": v for k, v in enumerate(feeds)}])


def tree(rng: np.random.Generator, index: int, depth: int, features: int, modes: list[str]) -> Any:
    """Node attributes of one random tree, and the numbers of its leaves."""
    nodes: list[dict[str, Any]] = []
    leaves: list[int] = []

    def grow(level: int) -> int:
        me = len(nodes)
        nodes.append({})
        inner = level < depth and (level == 0 or rng.random() < 0.8)
        nodes[me] = {
            "treeids": index,
            "nodeids": me,
            "featureids": int(rng.integers(features)),
            "values": float(np.float32(rng.integers(-8, 9) / 4)),
            "modes": str(rng.choice(modes)) if inner else "LEAF",
            "missing_value_tracks_true": int(rng.integers(2)) if inner else 0,
            "truenodeids": grow(level + 1) if inner else 0,
            "falsenodeids": grow(level + 1) if inner else 0,
        }
        if not inner:
            leaves.append(me)
        return me

    grow(0)
    return nodes, leaves


def forest(
    seed: int, prefix: str, targets: list[int], *, trees: int = 3, negative: bool = True
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    modes = ["BRANCH_LEQ"] if seed % 2 else ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"]
    attrs: dict[str, list[Any]] = {}
    for index in range(trees):
        nodes, leaves = tree(rng, index, 4, 5, modes)
        for node in nodes:
            for key, value in node.items():
                attrs.setdefault(f"nodes_{key}", []).append(value)
        for leaf in leaves:
            for target in targets:
                entry = {"treeids": index, "nodeids": leaf, "ids": target}
                entry["weights"] = float(np.float32(rng.normal() if negative else rng.random() / 3))
                for key, value in entry.items():
                    attrs.setdefault(f"{prefix}_{key}", []).append(value)
    if seed % 3:
        del attrs["nodes_missing_value_tracks_true"]
    return attrs


def samples(seed: int, missing: bool = False, dtype: Any = np.float32) -> Array:
    rng = np.random.default_rng(seed)
    x = (rng.integers(-12, 13, (40, 5)) / 4).astype(dtype)  # some equal to thresholds
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return np.asarray(x)


# A set of categories as LightGBM's converter writes it: equal to 1, -2 or 0.5. Node 1 is the child
# of three tests, and node 8 of none.
CHAIN: dict[str, Any] = {
    **{"nodes_treeids": [0] * 9, "nodes_nodeids": [*range(9)], "n_targets": 1},
    **{"nodes_modes": ["BRANCH_EQ", "BRANCH_LEQ", *["BRANCH_EQ"] * 2, *["LEAF"] * 5]},
    **{"nodes_truenodeids": [1, 4, 1, 1] + [0] * 5, "nodes_falsenodeids": [2, 5, 3, 6] + [0] * 5},
    **{"nodes_featureids": [2, 0, 2, 2] + [0] * 5},
    **{"nodes_values": [1.0, 0.25, -2.0, 0.5] + [0.0] * 5},
    **{"target_treeids": [0] * 4, "target_nodeids": [4, 5, 6, 8], "target_ids": [0] * 4},
    "target_weights": [1.0, -2.0, 4.0, 8.0],
}


def ensembles() -> Iterator[Case]:
    for seed, how in enumerate(("SUM", "AVERAGE", "MIN", "MAX", "SUM", "SUM")):
        attrs = forest(seed, "target", [0] if seed % 2 else [0, 1, 2])
        n = 1 if seed % 2 else 3
        attrs |= {"n_targets": n, "aggregate_function": how}
        if how == "SUM":
            attrs["base_values"] = [0.25] * n
            attrs["post_transform"] = ("NONE", "LOGISTIC", "SOFTMAX")[seed // 2 % 3]
        x = samples(seed, missing=seed % 3 == 0)
        yield case(f"regressor_{seed}_{how}", "TreeEnsembleRegressor", x, **attrs)
    for how, targets in (("SUM", [0, 0, 0]), ("MAX", [0, 0]), ("SUM", [1, 0, 1])):
        attrs = forest(2, "target", targets) | {"aggregate_function": how}
        attrs["n_targets"] = len(set(targets))
        name = f"several_weights_{how}_{len(targets)}_{targets[0]}"
        yield case(name, "TreeEnsembleRegressor", samples(2), **attrs)
    yield case("shared_child", "TreeEnsembleRegressor", samples(3, missing=True), **CHAIN)
    for seed, how in ((4, "NONE"), (5, "LOGISTIC")):
        both = forest(seed, "class", [0, 1], negative=how != "NONE") | {"post_transform": how}
        both["classlabels_int64s"] = [0, 1]  # of others onnxruntime answers with these
        yield case(f"both_{how}", "TreeEnsembleClassifier", samples(seed), outputs=2, **both)
    for seed, how in enumerate(("NONE", "LOGISTIC", "SOFTMAX", "NONE")):
        attrs = forest(seed, "class", [0, 1, 2], negative=how != "NONE")
        attrs |= {"classlabels_int64s": [7, 3, 5], "post_transform": how}
        yield case(f"classes_{seed}", "TreeEnsembleClassifier", samples(seed), outputs=2, **attrs)
    for seed in range(8):
        negative, how, one = bool(seed % 2), ("NONE", "LOGISTIC")[seed // 2 % 2], seed // 4
        attrs = forest(seed, "class", [one], negative=negative)
        attrs |= {"classlabels_int64s": [4, 9], "post_transform": how}
        if negative and not one:
            attrs["base_values"] = [-0.3]
        name = f"two_classes_{how}_{negative}_{one}"
        yield case(name, "TreeEnsembleClassifier", samples(seed), outputs=2, **attrs)


def others() -> Iterator[Case]:
    rng = np.random.default_rng(4)
    x, whole = samples(9), rng.integers(0, 6, (8, 3))
    for how in ("NONE", "LOGISTIC", "SOFTMAX"):
        attrs = {"coefficients": rng.normal(size=15), "intercepts": rng.normal(size=3)}
        attrs["post_transform"] = how
        yield case(f"linear_{how}", "LinearRegressor", x, targets=3, **attrs)
        attrs |= {"classlabels_ints": [2, 5, 9], "multi_class": 1}
        yield case(f"logistic_{how}", "LinearClassifier", x, outputs=2, **attrs)
    many = {"coefficients": rng.normal(size=21), "intercepts": rng.normal(size=3)}
    many |= {"classlabels_ints": [0, 1, 2], "multi_class": 1}  # as in onnxruntime's data sets
    yield case("logistic_of_too_many", "LinearClassifier", x, outputs=2, **many)
    binary = {"coefficients": rng.normal(size=10), "intercepts": [0.2, -0.2]}
    binary |= {"classlabels_ints": [0, 1], "post_transform": "LOGISTIC", "multi_class": 1}
    yield case("logistic_binary", "LinearClassifier", x, outputs=2, **binary)
    vectors = {"support_vectors": rng.normal(size=20), "coefficients": rng.normal(size=4)}
    vectors |= {"n_supports": 4, "rho": [0.4]}
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        params = {"kernel_type": kind, "kernel_params": [0.2, 0.5, 3.0]}
        yield case(f"svm_{kind}", "SVMRegressor", x, **vectors, **params)
    yield case("svm_alone", "SVMRegressor", x, **vectors, **params, post_transform="LOGISTIC")
    nan = {"keys_floats": [1.0, np.nan, 0.0, np.nan], "values_int64s": [5, 6, 7, 8]}
    given = np.array([np.nan, 1.0, -0.0, 2.0], np.float32)
    yield case("key_that_is_no_number", "LabelEncoder", given, version=4, **nan)
    yield case(
        "svm_one_class",
        "SVMRegressor",
        x,
        one_class=1,
        kernel_type="RBF",
        kernel_params=[0.2, 0.0, 0.0],
        **vectors,
    )
    yield case("scaler", "Scaler", x, offset=rng.normal(size=5), scale=[1.0, 2.0, 0.5, 3.0, -1.0])
    yield case("scaler_of_integers", "Scaler", whole, offset=[1.0], scale=[0.5])
    for norm in ("MAX", "L1", "L2"):
        yield case(f"normalizer_{norm}", "Normalizer", np.abs(x), norm=norm)
    missing = samples(2, missing=True)
    yield case(
        "imputer",
        "Imputer",
        missing,
        imputed_value_floats=[1.0, 2.0, 3.0, 4.0, 5.0],
        replaced_value_float=float("nan"),
    )
    yield case(
        "imputer_of_integers", "Imputer", whole, imputed_value_int64s=[9], replaced_value_int64=3
    )
    yield case("binarizer", "Binarizer", x, threshold=0.25)
    yield case(
        "vectorizer",
        "FeatureVectorizer",
        x,
        whole[:1].repeat(40, 0).astype(np.float32),
        inputdimensions=[5, 3],
    )
    yield case("vectorizer_of_less", "FeatureVectorizer", x, x, inputdimensions=[9, 2])
    yield case("one_hot", "OneHotEncoder", whole, cats_int64s=[0, 2, 3, 5], zeros=1)
    yield case(
        "labels",
        "LabelEncoder",
        whole,
        version=2,
        keys_int64s=[5, 1, 3],
        values_floats=[0.5, 1.5, 2.5],
        default_float=-9.0,
    )
    yield case(
        "labels_of_floats",
        "LabelEncoder",
        x,
        version=2,
        keys_floats=[0.25, 1.0],
        values_int64s=[7, 8],
        default_int64=1,
    )
    yield case("columns", "ArrayFeatureExtractor", x, np.array([3, 0, 3]))


def transforms() -> Iterator[Case]:
    """Every post_transform where scores are few or many, and labels that are strings."""
    rng = np.random.default_rng(11)
    x = samples(3)
    for how in ("SOFTMAX_ZERO", "PROBIT"):
        weights = {"coefficients": rng.normal(size=15), "intercepts": rng.normal(size=3)}
        y = 0.03 * x + 0.1 if how == "PROBIT" else x
        yield case(f"linear_{how}", "LinearRegressor", y, targets=3, post_transform=how, **weights)
    for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        one = {"coefficients": rng.normal(size=5), "intercepts": [0.2], "post_transform": how}
        yield case(f"alone_{how}", "LinearRegressor", x, **one)
        names = {"classlabels_strings": ["no", "yes"]}
        yield case(f"one_row_{how}", "LinearClassifier", x, outputs=2, **one, **names)
    attrs = forest(2, "class", [0, 1, 2])
    attrs |= {"classlabels_strings": ["x", "y", "z"], "post_transform": "SOFTMAX_ZERO"}
    yield case("named_classes", "TreeEnsembleClassifier", x, outputs=2, **attrs)


def machines() -> Iterator[Case]:
    rng = np.random.default_rng(12)
    x = samples(4)
    for classes in (2, 3, 4):
        pairs, counts = classes * (classes - 1) // 2, list(range(2, classes + 2))
        total = sum(counts)
        for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
            for proba in (False, True):
                attrs = {
                    "support_vectors": rng.normal(size=total * 5),
                    "coefficients": rng.normal(size=(classes - 1) * total),
                    "vectors_per_class": counts,
                    "rho": rng.normal(size=pairs) * 0.3,
                    "kernel_type": ("RBF", "LINEAR", "POLY", "SIGMOID")[classes % 4],
                    "kernel_params": [0.1, 0.2, 2.0],
                    "classlabels_ints": [5, 7, 9, 2][:classes],
                    "post_transform": how,
                }
                if proba:
                    attrs["prob_a"] = -np.abs(rng.normal(size=pairs))
                    attrs["prob_b"] = rng.normal(size=pairs) * 0.1
                name = f"svc_{classes}_{how}_{proba}"
                yield case(name, "SVMClassifier", x, outputs=2, **attrs)
        for how, sign in (("NONE", np.abs), ("LOGISTIC", np.negative)):
            weights = sign(np.abs(rng.normal(size=classes * 5)))
            attrs = {"coefficients": weights, "rho": [0.2], "post_transform": how}
            attrs["kernel_params"] = [0.0, 0.0, 0.0]
            attrs |= {"classlabels_strings": ["a", "b", "c", "d"][:classes]}
            name = f"linear_machine_{classes}_{how}"
            yield case(name, "SVMClassifier", x, outputs=2, kernel_type="LINEAR", **attrs)


def names() -> Iterator[Case]:
    x = np.array([["red", "green"], ["blue", "red"], ["", "grün"]], object)
    keys = {"keys_strings": ["red", "grün", "blue"]}
    yield case("names_to_numbers", "LabelEncoder", x, version=2, values_int64s=[3, 1, 2], **keys)
    yield case("names_to_names", "LabelEncoder", x, version=2, values_strings=["R", "G", "B"],
               **keys)  # fmt: skip
    yield case("numbers_to_names", "LabelEncoder", np.arange(6), version=2, keys_int64s=[4, 1],
               values_strings=["four", "one"], default_string="?")  # fmt: skip
    yield case("named_columns", "OneHotEncoder", x, cats_strings=["red", "blue"], zeros=1)
    pairs = {"cats_strings": ["red", "green", "blue"], "cats_int64s": [1, 5, 9]}
    yield case("mapped", "CategoryMapper", x, default_int64=-7, **pairs)
    yield case("mapped_back", "CategoryMapper", np.array([[5, 1], [2, 9]]), default_string="none",
               **pairs)  # fmt: skip
    yield case("chosen_columns", "ArrayFeatureExtractor", x, np.array([1, 0, 1]))


CASES = (*ensembles(), *others(), *transforms(), *machines(), *names())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("ml"), selected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)


def stump(transform: int, dtype: Any) -> onnx.ModelProto:
    """One test of the new TreeEnsemble: scores [0.25, 0] or [0, 0.75]."""
    tensor = numpy_helper.from_array
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain=ML, n_targets=2, post_transform=transform,
        tree_roots=[0], nodes_featureids=[0], nodes_splits=tensor(np.array([1], dtype)),
        nodes_modes=tensor(np.array([0], np.uint8)), nodes_trueleafs=[1], nodes_truenodeids=[0],
        nodes_falseleafs=[1], nodes_falsenodeids=[1], leaf_targetids=[0, 1],
        leaf_weights=tensor(np.array([0.25, 0.75], dtype)),
    )  # fmt: skip
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), (2, 1))
    graph = helper.make_graph([node], "net", [x], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(ML, 5)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def test_scores_whose_meaning_depends_on_the_leaf_are_refused() -> None:
    """A sample without a weight for the second of two classes is one of a single score."""
    attrs = forest(4, "class", [0, 1]) | {"classlabels_int64s": [4, 9]}
    attrs["class_ids"] = [0] * 2 + attrs["class_ids"][2:]
    for start in range(0, len(attrs["class_ids"]), 2):
        if attrs["class_treeids"][start] != attrs["class_treeids"][start - 1]:
            attrs["class_ids"][start + 1] = 0
    made = case("mixed", "TreeEnsembleClassifier", samples(4), outputs=2, **attrs)
    with pytest.raises(MlfError, match="weigh the first of two classes alone; supported: neither"):
        mlftool.backend.prepare(made.model)


def test_nodes_that_lead_to_each_other_are_refused() -> None:
    attrs = CHAIN | {"nodes_falsenodeids": [2, 5, 3, 2] + [0] * 5}
    made = case("circle", "TreeEnsembleRegressor", samples(3), **attrs)
    with pytest.raises(MlfError, match="its nodes lead to each other in a circle; supported: tre"):
        mlftool.backend.prepare(made.model)


def test_a_target_without_a_weight_is_its_base_value() -> None:
    """As in the standard's reference; onnxruntime gives 0 (docs/operators.md)."""
    attrs = {
        **{"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3},
        **{"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0]},
        **{"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "n_targets": 2},
        **{"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 1]},
        **{"target_weights": [1.0, 2.0], "base_values": [0.5, 0.25]},
    }
    x = np.array([[0.0], [1.0]], np.float32)
    made = case("base", "TreeEnsembleRegressor", x, **attrs)
    (got,) = mlftool.backend.run_model(made.model, [x])
    (want,) = ReferenceEvaluator(made.model).run(None, {"x0": x})
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got, [[1.5, 0.25], [0.5, 2.25]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_the_standard_says_is_done_to_scores_of_trees(dtype: Any) -> None:
    """onnxruntime takes LOGISTIC for 1 and SOFTMAX for 2; the standard has them the other way."""
    scores = np.array([[0.25, 0.0], [0.0, 0.75]])
    exp = np.exp(scores)
    rest = np.where(scores, exp, 0)
    wanted = [
        scores,
        exp / exp.sum(1, keepdims=True),
        exp / (1 + exp),
        rest / rest.sum(1, keepdims=True),
    ]
    x = np.array([[1.0], [1.5]], dtype)
    for transform, want in enumerate(wanted):
        (got,) = mlftool.backend.run_model(stump(transform, dtype), [x])
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)
    (got,) = mlftool.backend.run_model(stump(4, dtype), [x])
    quantile = statistics.NormalDist().inv_cdf
    assert got[0, 0] == pytest.approx(quantile(0.25), abs=2e-3)  # as near as the formula is
    assert got[1, 1] == pytest.approx(quantile(0.75), abs=2e-3)
    assert got[0, 1] == got[1, 0] == -np.inf


@pytest.mark.parametrize(
    "name",
    [
        *("nodes_trueleafs", "nodes_falseleafs", "nodes_truenodeids", "nodes_falsenodeids"),
        *("nodes_featureids", "leaf_targetids", "nodes_splits", "leaf_weights", "nodes_modes"),
    ],
)
def test_a_list_of_a_tree_that_is_too_long(name: str) -> None:
    model = stump(0, np.float32)
    found = next(a for a in model.graph.node[0].attribute if a.name == name)
    if found.ints:
        found.ints.append(1)
    else:
        longer = np.append(numpy_helper.to_array(found.t), numpy_helper.to_array(found.t)[:1])
        found.t.CopyFrom(numpy_helper.from_array(longer))
    with pytest.raises(MlfError) as refused:
        compile_module(ModuleSpec(model))
    assert refused.value.exit_code == 2, refused.value
