"""How the corpus of bad models is written down: one function per case, which makes the model.

A case is given an empty folder and returns the model's bytes, a ModelProto, or the path of a file
that it wrote there itself. What the command says of each stands in bad_models.txt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
Made = bytes | ModelProto | Path


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Path], Made]

    def write(self, folder: Path) -> Path:
        """The model on disk."""
        made = self.make(folder)
        if isinstance(made, Path):
            return made
        path = folder / "model.onnx"
        path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
        return path


CASES: list[Case] = []


def case(make: Callable[[Path], Made]) -> Callable[[Path], Made]:
    """Register the function below as a bad model."""
    CASES.append(Case(make.__name__, make))
    return make


def expected_lines() -> dict[str, tuple[str, ...]]:
    """The error lines of each case, from the file beside this one."""
    expected: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in (Path(__file__).parent / "bad_models.txt").read_text("utf-8").splitlines():
        if line.startswith("    "):
            expected[name] += (line[4:],)
        elif line and not line.startswith("#"):
            name = line
            assert name not in expected, name
            expected[name] = ()
    return expected


def value(
    name: str, shape: Sequence[int | str] | None = (1, 4), kind: int = FLOAT
) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[NodeProto] = (),
    inputs: Sequence[ValueInfoProto] | None = None,
    outputs: Sequence[ValueInfoProto] | None = None,
    weights: Sequence[TensorProto] = (),
    opsets: Sequence[tuple[str, int]] = (("", 17),),
) -> ModelProto:
    """A model; without arguments the good one, y = Relu(x), that most cases spoil somewhere."""
    graph = helper.make_graph(
        nodes or [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        "g",
        [value("x")] if inputs is None else inputs,
        [value("y")] if outputs is None else outputs,
        weights,
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def node(op: str, inputs: str, outputs: str = "y", name: str = "n", **attrs: object) -> NodeProto:
    """A node; `inputs` and `outputs` are names separated by spaces, "-" for one left out."""
    split = [[("" if n == "-" else n) for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *split, name=name, **attrs)


def tensor(name: str, array: object) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array, np.float32), name)


def raw(name: str, dims: Sequence[int], data: bytes, kind: int = FLOAT) -> TensorProto:
    """A tensor proto whose parts need not agree."""
    return TensorProto(name=name, dims=dims, data_type=kind, raw_data=data)


def add_weight(weight: TensorProto) -> ModelProto:
    """y = x + w, with a weight that is wrong in some way."""
    return model([node("Add", "x w")], weights=[weight])


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload
