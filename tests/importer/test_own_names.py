"""What only the compiler writes, to say what it made of nodes, no model may: it is refused."""

from __future__ import annotations

import pytest
from onnx import ModelProto, TensorProto, helper

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.ops import OPS
from mlftool.ops.base import OLD

DOTTED = sorted(name for name in {*OPS, *OLD} if "." in name)


def model(op: str, domain: str = "", count: int = 1, **attrs: object) -> ModelProto:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    node = helper.make_node(op, ["x"] * count, ["y"], domain=domain, **attrs)
    opsets = [helper.make_opsetid("", 21)]
    opsets += [helper.make_opsetid(domain, 1)] if domain not in ("", "ai.onnx") else []
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def said(given: ModelProto) -> str:
    with pytest.raises(MlfError) as error:
        compile_module(ModuleSpec(given, "m"))
    return str(error.value)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize("name", DOTTED)
def test_a_domain_in_an_operators_name_is_none(name: str, domain: str) -> None:
    """Its expansion or its kernel would be met without any check of the standard's."""
    assert f"MLF0301]: node '0' ({name}): '{name}' is a name of the compiler's own" in said(
        model(name, domain)
    )


@pytest.mark.parametrize("name", [n for n in DOTTED if n.startswith("mlf.")])
def test_the_compilers_own_operators_are_no_models(name: str) -> None:
    assert "a name of the compiler's own" in said(model(name.partition(".")[2], "mlf", 2))


def test_nor_are_its_attributes() -> None:
    assert "'mlf.fixed' is a name" in said(model("Relu", **{"mlf.fixed": 1}))
