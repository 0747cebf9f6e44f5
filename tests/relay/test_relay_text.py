"""Every Relay text parses by TVM's grammar and types, and says what the model says."""

from __future__ import annotations

import re
import warnings

import numpy as np
import onnx
import pytest
from builders import Net
from families import FAMILIES
from onnx import helper
from relay_check import check
from relay_numbers import run
from relay_parser import Function, RelayError, Tensor, parse
from shared import NETWORKS, Network

from mlftool.codegen.relay import relay_function, relay_text
from mlftool.errors import MlfError
from mlftool.frontends.models import imported
from mlftool.ir.graph import Graph
from tests.conformance.suite import SuiteCase, load_suite


def checked(graph: Graph) -> tuple[str, Function]:
    """The text and what it parses to; its signature is the graph's."""
    text = relay_text(graph)
    function = parse(text)
    check(function)
    types = [graph.types[n] for n in graph.inputs]
    wanted = [Tensor(str(t.dtype), t.shape) for t in types]
    assert [t for _, t in function.params[: len(wanted)]] == wanted
    outputs = [graph.types[n] for n in graph.outputs]
    returned = function.returns if len(outputs) > 1 else (function.returns,)
    assert list(returned) == [Tensor(str(t.dtype), t.shape) for t in outputs]
    foreign = any(word in text for word in ("= onnx.", "float8", "float4", ", string]"))
    assert ("/* mlftool: pure Relay */" in text) != foreign
    return text, function


@pytest.mark.parametrize("family", FAMILIES)
def test_small_models_are_pure_relay(family: str) -> None:
    text, _ = checked(imported(FAMILIES[family][1](), family)[0])
    assert "pure Relay" in text


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_networks_are_pure_relay(network: Network) -> None:
    text, _ = checked(imported(network.path, "net")[0])
    assert "pure Relay" in text.splitlines()[1]


def test_every_operator_test_of_onnx_that_we_import() -> None:
    """Over a thousand small models; what Relay has not is in the dialect, and both parse. Those in
    pure Relay are run, and give what the tests expect."""
    texts, pure, failures = 0, 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of infinities
        for case in load_suite():
            try:
                values = (*case.model.graph.input, *case.model.graph.output)
                if not all(v.type.HasField("tensor_type") for v in values):
                    continue  # sequences, which only the model knows as such
                graph = imported(case.model, "net")[0]
            except MlfError:
                continue  # not a model of ours yet
            texts += 1
            try:
                text, function = checked(graph)
                if "/* mlftool: pure Relay */" in text:
                    pure += compared(graph, function, case)
            except Exception as error:
                failures.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)
    assert texts > 900
    assert pure > 600


def compared(graph: Graph, function: Function, case: SuiteCase) -> bool:
    """Whether the case has numbers and they agree; raises AssertionError where they do not."""
    if not case.data_sets:
        return False
    _, params = relay_function(graph)
    for inputs, wanted in case.data_sets:
        given = dict(zip([i.name for i in case.model.graph.input], inputs, strict=False))
        arguments = [np.asarray(given[n]) for n in graph.inputs]
        arguments += [params[local] for local, _ in function.params[len(arguments) :]]
        for made, value in zip(run(function, arguments), wanted, strict=True):
            expected = np.asarray(value)
            if expected.dtype.kind in "iu":  # halves of quantised values may go either way
                near = np.abs(made.astype(np.int64) - expected.astype(np.int64))
                assert near.max(initial=0) <= (1 if "uant" in case.name else 0), "integers differ"
            else:
                exact = expected.dtype.itemsize < 4
                made, expected = made.astype(np.float64), expected.astype(np.float64)
                tolerance = 1e-2 if exact else max(case.rtol, 1e-5)
                np.testing.assert_allclose(made, expected, rtol=tolerance, atol=1e-5)
    return True


def test_names_become_names_of_relay_and_stay_apart() -> None:
    net = Net()
    names = ["a/b:0", "a_b:0", "1", "let", "inff", "", "%0"]
    inputs = [helper.make_tensor_value_info(n or "_", 1, [2]) for n in names]
    nodes = [helper.make_node("Sum", [n or "_" for n in names], ['y"*/'], name="*/ evil")]
    out = helper.make_empty_tensor_value_info('y"*/')
    graph = helper.make_graph(nodes, "g", inputs, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)])
    _, function = checked(imported(model, "net")[0])
    expected = ["%a_b_0", "%a_b_0_1", "%v1", "%vlet", "%vinff", "%v_", "%_0"]
    assert [n for n, _ in function.params] == expected
    assert function.attrs == {"output_tensor_names": ["y___"]}


def test_the_add_model_reads_like_tvms() -> None:
    net = Net()
    a, b = net.input("a", np.uint8, (1, 2)), net.input("b", np.float32, (1, 2))
    product = net.node("Mul", b, net.const([[2, 4]], np.float32))
    y = net.node("Add", net.node("Cast", a, to=onnx.TensorProto.FLOAT), product)
    text, _ = checked(imported(net.model(y), "add")[0])
    calls = re.findall(r"= ([a-z.]+)\(", text)
    assert calls == ["multiply", "cast", "add"]
    assert text.startswith('#[version = "0.0.5"]\n/* mlftool: pure Relay */\ndef @main(%a: ')


def test_what_relay_lacks_is_marked() -> None:
    net = Net()
    x = net.input("x", np.float32, (2, 3))
    text, function = checked(imported(net.model(net.node("Shrink", x)), "net")[0])
    header = "/* mlftool: Relay with calls of the onnx dialect (1): onnx.Shrink */"
    assert text.splitlines()[1] == header
    assert "let %onnx_value: Tensor[(2, 3), float32] = onnx.Shrink(%x" in text
    assert function.body.bindings[0][2].op == "onnx.Shrink"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("%0 = add(%x, 0.5);", "suffix"),
        ("%0 = add(%x, %y);", "not defined"),
        ("%0 = add(%x);", "takes 2"),
        ("%0 = add(%x, 1);", "two types"),
        ("%0 = nn.softmax(%x, axes=1);", "no attribute axes"),
        ("%0 = nn.softmax(%x, axis=2);", "axis 2"),
        ("%0 = shrink(%x);", "no operator"),
        ("%0 = transpose(%x, axes=[0, 0]);", "transpose"),
        ("%0 = transpose(%x, axes=[1, 0])", "expected ;"),
        ("%0 = transpose(%x, axes=[1, 0]); /* ty", "does not end"),
        ("%0 = copy(%x.0);", "no item"),
    ],
)
def test_the_checker_refuses(line: str, reason: str) -> None:
    t = "Tensor[(2, 3), float32]"
    text = f'#[version = "0.0.5"]\ndef @main(%x: {t}) -> {t} {{\n{line}\n%0\n}}\n'
    with pytest.raises(RelayError, match=reason):
        check(parse(text))
