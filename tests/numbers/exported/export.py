"""Trains estimators of scikit-learn on its own data and exports them as skl2onnx does.

    pip install scikit-learn skl2onnx
    python tests/numbers/exported/export.py     writes *.onnx beside this file

The exports are committed, so that tests need neither package. Domains that are imported twice,
ZipMap and the rest stay as the exporter writes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from skl2onnx import to_onnx
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

HERE = Path(__file__).parent
FIXED: dict[str, Any] = {"random_state": 0}
SMALL: dict[str, Any] = {"n_estimators": 6, "max_depth": 4, "random_state": 0}
NO_ZIPMAP = {"zipmap": False}

CLASSIFIERS: dict[str, tuple[Any, Any]] = {
    "decision_tree": (DecisionTreeClassifier(max_depth=5, **FIXED), NO_ZIPMAP),
    "random_forest": (RandomForestClassifier(**SMALL), NO_ZIPMAP),
    "random_forest_zipmap": (RandomForestClassifier(**SMALL), None),
    "gradient_boosting": (GradientBoostingClassifier(**SMALL), NO_ZIPMAP),
    "logistic_regression": (LogisticRegression(), NO_ZIPMAP),
    "logistic_regression_zipmap": (LogisticRegression(), None),
    "svc": (SVC(probability=True, **FIXED), NO_ZIPMAP),
    "naive_bayes": (GaussianNB(), NO_ZIPMAP),
    "neighbours": (KNeighborsClassifier(3), NO_ZIPMAP),
    "perceptron": (MLPClassifier((8,), max_iter=300, **FIXED), NO_ZIPMAP),
    "pipeline": (
        make_pipeline(StandardScaler(), PCA(2, **FIXED), LogisticRegression()),
        NO_ZIPMAP,
    ),
    "isolation_forest": (IsolationForest(n_estimators=5, **FIXED), None),
    "k_means": (KMeans(3, n_init=1, **FIXED), None),
}
REGRESSORS: dict[str, Any] = {
    "random_forest_regressor": RandomForestRegressor(**SMALL),
    "extra_trees_regressor": ExtraTreesRegressor(**SMALL),
    "gradient_boosting_regressor": GradientBoostingRegressor(**SMALL),
    "ridge": Ridge(),
    "svr": SVR(),
    "polynomial": make_pipeline(MinMaxScaler(), PolynomialFeatures(2), Ridge()),
}


def exported(estimator: Any, data: Any, options: Any) -> onnx.ModelProto:
    x, y = data
    fitted = estimator.fit(x.astype(np.float32), y)
    opset = {"": 18, "ai.onnx.ml": 3}
    model = to_onnx(fitted, x[:1].astype(np.float32), options=options, target_opset=opset)
    assert isinstance(model, onnx.ModelProto)
    return model


def main() -> None:
    iris, diabetes = load_iris(return_X_y=True), load_diabetes(return_X_y=True)
    few = tuple(part[::3] for part in iris), tuple(part[::3] for part in diabetes)
    for name, (estimator, options) in CLASSIFIERS.items():
        onnx.save(exported(estimator, few[0], options), HERE / f"{name}.onnx")
    for name, estimator in REGRESSORS.items():
        onnx.save(exported(estimator, few[1], None), HERE / f"{name}.onnx")


if __name__ == "__main__":
    main()
