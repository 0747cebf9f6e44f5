"""The operators of ai.onnx.ml, as scikit-learn's models come in ONNX, against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cases import Case, Results
from onnx import helper

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
    binary = {"coefficients": rng.normal(size=10), "intercepts": [0.2, -0.2]}
    binary |= {"classlabels_ints": [0, 1], "post_transform": "LOGISTIC", "multi_class": 1}
    yield case("logistic_binary", "LinearClassifier", x, outputs=2, **binary)
    vectors = {"support_vectors": rng.normal(size=20), "coefficients": rng.normal(size=4)}
    vectors |= {"n_supports": 4, "rho": [0.4]}
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        params = {"kernel_type": kind, "kernel_params": [0.2, 0.5, 3.0]}
        yield case(f"svm_{kind}", "SVMRegressor", x, **vectors, **params)
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


CASES = (*ensembles(), *others())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("ml"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)
