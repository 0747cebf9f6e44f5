"""The fourth generator's networks: the models of tests/importer/mutants with types swapped, extents
dented and fragments woven together, as far as onnxruntime takes them.

tests/importer/mutant_trials.py compiles those in one way, and the others, too; here each is
compiled in several ways and runs on boards like any network, and is made small if something is
wrong. What is right mutant_judge.py says: quantised values may be one off, and onnx's evaluator
has a say.
"""

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from grow import Array, Feed, Network, fit, session_of
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator
from other import MOST, numbers
from theirs import is_fit

sys.path.append(str(Path(__file__).parents[1] / "importer"))

from mutant_judge import difference, differs_by_design, room_of
from mutant_seeds import LARGEST as MOST_BYTES
from mutant_seeds import seeds
from mutant_trials import MENUS

KINDS = ("woven", "dented", "swapped")


class _NotThisError(Exception):
    """No network that can be judged."""


def neighbour(seed: int, index: int) -> Network:
    """Network `index` of a seed, the same whenever it is asked for."""
    attempt, models = 0, _models()
    while True:
        chance = random.Random(f"{seed} {index} {attempt}")
        menu = MENUS[KINDS[index % len(KINDS)]]
        data = menu(chance, chance.choice(models), chance.choice(models))
        try:
            return _network(data, f"n{seed}_{index}", np.random.default_rng([seed, index]))
        except Exception:  # onnxruntime has other limits than ours
            attempt += 1


@cache
def _models() -> tuple[ModelProto, ...]:
    return tuple(m for m in seeds() if m.ByteSize() <= MOST_BYTES)


def _network(data: bytes, name: str, rng: np.random.Generator) -> Network:
    model = onnx.load_model_from_string(data)
    session = session_of(model)
    feeds: list[Feed] = [{}, {}]
    for info in model.graph.input:
        kind = info.type.tensor_type
        if not all(d.HasField("dim_value") for d in kind.shape.dim):
            raise _NotThisError
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        for feed in feeds:
            array = numbers(rng, dtype, [d.dim_value for d in kind.shape.dim])
            feed[info.name] = array % 5 if dtype.kind in "iu" and dtype.itemsize > 2 else array
    names = [o.name for o in session.get_outputs()]
    for feed in feeds:
        found = session.run(None, feed)
        if not all(isinstance(f, np.ndarray) and _is_good(f) for f in found):
            raise _NotThisError
    if differs_by_design(model, [dict(zip(names, found, strict=True))]):
        raise _NotThisError
    for info, array in zip(model.graph.output, found, strict=True):
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        info.CopyFrom(helper.make_tensor_value_info(info.name, code, None))
    return Network(name, model, fit(model, feeds), "neighbours", Neighbours)


class Neighbours:
    """What one of these should be."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.names = [o.name for o in network.model.graph.output]

    def wrong(self, results: list[Feed]) -> str:
        """What neither onnxruntime nor onnx's evaluator says; "" if one of them does."""
        text = self._differs(results, session_of(self.network.model))
        try:
            with np.errstate(all="ignore"):
                right = not text or not self._differs(
                    results, ReferenceEvaluator(self.network.model)
                )
        except Exception:  # it lacks operators of onnxruntime's
            return text
        return "" if right else text

    def _differs(self, results: list[Feed], runner: Any) -> str:
        said = [runner.run(None, feed) for feed in self.network.feeds]
        expected = [dict(zip(self.names, map(np.asarray, s), strict=True)) for s in said]
        return difference(results, expected, {}, room_of(self.network.model))


def _is_good(array: Array) -> bool:
    return array.dtype.kind in "fiub" and array.size <= MOST and is_fit(array)
