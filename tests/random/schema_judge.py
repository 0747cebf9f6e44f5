"""What the outputs of a network of any operators should be: onnxruntime's numbers, with or without
its optimiser, or the reference's. Where these three differ from each other, one of them is enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from grow import Array, Feed, Network, session_of
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

ROOM = {"f2": 4e-3, "f4": 1e-4, "f8": 1e-5}
COARSE = {TensorProto.BFLOAT16: 3e-2, TensorProto.FLOAT8E4M3FN: 0.13, TensorProto.FLOAT8E5M2: 0.26}
COARSE |= {TensorProto.FLOAT16: 4e-3}


class Oracles:
    """The truth about one network."""

    def __init__(self, network: Network) -> None:
        self.model = network.model
        self.feeds = network.feeds
        self.names = [o.name for o in self.model.graph.output]
        self.room = _room(self.model)

    def wrong(self, results: list[Feed]) -> str:
        """What neither of them says; "" if one of them does of every sample."""
        texts = []
        for k, got in enumerate(results):
            text = ""
            for make in (session_of, _optimised, ReferenceEvaluator):
                try:
                    with np.errstate(all="ignore"):
                        said = make(self.model).run(None, self.feeds[k])  # type: ignore[operator]
                except Exception:
                    continue
                found = self._differs(
                    got, dict(zip(self.names, map(np.asarray, said), strict=True))
                )
                text = text or found
                if not found:
                    text = ""
                    break
            if text:
                texts.append(f"sample {k}: {text}")
        return texts[0] if texts else ""

    def _differs(self, got: Feed, want: Feed) -> str:
        for name in self.names:
            if text := differs(got[name], want[name], self.room):
                return f"{name}: {text}"
        return ""


def _optimised(model: onnx.ModelProto) -> Any:
    return session_of(model, True)


def _room(model: onnx.ModelProto) -> float:
    """Of the coarsest type on the way."""
    codes = {t.data_type for t in model.graph.initializer}
    codes |= {
        a.i for n in model.graph.node for a in n.attribute if a.name in ("to", "output_dtype")
    }
    codes |= {i.type.tensor_type.elem_type for i in model.graph.input}
    return max((COARSE[c] for c in codes if c in COARSE), default=0.0)


def differs(mine: Array, value: Array, room: float) -> str:
    if (mine.dtype, mine.shape) != (value.dtype, value.shape):
        return f"{mine.dtype}{mine.shape}, expected {value.dtype}{value.shape}"
    if not mine.size:
        return ""
    a, b = mine.astype(np.float64), value.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (mine == value) | (np.isnan(a) & np.isnan(b))
        finite = np.abs(b[np.isfinite(b)])
        scale = max(1.0, float(finite.max(initial=0)))
        error = np.nan_to_num(np.where(same, 0.0, np.abs(a - b)), nan=np.inf)
    least = 1.0 if value.dtype.kind in "iu" and value.dtype.itemsize == 1 else 0.0
    if value.dtype.kind == "f":
        least = scale * max(room, ROOM[f"f{value.dtype.itemsize}"])
    if error.max() <= least:
        return ""
    at = int(np.argmax(error))
    many = f"{int((error > least).sum())} of {error.size}"
    return f"{many}, element {at}: {mine.flat[at]}, expected {value.flat[at]} ({value.dtype})"
