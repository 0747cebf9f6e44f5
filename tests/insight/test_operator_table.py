"""`mlftool ops`: what it says of operators is what the suite shows, and what it says of a model is
what the compiler does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from looks import GESTURE, MANIFEST, MODELS, data_of, refused, said
from shared import NETWORKS, REPO

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module
from mlftool.insight.operators import supports
from mlftool.ir.dtype import BY_NAME, BY_ONNX


def test_the_table_agrees_with_the_suite() -> None:
    """What passes there is supported, with its types; and all that is not supported has no case."""
    known = {s.name: s for s in supports()}
    rows = re.findall(
        r"^\| (\S+) \| [^|]* \| [^|]* \| ([^|]*) \| [^|]* \| (\d+) of \d+ \|$",
        (REPO / "docs" / "operators.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) > 150
    compared = 0
    for name, types, passing in rows:
        support = known[name]
        if not int(passing):
            continue
        assert support.supported, name
        # The page has the type of a model's first input, which may be another operand's.
        if _operands_of_one_type(name) and support.types:
            codes = [onnx.TensorProto.DataType.Value(t.upper()) for t in types.split(", ") if t]
            assert {BY_ONNX[code].name for code in codes} <= set(support.types), name
            compared += 1
    assert compared > 80


def _operands_of_one_type(name: str) -> bool:
    if "." in name:
        return False
    schema = onnx.defs.get_schema(name)
    return len({i.type_str for i in schema.inputs}) == 1


@pytest.mark.parametrize("name", ["Abs", "Neg", "Relu", "Sign", "BitwiseNot", "Not", "Softmax"])
def test_listed_types_compile(name: str) -> None:
    (support,) = (s for s in supports() if s.name == name)
    assert support.types
    for dtype in support.types:
        code = BY_NAME[dtype].onnx
        x = onnx.helper.make_tensor_value_info("x", code, [2, 3])
        y = onnx.helper.make_tensor_value_info("y", code, [2, 3])
        node = onnx.helper.make_node(name, ["x"], ["y"], name="n")
        graph = onnx.helper.make_graph([node], "g", [x], [y])
        imports = [onnx.helper.make_opsetid("", 21)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
        assert compile_module(ModuleSpec(model, "m", "cortex-m4")).program.calls


def test_the_table_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    every = data_of(capsys, "ops", "--target", "cortex-m4", "--target", "cortex-m3")["operators"]
    assert {o["name"] for o in every} > {"Conv", "If", "SequenceAt", "com.microsoft.QLinearAdd"}
    (conv,) = (o for o in every if o["name"] == "Conv")
    assert conv["integer_form"] == "QLinearConv"
    assert "dsp" in conv["own_kernels"]["cortex-m4"]
    assert "dsp" not in conv["own_kernels"]["cortex-m3"]
    bits = data_of(capsys, "ops", "--type", "bool")["operators"]
    assert 0 < len(bits) < len(every)
    assert all("bool" in o["types"] for o in bits)
    lines = said(capsys, "ops", "--unsupported").splitlines()
    assert any(line.startswith("RandomNormal ") and "random numbers" in line for line in lines)
    assert not any(line.startswith("Conv ") for line in lines)


@pytest.mark.parametrize("name", ["kws_int8", "gesture_float32", "ad_int8"])
def test_a_models_kernels_are_the_compilers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = next(n for n in NETWORKS if n.name == name).path
    data = data_of(capsys, "ops", path, "--target", "cortex-m4", "--target", "cortex-m55")
    assert data["ok"]
    for target in ("cortex-m4", "cortex-m55"):
        calls = compile_module(ModuleSpec(path, "m", target)).program.calls
        assert [c.kernel.name for c in calls] == [s["kernels"][target] for s in data["layers"]]
        for layer in data["layers"]:
            assert layer["kernels"][target].startswith("portable.") == bool(layer["why"][target])


def unsupported() -> onnx.ModelProto:
    net = Net()
    x = net.input("x", np.float32, (1, 4))
    y = net.node("Relu", x)
    y = net.node("RandomNormalLike", y)
    y = net.node("ImageDecoder", y)
    return net.model(net.node("Abs", y))


def test_every_node_that_does_not_compile_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(unsupported(), tmp_path / "m.onnx")
    data = data_of(capsys, "ops", tmp_path / "m.onnx", status=1)
    assert not data["ok"]
    places = [p["path"] for p in data["problems"]]
    assert any("RandomNormalLike" in p for p in places)
    assert any("ImageDecoder" in p for p in places)
    text = said(capsys, "ops", tmp_path / "m.onnx", status=1)
    assert ": no, 2 problems\n" in text
    assert "random numbers" in text


def test_an_input_that_must_be_bound_comes_with_its_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '<ir_version: 9, opset_import: ["": 17]> g (float[n,4] x) => (float[n,4] y) {' \
           " y = Relu(x) }"  # fmt: skip
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    _, _, problem, remedy = said(capsys, "ops", tmp_path / "m.onnx", status=1).splitlines()
    assert problem.startswith("input 'x': MLF0206: ")
    assert "--input-shape x:1,4" in remedy


def test_warnings_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    x = net.input("x", np.float32, (1, 2, 8, 8))
    w = net.dq(net.const(np.ones((4, 2, 3, 3)), np.int8), 0.1, np.int8(0))
    xq = net.dq(net.q(x, 0.1, np.int8(0)), 0.1, np.int8(0))
    y = net.node("Conv", xq, w)
    onnx.save(net.model(net.dq(net.q(y, 0.1, np.int8(0)), 0.1, np.int8(0))), tmp_path / "m.onnx")
    data = data_of(capsys, "ops", tmp_path / "m.onnx")
    assert "MLF0312" in {w["code"] for w in data["warnings"]}
    assert "MLF0312: " in said(capsys, "ops", tmp_path / "m.onnx")


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.onnx").write_text("nothing")
    assert "MLF0202" in refused(capsys, "ops", tmp_path / "x.onnx")
    assert "MLF0201" in refused(capsys, "ops", tmp_path / "none.onnx")
    assert "did you mean 'cortex-m4'" in refused(capsys, "ops", "--target", "cortex-m44")
    assert "did you mean 'int8'" in refused(capsys, "ops", "--type", "iint8")
    assert "MLF0405" in refused(capsys, "ops", GESTURE, "--type", "int8")
    assert "MLF0405" in refused(capsys, "ops", MANIFEST, "--optimize", "size")
    assert "MLF0400" in refused(capsys, "ops", MANIFEST, "--target", "cortex-m44")
    assert "MLF0405" in refused(capsys, "ops", "--entry", "x")


def test_reasons_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "ops", MODELS / "gesture_float32.onnx", "--target", "cortex-m3")
    assert "portable on cortex-m3: Transpose, Softmax: this core has no kernel" in text
    assert main(["ops", str(GESTURE), "--target", "cortex-m4", "--optimize", "size"]) == 0


def test_models_of_a_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with the targets that it is for, by the kernels that `ops` of the model names."""
    targets = ("--target", "cortex-m3", "--target", "cortex-m4")
    words = ("ops", MANIFEST, "--entry", "gesture_int8", *targets)
    (found,) = data_of(capsys, *words)["models"]
    assert found["name"] == "models.yaml: gesture_int8"
    of_model = data_of(capsys, "ops", GESTURE, *targets)
    assert found["layers"] == of_model["layers"]
    assert found["targets"] == ["cortex-m3", "cortex-m4"]
    names = {m["name"] for m in data_of(capsys, "ops", MANIFEST)["models"]}
    assert {f"models.yaml: {m.stem}" for m in MODELS.glob("*.onnx")} <= names
    assert said(capsys, *words).startswith(
        "models.yaml: gesture_int8 for cortex-m3, cortex-m4: yes"
    )


def test_kernels_of_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "g.tar"
    assert main(["compile", str(GESTURE), "-o", str(archive), "--target", "cortex-m4"]) == 0
    found = data_of(capsys, "ops", archive)
    of_model = data_of(capsys, "ops", GESTURE)
    kernels = [layer["kernels"] for layer in found["layers"]]
    assert kernels == [layer["kernels"] for layer in of_model["layers"]]
    assert [set(k) for k in kernels] == [{"cortex-m4"}] * 9
    assert "MLF0405" in refused(capsys, "ops", archive, "--target", "cortex-m3")
