"""Small ONNX models for tests: each call adds a node and returns the name of its value."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
OPSET = 21


class Net:
    """A graph under construction. Values are names, as in ONNX."""

    def __init__(self, opset: int = OPSET) -> None:
        self.opset = opset
        self._inputs: list[onnx.ValueInfoProto] = []
        self._consts: list[onnx.TensorProto] = []
        self._nodes: list[onnx.NodeProto] = []

    def input(self, name: str, dtype: Any, shape: tuple[int, ...]) -> str:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._inputs.append(helper.make_tensor_value_info(name, code, shape))
        return name

    def const(self, value: ArrayLike, dtype: Any = None) -> str:
        name = f"c{len(self._consts)}"
        self._consts.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, op: str, *inputs: str, domain: str = "", **attrs: Any) -> str:
        name = f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(op, list(inputs), [name], name=name, domain=domain, **attrs)
        )
        return name

    def parts(self, op: str, count: int, *inputs: str, **attrs: Any) -> list[str]:
        """A node of several outputs."""
        first = self.node(op, *inputs, **attrs)
        more = [f"{first}_{k}" for k in range(1, count)]
        self._nodes[-1].output.extend(more)
        return [first, *more]

    def dq(self, x: str, scale: ArrayLike, zero: Array, axis: int = 1) -> str:
        args = (x, self.const(scale, np.float32), self.const(zero))
        return self.node("DequantizeLinear", *args, **({"axis": axis} if np.ndim(scale) else {}))

    def q(self, x: str, scale: ArrayLike, zero: Array, axis: int = 1) -> str:
        args = (x, self.const(scale, np.float32), self.const(zero))
        return self.node("QuantizeLinear", *args, **({"axis": axis} if np.ndim(scale) else {}))

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The finished model; its outputs declare no type, as the standard allows."""
        infos = [helper.make_empty_tensor_value_info(o) for o in outputs]
        graph = helper.make_graph(self._nodes, "net", self._inputs, infos, self._consts)
        imports = [helper.make_opsetid("", self.opset)]
        if any(n.domain for n in self._nodes):
            imports += [helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


class Layers(Net):
    """Layers with random weights of a fit size."""

    def __init__(self) -> None:
        super().__init__(17)
        self.random = np.random.default_rng(7)

    def weights(self, *shape: int, fan: int = 0) -> str:
        fan = fan or int(np.prod(shape[1:]))
        return self.const(self.random.normal(0, fan**-0.5, shape), np.float32)

    def conv(self, x: str, ic: int, oc: int, *kernel: int, **attrs: Any) -> str:
        group = attrs.get("group", 1)
        w = self.weights(oc, ic // group, *kernel)
        attrs.setdefault("pads", [k // 2 for k in kernel] * 2)
        return self.node("Conv", x, w, self.weights(oc, fan=50), **attrs)

    def dense(self, x: str, n: int, m: int) -> str:
        product = self.node("MatMul", x, self.weights(n, m, fan=n))
        return self.node("Add", product, self.weights(m, fan=50))

    def normal(self, x: str, n: int) -> str:
        scale, bias = self.const(np.ones(n), np.float32), self.weights(n, fan=50)
        return self.node("LayerNormalization", x, scale, bias, axis=-1)

    def shaped(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.const(shape, np.int64))


def random_feeds(model: onnx.ModelProto, seed: int, samples: int = 2) -> list[dict[str, Array]]:
    """Inputs that reach every value of 8-bit types, and floats of both signs."""
    rng = np.random.default_rng(seed)
    feeds = []
    for _ in range(samples):
        sample = {}
        for info in model.graph.input:
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            shape = tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
            sample[info.name] = random_array(rng, dtype, shape)
        feeds.append(sample)
    return feeds


def random_array(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Array:
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return np.asarray(rng.normal(size=shape) * 2).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, size=shape).astype(dtype)
    info = np.iinfo(dtype)
    low, high = max(info.min, -30000), min(info.max, 30000)
    return np.asarray(rng.integers(low, high + 1, size=shape)).astype(dtype)
