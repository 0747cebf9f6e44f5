"""A matrix of targets and executors imports its model once, and each module is what it is alone."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from mlftool.compile import compile_module
from mlftool.frontends import models
from mlftool.module import Module, ModuleSpec

TARGETS = ("cortex-m4", "cortex-m55", "rv32imc", "host")


def network(weight: float = 2.0) -> onnx.ModelProto:
    """A dense layer and a chain, of which some passes make something else."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    got = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    values = [weight if k % 5 == 0 else 0.25 * k for k in range(16)]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Mul", ["h", "one"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    constants = [
        helper.make_tensor("w", TensorProto.FLOAT, [4, 4], values),
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
    ]
    return helper.make_model(helper.make_graph(nodes, "g", [given], [got], constants))


def made(model: Path | onnx.ModelProto, target: str, rows: int = 3) -> Module:
    return compile_module(ModuleSpec(model, "m", target, input_shapes={"x": (rows, 4)}))


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were imported since, each as often as it was."""
    found: list[str] = []
    ours = models.import_model

    def counted(model: onnx.ModelProto, name: str, file: str, shapes: object) -> object:
        found.append(file)
        return ours(model, name, file, shapes)  # type: ignore[arg-type]

    models._last.clear()
    monkeypatch.setattr(models, "import_model", counted)
    return found


def test_targets_share_an_import_and_give_what_each_gives_alone(imports: list[str]) -> None:
    together = [made(network(), target) for target in TARGETS]
    assert len(imports) == 1
    for target, module in zip(TARGETS, together, strict=True):
        models._last.clear()
        alone = made(network(), target)
        assert module.sources.files == alone.sources.files
        assert module.imported.name == alone.imported.name == "m"
    assert len(imports) == 1 + len(TARGETS)


def test_another_content_shape_or_place_is_imported_again(
    imports: list[str], tmp_path: Path
) -> None:
    path, other = tmp_path / "m.onnx", tmp_path / "n.onnx"
    onnx.save(network(), path)
    onnx.save(network(), other)
    first = made(path, "host")
    assert made(path, "host", rows=5).imported.types["x"].shape == (5, 4)
    made(other, "host", rows=5)  # messages name the file
    onnx.save(network(3.0), path)
    changed = made(path, "host")
    assert len(imports) == 4
    assert changed.sources.files != first.sources.files
