"""What nodes of onnxruntime's own operators may have: as onnxruntime's schemas say, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from onnx import NodeProto, helper

from mlftool.importer.schema import misfit
from mlftool.ops.base import OLD, OPS

MS = "com.microsoft"
FORMS = {name: o.signature for name, o in {**OPS, **OLD}.items() if name.startswith(f"{MS}.")}


def test_every_operator_has_a_form() -> None:
    assert all(FORMS.values())


def test_forms_are_those_of_onnxruntime() -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    schemas = {f"{MS}.{s.name}": s for s in state.get_all_operator_schema() if s.domain == MS}
    marks = {"Single": "x", "Optional": "?", "Variadic": "*"}
    for name, form in FORMS.items():
        schema = schemas[name]
        inputs = "".join(marks[str(i.option).rpartition(".")[2]] for i in schema.inputs)
        found = (inputs, sorted(schema.attributes), schema.max_output)
        assert found == (form.inputs, sorted(form.attributes), form.outputs), name


def nodes(name: str) -> Iterator[tuple[NodeProto, bool]]:
    """Of an operator, each with whether it has what it may have."""
    form = FORMS[name]
    inputs = [f"i{k}" for k, what in enumerate(form.inputs) if what != "*"]
    outputs, attributes = [f"o{k}" for k in range(form.outputs)], form.attributes

    def node(inputs: list[str], outputs: list[str], *names: str) -> NodeProto:
        return helper.make_node(
            name.removeprefix(f"{MS}."), inputs, outputs, domain=MS, **dict.fromkeys(names, 1)
        )

    yield node(inputs, outputs, *attributes), True
    yield node(inputs, outputs[:1]), True
    yield node([*inputs, "more"], outputs), form.inputs.endswith("*")
    yield node(inputs, [*outputs, "more"]), False
    yield node(inputs, outputs, "surplus"), False
    for k, what in enumerate(form.inputs[: len(inputs)]):
        yield node([*inputs[:k], "", *inputs[k + 1 :]], outputs), what == "?"
    least = len(form.inputs.rstrip("*").rstrip("?"))
    yield node(inputs[:least], outputs), True
    yield node(inputs[: least - 1], outputs), False


@pytest.mark.parametrize("name", FORMS)
def test_what_a_node_may_not_have_is_refused(name: str) -> None:
    for node, fits in nodes(name):
        assert (misfit(node, 1) == "") == fits, (
            list(node.input),
            list(node.output),
            node.attribute,
        )
