"""A word that an attribute cannot be is refused: no default takes its place."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import pytest
from mutant_seeds import operators
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.onnx_rules.steps import OPSETS

# Any text is right in these.
FREE = {"default_string", "delimiter", "equation", "locale", "pattern", "value_string"}


def nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def words_of(node: NodeProto, opset: int) -> set[str]:
    """The attributes of a node that hold a word, those among them that it leaves out."""
    spelt = {a.name for a in node.attribute if a.type == AttributeProto.STRING}
    version = OPSETS.get(node.domain, 1) if node.domain else opset
    if not onnx.defs.has(node.op_type, version, node.domain):
        return spelt - FREE
    known = onnx.defs.get_schema(node.op_type, version, node.domain).attributes
    return {n for n, a in known.items() if str(a.type).endswith(".STRING")} - FREE


def found() -> dict[tuple[str, str], ModelProto]:
    """A model for each operator and attribute, with a word that nobody knows."""
    made: dict[tuple[str, str], ModelProto] = {}
    for given in operators():
        opset = next((o.version for o in given.opset_import if not o.domain), OPSETS[""])
        for k, node in enumerate(nodes(given.graph)):
            for name in sorted(words_of(node, opset)):
                if (node.op_type, name) in made:
                    continue
                model = ModelProto()
                model.CopyFrom(given)
                node = list(nodes(model.graph))[k]
                kept = [a for a in node.attribute if a.name != name]
                del node.attribute[:]
                node.attribute.extend([*kept, helper.make_attribute(name, "unheard-of")])
                made[node.op_type, name] = model
    return made


MODELS = found()


def test_many_operators_have_words() -> None:
    """Those of the records that state words among them."""
    assert {("Resize", "keep_aspect_ratio_policy"), ("SVMRegressor", "kernel_type")} <= {*MODELS}
    assert len(MODELS) >= 37, sorted(MODELS)


@pytest.mark.parametrize(("op", "name"), sorted(MODELS))
def test_unknown_words_are_refused(op: str, name: str) -> None:
    with pytest.raises(MlfError) as error:
        compile_module(ModuleSpec(MODELS[op, name], "m"))
    text = str(error.value)
    assert "MLF0900" not in text
    assert "unheard-of" in text or name in text, text
