"""The models that mutants are made of: the examples, and every case of the operators' own tests."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
from bad_corpus import model, node, tensor, value
from cases import Case
from found import FOUND
from onnx import ModelProto, TensorProto, helper

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples" / "models"
LARGEST = 20_000  # bytes: a mutant of a big model takes long and shows no more
HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'


@functools.cache
def seeds(suite: bool = False) -> tuple[ModelProto, ...]:
    """The models in a fixed order; with `suite` also those of onnx's backend tests."""
    made = [onnx.load(p) for p in sorted(EXAMPLES.glob("*.onnx"))]
    made += [network(), *operators()]
    made += [one for _, one in found_models()]
    if suite:
        sys.path.append(str(TESTS / "conformance"))
        from suite import load_suite

        made += [case.model for case in load_suite() if case.model.ByteSize() <= LARGEST]
    return tuple(made)


def found_models() -> Iterator[tuple[str, ModelProto]]:
    """What campaigns found, by name."""
    for name, (_, opset, text) in FOUND.items():
        versions = f'"": {opset}, "ai.onnx.ml": 3, "com.microsoft": 1'
        yield name, onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{versions}]>\n{text}")


def operators() -> Iterator[ModelProto]:
    """The cases of tests/ops: a table of Cases, or of models in onnx's text."""
    sys.path.append(str(TESTS / "ops"))
    for path in sorted((TESTS / "ops").glob("test_*.py")):
        table: dict[str, Any] = vars(importlib.import_module(path.stem))
        for case in table.get("CASES", ()):
            if isinstance(case, Case) and case.model.ByteSize() <= LARGEST:
                yield case.model
        for text in dict(table.get("MODELS", {})).values():
            if isinstance(text, str):
                yield onnx.parser.parse_model(HEAD + text)


def network() -> ModelProto:
    """Layers of several families in a row."""
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [4, 1])
    steps = [
        node("Concat", "x x", "k", axis=1),
        node("Transpose", "k", "t", perm=[1, 0]),
        node("Softmax", "t", "m", axis=0),
        node("Gemm", "m g", "h", transB=1, alpha=0.5),
        node("Reshape", "x s", "p"),
        node("Sub", "h p", "y"),
    ]
    weights = [tensor("g", [[1.0]] * 3), shape]
    return model(steps, [value("x", (1, 2))], [value("y", None)], weights)
