"""Tree ensembles in terms of our operator Trees, which has TreeEnsemble's attributes: inner nodes
are apart from leaves, as they are not in the two older operators.

One thing is not the standard's: the attribute `mlf.leaf_counts`. Leaves of the old operators hold a
weight for each of several targets; entry k counts the weights of leaf k, which lie together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from mlftool.onnx_rules.scope import Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.base import UnsupportedError
from mlftool.ops.ml import FLOAT, as_many, classified, labels_of, ml, transformed, unchanged_alone

NODES = ("treeids", "nodeids", "modes", "truenodeids", "falsenodeids", "featureids")
WEIGHTS = ("treeids", "nodeids", "ids")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _counts(s: Steps, prefix: str) -> tuple[dict[str, int], dict[str, int]]:
    """The lengths of lists with an entry for each node, and for each weight of a leaf. Raises
    Refuse where those of one kind differ."""
    nodes = {f"nodes_{name}": len(s.attrs[f"nodes_{name}"]) for name in NODES}
    as_many("nodes", nodes)
    weights = {f"{prefix}_{name}": len(s.attrs[f"{prefix}_{name}"]) for name in WEIGHTS}
    as_many("weights", weights)
    return nodes, weights


@dataclass
class _Forest:
    """The attributes of TreeEnsemble, collected tree by tree."""

    s: Steps
    prefix: str  # of the attributes that weigh the leaves: "target" or "class"
    dtype: Any
    where: dict[tuple[int, int], int] = field(default_factory=dict)  # (tree, node) -> entry
    inner: dict[int, int] = field(default_factory=dict)  # entry -> new node
    leaves: dict[int, int] = field(default_factory=dict)  # entry -> new leaf

    def __post_init__(self) -> None:
        attrs = self.s.attrs
        nodes, weights = _counts(self.s, self.prefix)
        as_many("nodes", {**nodes, "nodes_values": self.numbers("nodes_values").size})
        name = f"{self.prefix}_weights"
        as_many("weights", {**weights, name: self.numbers(name).size})
        missing = attrs.get("nodes_missing_value_tracks_true")
        pairs = list(zip(attrs["nodes_treeids"], attrs["nodes_nodeids"], strict=True))
        if missing and len(missing) != len(pairs):
            text = f"'nodes_missing_value_tracks_true' has {len(missing)} numbers"
            raise Refuse("MLF0303", f"{text}; expected {len(pairs)}")
        if len(set(pairs)) < len(pairs):
            raise Refuse("MLF0303", "has a node of a tree twice")
        for entry, pair in enumerate(pairs):
            self.where[pair] = entry
            kind = self.leaves if self.s.attrs["nodes_modes"][entry] == "LEAF" else self.inner
            kind[entry] = len(kind)

    def numbers(self, name: str) -> Any:
        """An attribute that may be a list of floats or a tensor."""
        tensor = self.s.attrs.get(f"{name}_as_tensor")
        given = np.asarray(self.s.attrs.get(name, []) if tensor is None else tensor)
        if given.dtype.kind not in "fiu":
            raise Refuse("MLF0303", f"'{name}' holds no numbers")
        return given.astype(self.dtype).reshape(-1)

    def entry(self, tree: int, node: int) -> int:
        """Raises Refuse where the tree has no such node."""
        if (tree, node) not in self.where:
            raise Refuse("MLF0303", f"tree {tree} has no node {node}")
        return self.where[tree, node]

    def child(self, entry: int, side: str) -> tuple[int, int]:
        """Whether a branch is a leaf, and its new number."""
        tree = self.s.attrs["nodes_treeids"][entry]
        at = self.entry(tree, self.s.attrs[f"nodes_{side}nodeids"][entry])
        return (1, self.leaves[at]) if at in self.leaves else (0, self.inner[at])

    def weights(self) -> tuple[list[int], list[int], list[float]]:
        """Count of each leaf, and targets and weights of all leaves in order. Of several weights
        for a target that is alone the first counts, as in onnxruntime."""
        given = zip(
            self.s.attrs[f"{self.prefix}_treeids"],
            self.s.attrs[f"{self.prefix}_nodeids"],
            self.s.attrs[f"{self.prefix}_ids"],
            self.numbers(f"{self.prefix}_weights").tolist(),
            strict=True,
        )
        of: dict[int, list[tuple[int, float]]] = {k: [] for k in range(len(self.leaves))}
        alone = self.prefix == "target" and self.s.attrs["n_targets"] == 1
        for tree, node, target, weight in given:
            entry = self.entry(tree, node)
            if entry in self.leaves and not (alone and of[self.leaves[entry]]):
                of[self.leaves[entry]].append((target, weight))
        flat = [pair for leaf in of.values() for pair in leaf]
        return [len(leaf) for leaf in of.values()], [t for t, _ in flat], [w for _, w in flat]

    def node(self, x: str, targets: int) -> str:
        """The ensemble's scores, [N, targets]."""
        attrs = self.s.attrs
        firsts: dict[int, int] = {}
        for (tree, _), entry in self.where.items():
            firsts.setdefault(tree, entry)
        lone = [e for e in firsts.values() if e in self.leaves]  # trees without a branch
        order = [*self.inner, *lone]
        branches = [
            [(1, self.leaves[e])] * 2
            if e in lone
            else [self.child(e, "true"), self.child(e, "false")]
            for e in order
        ]
        modes = [0 if e in lone else MODES.index(attrs["nodes_modes"][e]) for e in order]
        missing = attrs.get("nodes_missing_value_tracks_true") or [0] * len(self.where)
        counts, ids, weights = self.weights()
        how = attrs.get("aggregate_function", "SUM")
        if how not in AGGREGATES:
            raise Refuse("MLF0303", f"aggregate_function '{how}'; expected {', '.join(AGGREGATES)}")
        tensor = numpy_helper.from_array
        ours: dict[str, Any] = {"mlf.leaf_counts": counts}
        return self.s(
            "mlf.Trees",
            x,
            n_targets=targets,
            aggregate_function=AGGREGATES.index(how),
            tree_roots=[order.index(e) for e in firsts.values()],
            nodes_featureids=[attrs["nodes_featureids"][e] for e in order],
            nodes_splits=tensor(
                np.array([self.numbers("nodes_values")[e] for e in order], self.dtype)
            ),
            nodes_modes=tensor(np.array(modes, np.uint8)),
            nodes_missing_value_tracks_true=[missing[e] for e in order],
            nodes_trueleafs=[b[0][0] for b in branches],
            nodes_truenodeids=[b[0][1] for b in branches],
            nodes_falseleafs=[b[1][0] for b in branches],
            nodes_falsenodeids=[b[1][1] for b in branches],
            leaf_targetids=ids,
            leaf_weights=tensor(np.array(weights, self.dtype)),
            **ours,
        )


def _scores(s: Steps, prefix: str, targets: int) -> str:
    """What the trees say, base values included, in float."""
    type_ = s.type(0)
    double = type_.dtype.name == "float64"
    forest = _Forest(s, prefix, np.float64 if double else np.float32)
    unknown = set(s.attrs["nodes_modes"]) - {*MODES, "LEAF"}
    if unknown:
        raise UnsupportedError(f"mode {unknown.pop()}; supported: {', '.join(MODES)}, LEAF")
    x = s.x(0) if double else s("Cast", s.x(0), to=FLOAT)
    made = forest.node(x, targets)
    base = forest.numbers("base_values")
    if base.size:
        made = s("Add", made, s.const(base[-targets:], forest.dtype))
    return s("Cast", made, to=FLOAT)


POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@ml("TreeEnsemble")
def _tree_ensemble(s: Steps) -> None:
    """The scores, and what `post_transform` makes of them."""
    given = {a.name: helper.get_attribute_value(a) for a in s.node.attribute}
    how = given.pop("post_transform", 0)
    if not 0 <= how < len(POST_TRANSFORMS):
        raise UnsupportedError(f"post_transform {how}; supported: 0 to {len(POST_TRANSFORMS) - 1}")
    s.attrs["post_transform"] = POST_TRANSFORMS[how]
    scores = s("mlf.Trees", s.x(0), **given)
    unchanged_alone(s, s.attrs["n_targets"])
    transformed(s, scores, 0)


@ml("TreeEnsembleRegressor", post_transform=POST_TRANSFORMS)
def _tree_regressor(s: Steps) -> None:
    unchanged_alone(s, s.attrs["n_targets"])
    transformed(s, _scores(s, "target", s.attrs["n_targets"]), 0)


def _always_weighed(s: Steps, label: int) -> bool:
    """Whether each sample gets a weight for a class. Where one of two has none, onnxruntime makes
    of the other's what it makes of one score."""
    places = zip(s.attrs["nodes_treeids"], s.attrs["nodes_nodeids"], strict=True)
    leaves = {p for p, m in zip(places, s.attrs["nodes_modes"], strict=True) if m == "LEAF"}
    named = zip(s.attrs["class_treeids"], s.attrs["class_nodeids"], strict=True)
    given = {p for p, k in zip(named, s.attrs["class_ids"], strict=True) if k == label}
    return bool({tree for tree, _ in leaves} - {tree for tree, _ in leaves - given})


@ml("TreeEnsembleClassifier", post_transform=POST_TRANSFORMS)
def _tree_classifier(s: Steps) -> None:
    """Of two labels only one may have weights: then its score decides, and by how much depends on
    whether it can be a probability."""
    labels, ids = labels_of(s, "classlabels_int64s"), set(s.attrs["class_ids"])
    _counts(s, "class")
    if len(labels) != 2 or len(ids) != 1:
        # Of two classes onnxruntime asks whether the second's score is positive, not which leads.
        both = len(labels) == 2
        if both and (s.attrs.get("base_values") or not _always_weighed(s, 1)):
            text = "base values, or leaves of each tree that weigh the first of two classes alone"
            raise UnsupportedError(f"{text}; supported: neither where both have weights")
        scores, least = _scores(s, "class", len(labels)), 0.0 if both else None
        classified(s, scores, labels, least, 2 if both else 0)
        return
    least = 0.5 if min(s.attrs.get("class_weights") or [0.0]) >= 0 else 0.0
    columns = 1 + ids.pop()
    if len(s.attrs.get("base_values") or []) > 2 - columns:
        raise UnsupportedError("base values for a class without weights; supported: at most one")
    scores = _scores(s, "class", columns)
    classified(s, scores, labels, least, columns, complement=least == 0.5)
