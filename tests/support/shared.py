"""The networks that numbers are checked on: MLPerf Tiny's, where they are at hand, and our own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

Array = np.ndarray[Any, Any]
REPO = Path(__file__).parents[2]
OWN = REPO / "examples" / "models"
# tests/conftest.py and the modules that it imports, for tests of the tests.
SUPPORT = ("kept", "reads", "samples", "seeds", "shards")
HARNESS = ("conftest.py", *(f"support/{name}.py" for name in SUPPORT))


def shared_folder() -> Path:
    """MLFTOOL_SHARED_MODELS, else ../shared/models beside the repository."""
    given = os.environ.get("MLFTOOL_SHARED_MODELS")
    return Path(given) if given else REPO.parent / "shared" / "models"


SHARED = (
    *("kws_int8", "vww_int8", "ic_int8", "ad_int8", "sww_int8"),
    *("kws_fp32", "vww_fp32", "ic_fp32", "ad_fp32"),
)


@dataclass(frozen=True)
class Network:
    """A model file and its vectors. `shared` ones may be absent; `path` skips the test then."""

    name: str
    shared: bool

    def __str__(self) -> str:
        return self.name

    @property
    def quantised(self) -> bool:
        return self.name.endswith("int8")

    @property
    def path(self) -> Path:
        folder = shared_folder() if self.shared else OWN
        file = folder / f"{self.name}.onnx"
        if self.shared and not file.is_file():
            pytest.skip(f"did not run: {file.name} is not in {folder}; set MLFTOOL_SHARED_MODELS")
        return file

    def vectors(self) -> dict[str, Array]:
        with np.load(self.path.with_suffix(".npz")) as file:
            return dict(file)

    def samples(self) -> tuple[list[dict[str, Array]], list[dict[str, list[Array]]]]:
        """Inputs, and for each output the values it may have: one, or two equal references."""
        model, vectors = onnx.load(self.path), self.vectors()
        names = [i.name for i in model.graph.input]
        shapes = {
            v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
            for v in (*model.graph.input, *model.graph.output)
        }
        keys = {o.name: [o.name] for o in model.graph.output}
        if self.quantised and "output_ort_optimised" in vectors:
            keys["output"].append("output_ort_optimised")
        count = len(vectors[names[0]])
        feeds = [{n: vectors[n][s].reshape(shapes[n]) for n in names} for s in range(count)]
        wanted = [
            {o: [vectors[k][s].reshape(shapes[o]) for k in ks] for o, ks in keys.items()}
            for s in range(count)
        ]
        return feeds, wanted

    def random_feeds(self, count: int, seed: int = 1) -> list[dict[str, Array]]:
        """Inputs over the whole range of integers, or spread as the samples are."""
        rng = np.random.default_rng(seed)
        feeds, _ = self.samples()
        result = []
        for _ in range(count):
            sample = {}
            for name, like in feeds[0].items():
                if like.dtype.kind == "f":
                    x = rng.normal(like.mean(), like.std(), like.shape)
                else:
                    info = np.iinfo(like.dtype)
                    x = rng.integers(info.min, info.max + 1, like.shape)
                sample[name] = x.astype(like.dtype)
            result.append(sample)
        return result


NETWORKS = (
    *(Network(name, True) for name in SHARED),
    *(Network(p.stem, False) for p in sorted(OWN.glob("*.onnx"))),
)
