"""The networks that are measured, and whether what ran was right."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from oracle import onnxruntime_float, onnxruntime_integer, relative_error  # noqa: E402
from other_networks import feeds_of, other_networks  # noqa: E402

Array = np.ndarray[Any, Any]
BUILT = ROOT / "build" / "benchmarks"
VENV = ROOT / "build" / "peers" / "bin"  # where host.py's first lines put peers


@dataclass(frozen=True)
class Network:
    """A model with the sample that it is measured on."""

    name: str
    path: Path

    @property
    def is_int8(self) -> bool:
        return self.name.endswith("int8")

    @cached_property
    def model(self) -> onnx.ModelProto:
        return onnx.load(self.path)

    @cached_property
    def sample(self) -> dict[str, Array]:
        with np.load(self.path.with_suffix(".npz")) as file:
            arrays = dict(file)
        return {i.name: self._first(arrays[i.name], i) for i in self.model.graph.input}

    @staticmethod
    def _first(array: Array, info: onnx.ValueInfoProto) -> Array:
        rank = len(info.type.tensor_type.shape.dim)
        return array[0] if array.ndim > rank else array

    @cached_property
    def wanted(self) -> list[dict[str, Array]]:
        """onnxruntime's results: node by node, and for int8 its integer operators' too."""
        ways = [onnxruntime_float] + [onnxruntime_integer] * self.is_int8
        return [way(self.model, [self.sample])[0] for way in ways]

    def check(self, got: Mapping[str, Array], where: str) -> None:
        """Raises AssertionError unless floats are within 1e-5 and integers equal one way."""
        for key, value in self.wanted[0].items():
            if value.dtype.kind == "f":
                right = relative_error(got[key], value) <= 1e-5
            else:
                right = any(np.array_equal(got[key], want[key]) for want in self.wanted)
            assert right, f"{self.name} on {where}: output {key} is not onnxruntime's"


def networks(folder: Path | None, names: Sequence[str]) -> Iterator[Network]:
    """MLPerf Tiny's, then the project's own, then the ten that are built here."""
    shared = folder or Path(os.environ.get("MLFTOOL_SHARED_MODELS", ROOT.parent / "shared/models"))
    if not shared.is_dir():
        print(f"no models in {shared}: they are left out", file=sys.stderr)
    write_others()
    for where in (shared, ROOT / "examples" / "models", BUILT):
        for path in sorted(where.glob("*.onnx")):
            if not names or path.stem in names:
                yield Network(path.stem, path)


def write_others() -> None:
    """The ten other networks as files, for tools that want files."""
    BUILT.mkdir(parents=True, exist_ok=True)
    for name, model in other_networks().items():
        data = model.SerializeToString(deterministic=True)
        path = BUILT / f"{name}.onnx"
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)
            np.savez(path.with_suffix(".npz"), **feeds_of(model, 1)[0])
