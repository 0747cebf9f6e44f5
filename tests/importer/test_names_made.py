"""Values that the importer makes never get a name that the model has, now or later: torch.jit calls
values x.1, x.2 ..., and so do the steps that stand for an operator which gives x."""

from __future__ import annotations

from mutant_seeds import seeds
from onnx import ModelProto, TensorProto, helper

from mlftool.errors import MlfError
from mlftool.importer.onnx import import_model
from mlftool.ir.graph import Graph
from mlftool.ir.verify import verify
from mlftool.onnx_rules.protos import names_in

NAMES = 4  # of each model
MORE = "mlf.more"  # one more output


def imported(model: ModelProto) -> Graph:
    graph = import_model(model, "m", "", {})
    verify(graph, "import")
    return graph


def names_made(model: ModelProto, graph: Graph) -> list[str]:
    own = names_in(model.graph.node) | {t.name for t in model.graph.initializer}
    own |= {value.name for value in (*model.graph.input, *model.graph.output)}
    return sorted({*graph.types, *graph.consts} - own - {""})[:NAMES]


def with_value(model: ModelProto, name: str, source: str, first: bool) -> ModelProto:
    """The model with one more value `name`, before all others or after them."""
    changed = ModelProto()
    changed.CopyFrom(model)
    added = [helper.make_node("Neg", [source], [name]), helper.make_node("Neg", [name], [MORE])]
    own = list(model.graph.node)
    del changed.graph.node[:]
    changed.graph.node.extend([*added, *own] if first else [*own, *added])
    changed.graph.output.append(helper.make_empty_tensor_value_info(MORE))
    return changed


def wrong(model: ModelProto) -> list[str]:
    """The names that the importer makes and does not yield to the model."""
    try:
        graph = imported(model)
    except MlfError:
        return []
    inputs = [i for i in model.graph.input if i.name in graph.inputs]
    floats = [i.name for i in inputs if i.type.tensor_type.elem_type == TensorProto.FLOAT]
    found = []
    for name in names_made(model, graph) if floats else ():
        for first in (True, False):
            other = imported(with_value(model, name, floats[0], first))
            makers = [node.op for node in other.nodes if name in node.outputs]
            count = len(other.nodes) - len(graph.nodes)
            if (makers, count) != (["Neg"], 2) or name in other.consts:
                found.append(name)
    return found


def test_no_name_is_the_models() -> None:
    """Of every 29th seed, so that all families of operators are among them."""
    assert not [found for model in seeds()[::29] for found in wrong(model)]
