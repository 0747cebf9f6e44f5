"""What a network's outputs should be, and how far from that another computation may be.

onnxruntime computes every node as it stands. How much a rounding here grows until there is not for
us to say, so the network is replayed node by node with noise as small as a rounding on every float
tensor: what noise changes, another order of sums may change. Samples are exact, and get noise only
where they are normalised: elements that are all but equal leave nothing else of roundings.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from grow import Array, Feed, Network, Single, elements_of_a_mean, opset_of, session_of
from onnx import helper, numpy_helper

NOISE = 1e-6
FEW, MANY = 4, 48
TOLERANCE = 1e-5


class Judge:
    """The truth about one network, in a process that onnxruntime may end. Raises what it raises, as
    it may refuse what a network was shrunk to."""

    def __init__(self, network: Network) -> None:
        self.network = network
        graph = network.model.graph
        self.names = [o.name for o in graph.output]
        session, feeds = session_of(network.model), network.feeds
        said = [session.run(None, feed) for feed in feeds]
        self.expected = [dict(zip(self.names, arrays, strict=True)) for arrays in said]
        self.consts = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self._singles: list[Single] = []
        self._spread: dict[tuple[int, int], Feed] = {}

    def wrong(self, results: list[Feed]) -> str:
        """The first output that is not what it should be, in words; "" if all are."""
        for k, (got, want) in enumerate(zip(results, self.expected, strict=True)):
            for name in self.names:
                if text := self._differs(k, name, got[name], want[name]):
                    return text
        return ""

    def _differs(self, k: int, name: str, got: Array, want: Array) -> str:
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"{name}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        for rounds in (0, FEW, MANY):
            room = 8 * self.spread(k, rounds)[name] if rounds else np.zeros(want.shape)
            off = distance(got, want)
            if want.dtype.kind == "f":
                finite = np.abs(want[np.isfinite(want)].astype(np.float64))
                room = room + TOLERANCE * max(1.0, float(finite.max(initial=0.0)))
            beyond = off > room
            if want.dtype == np.float16 and rare(beyond):
                beyond = off > room + np.spacing(np.abs(want)).astype(np.float64)
            if not beyond.any():
                return ""
        at = int(np.argmax(np.where(beyond, off, -1)))
        return (
            f"{name}: {int(beyond.sum())} of {want.size} elements differ, element {at}: "
            f"{got.flat[at]}, expected {want.flat[at]} within {room.flat[at]:.3g}"
        )

    def spread(self, k: int, rounds: int) -> Feed:
        """For each output, how far noise moves its elements."""
        if (k, rounds) not in self._spread:
            rng = np.random.default_rng(k)
            runs = [self._replayed(k, rng) for _ in range(rounds)]
            self._spread[k, rounds] = {
                n: np.max([distance(run[n], self.expected[k][n]) for run in runs], axis=0)
                for n in self.names
            }
        return self._spread[k, rounds]

    def _replayed(self, k: int, rng: np.random.Generator) -> Feed:
        arrays = {**self.consts, **self.network.feeds[k]}
        nodes = self.network.model.graph.node
        for i, node in enumerate(nodes):
            if i == len(self._singles):
                opset = opset_of(self.network.model)
                self._singles.append(Single(node, arrays, {*self.consts}, opset))
            given = arrays
            if normalises(node, arrays):
                given = {**arrays, node.input[0]: noisy(arrays[node.input[0]], rng)}
            results = self._singles[i].run(given)
            if node.op_type == "Equal":
                results = [one_way_or_the_other(*(arrays[n] for n in node.input), results[0], rng)]
            for name, array in zip(node.output, results, strict=True):
                # A constant is not rounded, and may be the scales of a Resize.
                arrays[name] = array if node.op_type == "Constant" else noisy(array, rng)
        return {n: arrays[n] for n in self.names}


def rare(beyond: Array) -> bool:
    """Whether so few elements of a float16 tensor differ as lie beside a tie, where a float32 that
    is rounded itself decides; other rounding would change half of them."""
    return int(beyond.sum()) <= max(1, beyond.size // 200)


def normalises(node: onnx.NodeProto, arrays: Mapping[str, Array]) -> bool:
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return (
        bool(node.input)
        and elements_of_a_mean(node.op_type, arrays[node.input[0]].shape, attrs) > 0
    )


def one_way_or_the_other(a: Array, b: Array, equal: Array, rng: np.random.Generator) -> Array:
    """`equal`, drawn anew where a rounding decides: noise parts floats that are equal, and never
    joins those that are not."""
    if a.dtype != np.float32:
        return equal
    size = max(float(np.abs(np.where(np.isfinite(x), x, 0)).max(initial=0)) for x in (a, b))
    with np.errstate(invalid="ignore"):
        close = (a != b) & (np.abs(a - b) <= NOISE * size)
    return np.where(close, rng.integers(0, 2, close.shape, dtype=bool), equal)


def noisy(array: Array, rng: np.random.Generator) -> Array:
    if array.dtype != np.float32 or not array.size:
        return array
    size = np.abs(np.where(np.isfinite(array), array, 0)).max()
    noise = NOISE * (
        array * rng.normal(size=array.shape) + 0.2 * size * rng.normal(size=array.shape)
    )
    return np.asarray(array + np.nan_to_num(noise)).astype(array.dtype)


def distance(a: Array, b: Array) -> Array:
    """Between elements; infinite where only one is a number."""
    if a.shape != b.shape:
        return np.full(b.shape, np.inf)
    with np.errstate(invalid="ignore"):
        off = np.abs(a.astype(np.float64) - b.astype(np.float64))
        same = (a == b) | ((a != a) & (b != b))
    return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
