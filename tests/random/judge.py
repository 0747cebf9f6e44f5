"""What a network's outputs should be, and how far from that another computation may be.

onnxruntime computes every node as it stands. How much a rounding here grows until there is not for
us to say, so the network is replayed node by node with noise as small as a rounding on every float
tensor: what noise changes, another order of sums may change. Samples are exact, and get noise only
where something is summed: terms that cancel leave nothing else of roundings.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from grow import Array, Feed, Network, Single, opset_of, session_of
from onnx import numpy_helper
from theirs import NORMALISING

NOISE = 1e-6
UNITS = {np.dtype(np.float32): 1.0, np.dtype(np.float64): 2.0**-29}  # roundings, of float32's
FEW, MANY = 4, 48
TOLERANCE = 1e-5
# A sum in any order is the exact sum of terms that are each a few roundings off, however small it
# is itself; so what these read has noise, as it leaves of a sum that cancels as much as an order
# may. What chooses by comparing exact values is not here.
SUMMING = (
    *("MatMul", "FusedMatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "Det", "DFT", "CumSum"),
    *("AveragePool", "GlobalAveragePool", "LpPool", "Sum", "Mean", "Resize", "Upsample"),
    *("GridSample", "RoiAlign", "LSTM", "GRU", "RNN", "LinearRegressor"),
    *(f"Reduce{kind}" for kind in ("Sum", "Mean", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")),
    *("ScatterElements", "ScatterND", *NORMALISING),
)
# These add 1 to what may be next to nothing, or take it from there: they are as exact as 1 is, and
# onnxruntime's sigmoid is within 1.2e-7 (docs/operators.md).
BESIDE_ONE = (
    *("Sigmoid", "Softplus", "Elu", "Celu", "Selu", "Gelu", "FastGelu", "QuickGelu", "BiasGelu"),
    *("Mish", "Swish", "LSTM", "GRU"),
)
ROUNDING_OF_ONE = 1.2e-7


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
        self._replays: list[Replay] = []
        self._replayed: dict[tuple[int, int], list[Feed]] = {}

    def wrong(self, results: list[Feed]) -> str:
        """The first output that is not what it should be, in words; "" if all are."""
        for k, (got, want) in enumerate(zip(results, self.expected, strict=True)):
            for name in self.names:
                if text := self._differs(k, name, got[name], want[name]):
                    return text
        return ""

    def _differs(self, k: int, name: str, got: Array, want: Array) -> str:
        if (got.dtype, got.ndim) != (want.dtype, want.ndim):
            return f"{name}: {got.dtype}{got.shape}, expected {want.dtype}{want.shape}"
        if got.shape != want.shape:
            if any(equals(run[name], got) for run in self._runs(k, MANY)):
                return ""
            return f"{name}: {got.shape}, expected {want.shape}"
        for rounds in (0, FEW, MANY):
            room = 8 * self.spread(k, rounds)[name] if rounds else np.zeros(want.shape)
            off = distance(got, want)
            beyond = off > room + tolerance(want)
            if not beyond.any():
                return ""
        at = int(np.argmax(np.where(beyond, off, -1)))
        return (
            f"{name}: {int(beyond.sum())} of {want.size} elements differ, element {at}: "
            f"{got.flat[at]}, expected {want.flat[at]} within {room.flat[at] + tolerance(want):.3g}"
        )

    def spread(self, k: int, rounds: int) -> Feed:
        """For each output, how far noise moves its elements."""
        runs = self._runs(k, rounds)
        return {
            n: np.max([distance(run[n], self.expected[k][n]) for run in runs], axis=0)
            for n in self.names
        }

    def _runs(self, k: int, rounds: int) -> list[Feed]:
        """With noise, and one without: onnxruntime does not round to float16 between nodes."""
        if (k, rounds) not in self._replayed:
            rng = np.random.default_rng(k)
            noises = (None, *[rng] * rounds)
            self._replayed[k, rounds] = [self._replay(k, noise) for noise in noises]
        return self._replayed[k, rounds]

    def _replay(self, k: int, rng: np.random.Generator | None) -> Feed:
        arrays = {**self.consts, **self.network.feeds[k]}
        for i, node in enumerate(self.network.model.graph.node):
            if i == len(self._replays):
                opset = opset_of(self.network.model)
                self._replays.append(Replay(node, arrays, {*self.consts}, opset))
            arrays.update(self._replays[i].run(arrays, rng))
        return {n: arrays[n] for n in self.names}


class Replay:
    """One node, whose results may have noise."""

    def __init__(
        self, node: onnx.NodeProto, arrays: Mapping[str, Array], consts: set[str], opset: int
    ) -> None:
        self.node = node
        self.single = Single(node, dict(arrays), consts, opset)
        self.wide: Single | None = None
        read = [arrays[n] for n in self.single.reads]
        if node.op_type not in ("Cast", "Constant") and any(a.dtype == np.float16 for a in read):
            self.wide = _single_of_floats(self.single, arrays, consts, opset)
        bodies = any(a.HasField("g") for a in node.attribute)
        self.sums = bodies or node.op_type in SUMMING
        self.least = ROUNDING_OF_ONE if bodies or node.op_type in BESIDE_ONE else 0.0

    def run(self, arrays: Mapping[str, Array], rng: np.random.Generator | None) -> Feed:
        results = self.single.run(dict(arrays)) if rng is None else self._noisy(arrays, rng)
        return dict(zip((o for o in self.node.output if o), results, strict=True))

    def _noisy(self, arrays: Mapping[str, Array], rng: np.random.Generator) -> list[Array]:
        given = dict(arrays)
        if self.sums:
            given |= {n: noisy(arrays[n], rng) for n in self.single.fed}
        results = self.single.run(given)
        if self.node.op_type == "Equal":
            pair = (arrays[n] for n in self.node.input)
            results = [one_way_or_the_other(*pair, results[0], rng)]
        if self.wide is not None:
            floats = self.wide.run({n: widened(a) for n, a in given.items()})
            results = [
                noisy(f, rng).astype(np.float16) if r.dtype == np.float16 else r
                for r, f in zip(results, floats, strict=True)
            ]
        if self.node.op_type != "Constant":  # which is not rounded, and may be scales of a Resize
            results = [noisy(r, rng, self.least) for r in results]
        return results


def _single_of_floats(
    single: Single, arrays: Mapping[str, Array], consts: set[str], opset: int
) -> Single | None:
    """The node on float32 instead of float16, whose results are those before they are rounded, as
    far as onnxruntime has it: a rounding decides only beside a tie, of which float16 have many."""
    try:
        wide = {n: widened(arrays[n]) for n in single.reads}
        made = Single(single.node, wide, consts, opset)
        made.run(wide)
    except Exception:
        return None
    return made


def widened(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float16 else array


def one_way_or_the_other(a: Array, b: Array, equal: Array, rng: np.random.Generator) -> Array:
    """`equal`, drawn anew where a rounding decides: noise parts floats that are equal, and never
    joins those that are not."""
    if a.dtype not in UNITS:
        return equal
    size = max(float(np.abs(np.where(np.isfinite(x), x, 0)).max(initial=0)) for x in (a, b))
    with np.errstate(invalid="ignore"):
        close = (a != b) & (np.abs(a - b) <= NOISE * UNITS[a.dtype] * size)
    return np.where(close, rng.integers(0, 2, close.shape, dtype=bool), equal)


def noisy(array: Array, rng: np.random.Generator, least: float = 0.0) -> Array:
    """With a rounding of each element, of the largest and of `least`; of float16 only what `wide`
    says."""
    if array.dtype not in UNITS or not array.size:
        return array
    unit = UNITS[array.dtype]
    size = np.abs(np.where(np.isfinite(array), array, 0)).max()
    noise = NOISE * array * rng.normal(size=array.shape)
    noise = noise + max(0.2 * NOISE * size, least) * rng.normal(size=array.shape)
    return np.asarray(array + unit * np.nan_to_num(noise)).astype(array.dtype)


def tolerance(want: Array) -> float:
    """Of floats that nothing enlarges."""
    if want.dtype.kind != "f":
        return 0.0
    finite = np.abs(want[np.isfinite(want)].astype(np.float64))
    return TOLERANCE * max(1.0, float(finite.max(initial=0.0)))


def equals(run: Array, got: Array) -> bool:
    return run.shape == got.shape and not (distance(got, run) > tolerance(run)).any()


def distance(a: Array, b: Array) -> Array:
    """Between elements; infinite where only one is a number."""
    if a.shape != b.shape:
        return np.full(b.shape, np.inf)
    with np.errstate(invalid="ignore"):
        off = np.abs(a.astype(np.float64) - b.astype(np.float64))
        same = (a == b) | ((a != a) & (b != b))
    return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
