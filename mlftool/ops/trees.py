"""Trees: every one is walked from its root to a leaf, whose weights go to their targets.

Nodes are arrays; a child that is negative is leaf number -1 - child.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import DType
from mlftool.ir.graph import Array, TensorType, View
from mlftool.ir.operations import times
from mlftool.onnx_rules.boxes import OF_BATCHES
from mlftool.ops.base import Kernel, Operand, UnsupportedError, op
from mlftool.ops.plain import float_of, plain_kernel
from mlftool.ops.scalar import literal

TESTS = ("<=", "<", ">=", ">", "==", "!=")
MEMBER = 6
AVERAGE, SUM, LEAST, MOST = range(4)


@frozen
class Forest:
    """The arrays of an ensemble, checked: no index leaves its array, no walk goes in a circle."""

    roots: Array
    features: Array
    modes: Array
    children: Array  # [node, 2]: where the test holds, where it does not
    starts: Array  # of each leaf's weights, and the end
    targets: Array

    @staticmethod
    def of(v: View) -> Forest:
        def ints(name: str) -> Array:
            return np.array(v.attr(name) if v.attr(name) is not None else [], np.int64).reshape(-1)

        sides = [(ints(f"nodes_{s}leafs"), ints(f"nodes_{s}nodeids")) for s in ("true", "false")]
        if len({values.size for side in sides for values in side}) > 1:
            raise UnsupportedError("the lists of its nodes have several lengths; expected one")
        children = [np.where(leaf, -1 - number, number) for leaf, number in sides]
        targets = ints("leaf_targetids")
        counts = ints("mlf.leaf_counts")
        counts = counts if counts.size else np.ones(targets.size, np.int64)
        made = Forest(
            ints("tree_roots"),
            ints("nodes_featureids"),
            ints("nodes_modes"),
            np.stack(children, axis=1),
            np.concatenate([[0], np.cumsum(counts)]),
            targets,
        )
        made.check(v)
        return made

    @property
    def depth(self) -> float:
        """Of a leaf, if its tree is balanced."""
        return math.log2(2 + len(self.features) / max(1, self.roots.size))

    def check(self, v: View) -> None:
        nodes, leaves = len(self.features), self.starts.size - 1
        inside = (
            np.all((self.roots >= 0) & (self.roots < nodes))
            and np.all((self.features >= 0) & (self.features < v.x(0).shape[-1]))
            and np.all((self.children < nodes) & (self.children >= -leaves))
            and np.all((self.targets >= 0) & (self.targets < v.attr("n_targets")))
            and np.all(self.modes <= MEMBER)
            and self.starts[-1] == self.targets.size
            and len(self.modes) == nodes == np.size(v.attr("nodes_splits"))
            and np.size(v.attr("leaf_weights")) == self.targets.size
            and len(v.attr("nodes_missing_value_tracks_true") or []) in (0, nodes)
        )
        if not inside:
            raise UnsupportedError("an index of its trees points nowhere; supported: whole trees")
        ways = np.bincount(self.children[self.children >= 0], minlength=nodes)
        free = np.flatnonzero(ways == 0)
        while free.size:  # leaves out what no other node leads to: circles stay
            below = self.children[free][self.children[free] >= 0]
            np.subtract.at(ways, below, 1)
            free = np.unique(below[ways[below] == 0])
        if ways.any():
            raise UnsupportedError("its nodes lead to each other in a circle; supported: trees")


def _result(types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> TensorType:
    x = types[0]
    if x is None or len(x.shape) != 2 or "n_targets" not in attrs:
        raise UnsupportedError(f"trees of {x}; expected samples with features, and n_targets")
    return TensorType(x.dtype, (x.shape[0], int(attrs["n_targets"])))


_NODE = times(load=4, less=1, choose=2, whole=4, loop=1)


@op("mlf.Trees", result=_result, extents=OF_BATCHES)
def trees(v: View) -> Kernel:
    """Sums, means, least or largest of the weights that each target gets: TreeEnsemble's scores."""
    row, forest, how = float_of(v, v.x(0).dtype), Forest.of(v), v.attr("aggregate_function", SUM)
    modes, missing = forest.modes, np.array(v.attr("nodes_missing_value_tracks_true") or [], bool)
    same = len(set(modes.tolist())) == 1 and modes[0] != MEMBER
    tables = [
        Operand("root", "int32_t", "const", array=forest.roots.astype(np.int32)),
        Operand("feature", "int32_t", "const", array=forest.features.astype(np.int32)),
        Operand("split", row.c, "const", array=np.asarray(v.attr("nodes_splits"), row.numpy)),
        Operand("child", "int32_t", "const", array=forest.children.astype(np.int32)),
        Operand("start", "int32_t", "const", array=forest.starts.astype(np.int32)),
        Operand("target", "int32_t", "const", array=forest.targets.astype(np.int32)),
        Operand("weight", row.c, "const", array=np.asarray(v.attr("leaf_weights"), row.numpy)),
    ]
    if not same:
        tables.append(Operand("mode", "uint8_t", "const", array=modes.astype(np.uint8)))
    if missing.any():
        tables.append(Operand("tracks", "uint8_t", "const", array=missing.astype(np.uint8)))
    if np.any(modes == MEMBER):
        tables += _members(v, modes, row)
    samples, features = v.x(0).shape
    weights = forest.targets.size / max(1, forest.starts.size - 1)
    leaf = times(load=3, loop=1, whole=6) + weights * times(load=3, add=1, store=1, loop=1)
    infinity = literal({LEAST: np.inf, MOST: -np.inf}.get(how, 0), row)
    return plain_kernel(
        v,
        "trees",
        {
            "samples": samples,
            "features": features,
            "targets": v.y.shape[-1],
            "trees": forest.roots.size,
            "tests": [(k, t) for k, t in enumerate(TESTS) if k in modes],
            "same": same,
            "missing": bool(missing.any()),
            "member": bool(np.any(modes == MEMBER)),
            "floating": row.c,
            "start_value": infinity,
            "zero": literal(0, row),
            "step": {LEAST: "<", MOST: ">"}.get(how, ""),
            "average": literal(forest.roots.size, row) if how == AVERAGE else "",
        },
        *tables,
        operations=samples * forest.roots.size * (forest.depth * _NODE + leaf),
    )


def _members(v: View, modes: Array, row: DType) -> list[Operand]:
    """The sets of values, one after the other, and where that of each node starts and ends."""
    values = np.asarray(v.attr("membership_values"))
    ends = np.flatnonzero(np.isnan(values))
    if ends.size != np.count_nonzero(modes == MEMBER):
        raise UnsupportedError(f"{ends.size} sets of members; supported: one for each such node")
    spans = np.zeros((modes.size, 2), np.int32)
    spans[modes == MEMBER] = np.stack([np.concatenate([[0], ends[:-1] + 1]), ends], axis=1)
    return [
        Operand("members", row.c, "const", array=values.astype(row.numpy)),
        Operand("span", "int32_t", "const", array=spans),
    ]
