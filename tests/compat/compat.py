"""Models of TVM's conformance tests, in ONNX, and archives that are checked by running them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from builders import Net
from onnx.reference import ReferenceEvaluator

import mlftool as tvm
from mlftool import relay
from mlftool.api import Factory, IRModule
from mlftool.relay.backend import Executor, Runtime

Array = np.ndarray[Any, Any]
CRT = Runtime("crt")
SYSTEM_LIB = Runtime("crt", {"system-lib": True})
GRAPH = Executor("graph")
AOT_C = Executor("aot", {"unpacked-api": True, "interface-api": "c"})
NO_USMP = {"tir.disable_vectorize": True, "tir.usmp.enable": False}


def add_model() -> onnx.ModelProto:
    """cast(a: u8[1,2] -> f32) + b: f32[1,2] * c, with c an input that params bind."""
    net = Net()
    a = net.input("a", np.uint8, (1, 2))
    b, c = net.input("b", np.float32, (1, 2)), net.input("c", np.float32, (1, 2))
    return net.model(net.node("Add", net.node("Cast", a, to=1), net.node("Mul", b, c)))


ADD_PARAMS = {"c": np.array([[2.0, 4.0]], np.float32)}


def conv_model(channels: int = 3, out: int = 8, size: int = 64) -> onnx.ModelProto:
    """One convolution of 5x5, padded by 2."""
    net = Net()
    x = net.input("data", np.float32, (1, channels, size, size))
    w = np.arange(out * channels * 25).reshape(out, channels, 5, 5) % 13 / 7 - 0.9
    return net.model(net.node("Conv", x, net.const(w, np.float32), pads=[2] * 4))


def build(mod: IRModule | onnx.ModelProto, name: str, executor: Executor = AOT_C,
          runtime: Runtime = CRT, target: Any = "c",
          params: Mapping[str, Any] | None = None) -> Factory:  # fmt: skip
    module = mod if isinstance(mod, IRModule) else relay.frontend.from_onnx(mod)[0]
    with tvm.transform.PassContext(opt_level=3, config=NO_USMP):
        return relay.build(
            module, target, executor=executor, runtime=runtime, params=params, mod_name=name
        )


class Exported:
    """An archive on disk, unpacked by Python's tarfile, as TVM's tests do it."""

    def __init__(self, mods: Factory | Sequence[Any] | Any, folder: Path) -> None:
        self.path = Path(tvm.micro.export_model_library_format(mods, folder / "test.tar"))
        self.root = folder / "extracted"
        with tarfile.open(self.path) as tar:
            assert all(m.name == "." or m.name.startswith("./") for m in tar.getmembers())
            assert tar.extractfile("./metadata.json") is not None
            # Python 3.11.2, Debian's, has no `filter`; from 3.12 on its lack is a warning.
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(self.root, **safe)
        self.metadata = json.loads((self.root / "metadata.json").read_text())

    def main(self, name: str) -> dict[str, Any]:
        (entry,) = self.metadata["modules"][name]["memory"]["functions"]["main"]
        return dict(entry)

    def functions(self, name: str) -> list[dict[str, Any]]:
        return list(self.metadata["modules"][name]["memory"]["functions"]["operator_functions"])

    def has(self, name: str) -> bool:
        return (self.root / name).exists()

    def text(self, name: str) -> str:
        return (self.root / name).read_text()

    def check(self, name: str | None, model: onnx.ModelProto, **inputs: Array) -> None:
        """A client that has nothing but the archive gets the numbers of onnx's own reference."""
        module = tvm.load(self.path).module(name)
        made = module.run({t.name: inputs[t.name] for t in module.inputs})
        wanted = ReferenceEvaluator(model).run(None, inputs)
        for value, expected in zip(made.values(), wanted, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-4)
