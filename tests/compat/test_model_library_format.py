"""TVM's own conformance list for the format (test_micro_model_library_format.py), test by test.

Where a figure of ours differs from TVM's, the test says why; docs/migration.md repeats it.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from compat import (
    ADD_PARAMS,
    AOT_C,
    CRT,
    GRAPH,
    SYSTEM_LIB,
    Exported,
    add_model,
    build,
    conv_model,
)

import mlftool as tvm
from mlftool import relay
from mlftool.errors import MlfError
from mlftool.relay.backend import Executor, Runtime

ADD_INPUTS = {
    "a": np.array([[1, 2]], np.uint8),
    "b": np.array([[3, 4]], np.float32),
    **ADD_PARAMS,
}


def check_age(exported: str) -> None:
    """TVM's is the local time and at most 5 minutes old; ours is SOURCE_DATE_EPOCH, else fixed."""
    when = datetime.datetime.strptime(exported, "%Y-%m-%d %H:%M:%SZ")
    assert when == datetime.datetime(1980, 1, 1)


def int8_add() -> onnx.ModelProto:
    net = Net()
    a, b = net.input("a", np.int8, (2,)), net.input("b", np.int8, (2,))
    return net.model(net.node("Add", a, b))


def operator(name: str) -> tvm.api.OperatorModule:
    mod, _ = relay.frontend.from_onnx(int8_add())
    return tvm.build_operator(
        mod.with_attr("output_tensor_names", ["c"]), "c", SYSTEM_LIB, name=name
    )


def test_export_operator_model_library_format(tmp_path: Path) -> None:
    """src/tir-1.txt holds Relay: there is no TIR here."""
    archive = Exported(operator("add"), tmp_path)
    metadata = archive.metadata
    assert metadata["version"] == 7
    assert metadata["model_name"] == "add"
    assert metadata["style"] == "operator"
    assert metadata["executors"] == []
    assert metadata["target"] == ["c -keys=cpu -model=host"]
    check_age(metadata["export_datetime"])
    assert metadata["memory"]["add"] == [
        {"size_bytes": 2, "shape": [2], "dtype": "int8", "input_binding": name} for name in "abc"
    ]
    assert archive.has("codegen/host/src/lib0.c")
    assert archive.has("codegen/host/src/lib1.c")
    assert archive.text("src/tir-1.txt").startswith('#[version = "0.0.5"]')
    assert "TVMSystemLibEntryPoint" in archive.text("codegen/host/src/lib0.c")
    archive.check(None, int8_add(), a=np.int8([100, -3]), b=np.int8([27, 5]))


def test_export_multiple_operator_model_library_format(tmp_path: Path) -> None:
    first = operator("a")
    for mods in ([first, operator("b")], [first, build(int8_add(), "model")]):
        with pytest.raises(MlfError, match=r"Multiple operator is not supported\."):
            tvm.micro.export_model_library_format(mods, tmp_path / "x.tar")
    assert not (tmp_path / "x.tar").exists()


@pytest.mark.parametrize(
    ("executor", "runtime", "header", "version"),
    [
        (GRAPH, SYSTEM_LIB, False, 7),
        (Executor("aot", {"link-params": True}), CRT, False, 7),
        (AOT_C, CRT, True, 7),
    ],
    ids=["graph", "aot-packed", "aot-c"],
)
def test_export_model_library_format_c(
    executor: Executor, runtime: Runtime, header: bool, version: int, tmp_path: Path
) -> None:
    """`constants_size_bytes` is 8 for aot too: the weights are in the code (TVM says 0). The
    operator is called by the names of ONNX, fused_mul_cast_add (TVM: fused_cast_multiply_add)."""
    mod, _ = relay.frontend.from_onnx(add_model(), shape={"a": (1, 2)})
    factory = build(mod, "add", executor, runtime, "c -keys=cpu -model=host", ADD_PARAMS)
    archive = Exported(factory, tmp_path)
    metadata = archive.metadata["modules"]["add"]
    assert archive.metadata["version"] == version
    assert metadata["model_name"] == "add"
    assert metadata["executors"] == [executor.name]
    assert metadata["style"] == "full-model"
    assert metadata["target"] == ["c -keys=cpu -model=host"]
    check_age(metadata["export_datetime"])
    if executor.name == "graph":
        assert metadata["memory"]["sids"] == [
            {"storage_id": 0, "size_bytes": 2, "input_binding": "a"},
            {"storage_id": 1, "size_bytes": 8, "input_binding": "b"},
            {"storage_id": 2, "size_bytes": 8, "input_binding": "p0"},
            {"storage_id": 3, "size_bytes": 8},
        ]
    assert archive.main("add") == {
        "constants_size_bytes": 8,
        "device": 1,
        "inputs": {"a": {"dtype": "uint8", "size": 2}, "b": {"dtype": "float32", "size": 8}},
        "io_size_bytes": 18,
        "outputs": {"add_2": {"dtype": "float32", "size": 8}},
        "workspace_size_bytes": 0,
    }
    (function,) = archive.functions("add")
    assert function["workspace"] == [{"device": 1, "workspace_size_bytes": 0}]
    assert function["function_name"] == "tvmgen_add_fused_mul_cast_add"
    assert archive.has("codegen/host/src/add_lib0.c")
    assert archive.has("codegen/host/src/add_lib1.c")
    assert archive.has("codegen/host/include/tvmgen_add.h") == header
    if executor.name == "graph":
        graph = archive.text("executor-config/graph/add.graph")
        assert graph == factory.get_graph_json()
        assert len(json.loads(graph)["nodes"]) == 4
    assert archive.text("src/add.relay") == str(factory.ir_mod)
    params = tvm.load(archive.path).module("add").params
    assert sorted(params) == (["p0"] if executor.name == "graph" else [])
    archive.check("add", add_model(), **ADD_INPUTS)


def depthwise() -> onnx.ModelProto:
    """int8[1,128,56,56], 3x3 depthwise, clipped at zero, stored as uint8."""
    net = Net()
    x = net.dq(net.input("p0", np.int8, (1, 128, 56, 56)), 0.05, np.int8(0))
    w = np.arange(128 * 9).reshape(128, 1, 3, 3) % 17 - 8
    w = net.dq(net.const(w, np.int8), 0.02, np.int8(0))
    y = net.node("Relu", net.node("Conv", x, w, group=128, pads=[1] * 4))
    return net.model(net.q(y, 0.04, np.uint8(0)))


@pytest.mark.parametrize("executor", [GRAPH, AOT_C], ids=str)
def test_export_model_library_format_workspace(executor: Executor, tmp_path: Path) -> None:
    """TVM: workspace 2466816 and io 1207040, for int16 data and weights that are inputs.

    Ours have constant weights and 8-bit data; the convolution stores its result at once, not as
    int32 and again for each operator after it.
    """
    archive = Exported(build(depthwise(), "test", executor), tmp_path)
    main = archive.main("test")
    assert main["inputs"] == {"p0": {"dtype": "int8", "size": 401408}}
    assert main["outputs"] == {"quantizelinear_4": {"dtype": "uint8", "size": 401408}}
    assert main["io_size_bytes"] == 802816
    # The input and the output once more, with the channels last.
    assert main["workspace_size_bytes"] == 2 * 401408
    assert [f["workspace"][0]["workspace_size_bytes"] for f in archive.functions("test")] == [0] * 3
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (1, 128, 56, 56)).astype(np.int8)
    module = tvm.load(archive.path).module()
    made = module.run({"p0": x})["quantizelinear_4"]
    wanted = onnx.reference.ReferenceEvaluator(depthwise()).run(None, {"p0": x})[0]
    assert np.abs(made.astype(int) - wanted).max() <= 1


def test_export_non_dso_exportable(tmp_path: Path) -> None:
    for wrong in (object(), [object()], [], None):
        with pytest.raises(MlfError, match="cannot export"):
            tvm.micro.export_model_library_format(wrong, tmp_path / "x.tar")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def three_chains() -> onnx.ModelProto:
    net = Net()
    x, *w = (net.input(n, np.float32, (10, 10)) for n in ("x", *(f"w{k}" for k in range(8))))
    first = net.node("Mul", net.node("Sub", net.node("Add", x, w[0]), w[1]), w[2])
    second = net.node("Mul", net.node("Sub", net.node("Add", x, w[3]), w[4]), w[5])
    third = net.node("Sub", net.node("Add", x, w[6]), w[7])
    return net.model(net.node("Concat", first, second, third, axis=0))


@pytest.mark.parametrize("executor", [GRAPH, AOT_C], ids=str)
def test_export_byoc_c_module_without_byoc(executor: Executor, tmp_path: Path) -> None:
    """The same model and figures; here no external generator makes the chains (there is none)."""
    archive = Exported(build(three_chains(), "ccompiler", executor), tmp_path)
    main = archive.main("ccompiler")
    names = ["x", *(f"w{k}" for k in range(8))]
    assert main["inputs"] == {n: {"dtype": "float32", "size": 400} for n in names}
    assert main["outputs"] == {"concat_8": {"dtype": "float32", "size": 1200}}
    assert main["io_size_bytes"] == 4800
    assert main["workspace_size_bytes"] == 1200
    rng = np.random.default_rng(2)
    archive.check(
        "ccompiler",
        three_chains(),
        **{n: rng.normal(size=(10, 10)).astype(np.float32) for n in names},
    )


def test_multiple_relay_modules_same_module_name(tmp_path: Path) -> None:
    mods = [build(add_model(), "mod"), build(conv_model(), "mod")]
    with pytest.raises(MlfError, match="Multiple modules should have unique names"):
        tvm.micro.export_model_library_format(mods, tmp_path / "x.tar")


X1, X2 = (np.random.default_rng(c).normal(size=(1, c, 64, 64)).astype(np.float32) for c in (3, 1))


def test_multiple_relay_modules_graph(tmp_path: Path) -> None:
    """TVM: io 143960 for int8 data with weights as an input. Ours: float32 data and constants."""
    mods = [build(conv_model(3), "mod1", GRAPH), build(conv_model(1), "mod2", GRAPH)]
    archive = Exported(mods, tmp_path)
    for name in ("mod1", "mod2"):
        assert archive.has(f"codegen/host/src/{name}_lib0.c")
        assert archive.has(f"codegen/host/src/{name}_lib1.c")
        assert archive.has(f"executor-config/graph/{name}.graph")
        assert archive.metadata["modules"][name]["model_name"] == name
    main = archive.main("mod2")
    assert main["inputs"] == {"data": {"dtype": "float32", "size": 16384}}
    assert main["outputs"] == {"conv_0": {"dtype": "float32", "size": 131072}}
    assert main["io_size_bytes"] == 147456
    assert main["constants_size_bytes"] == 8 * 25 * 4 + 8 * 4  # weights, and a bias of zeros
    # The output with the channels last, and the input with its padding.
    assert main["workspace_size_bytes"] == 131072 + 68 * 68 * 4
    archive.check("mod1", conv_model(3), data=X1)
    archive.check("mod2", conv_model(1), data=X2)


def test_multiple_relay_modules_c(tmp_path: Path) -> None:
    mods = [build(conv_model(3), "mod1"), build(conv_model(1), "mod2")]
    archive = Exported(mods, tmp_path)
    for name in ("mod1", "mod2"):
        assert archive.has(f"codegen/host/src/{name}_lib0.c")
        assert archive.has(f"codegen/host/src/{name}_lib1.c")
        assert archive.has(f"codegen/host/include/tvmgen_{name}.h")
        assert archive.metadata["modules"][name]["executors"] == ["aot"]
    assert archive.metadata["version"] == 7
    assert archive.has("runtime/include/tvm/runtime/c_runtime_api.h")
    archive.check("mod1", conv_model(3), data=X1)
    archive.check("mod2", conv_model(1), data=X2)


def test_multiple_relay_modules_aot_graph(tmp_path: Path) -> None:
    mods = [build(conv_model(3), "mod1", GRAPH), build(conv_model(1), "mod2", AOT_C)]
    archive = Exported(mods, tmp_path)
    assert archive.has("executor-config/graph/mod1.graph")
    assert not archive.has("codegen/host/include/tvmgen_mod1.h")
    assert archive.has("codegen/host/include/tvmgen_mod2.h")
    modules = archive.metadata["modules"]
    assert modules["mod1"]["executors"] == ["graph"]
    assert modules["mod2"]["executors"] == ["aot"]
    archive.check("mod1", conv_model(3), data=X1)
    archive.check("mod2", conv_model(1), data=X2)


def test_several_modules_share_one_system_library(tmp_path: Path) -> None:
    """In TVM two modules with a system library define the same symbol."""
    mods = [build(conv_model(c), f"mod{c}", GRAPH, SYSTEM_LIB) for c in (1, 3)]
    archive = Exported(mods, tmp_path)
    sources = sorted((archive.root / "codegen/host/src").glob("*.c"))
    owners = [s.name for s in sources if "*TVMSystemLibEntryPoint(void) {" in s.read_text()]
    assert owners == ["tvmgen_system_lib.c"]
    archive.check("mod1", conv_model(1), data=X2)


@pytest.mark.parametrize("executor", [GRAPH, Executor("aot"), AOT_C], ids=repr)
def test_output_name_single(executor: Executor, tmp_path: Path) -> None:
    mod, _ = relay.frontend.from_onnx(add_model())
    mod = mod.with_attr("output_tensor_names", ["test_output_a"])
    archive = Exported(build(mod, "add", executor, params=ADD_PARAMS), tmp_path)
    outputs = archive.main("add")["outputs"]
    assert outputs == {"test_output_a": {"dtype": "float32", "size": 8}}
    archive.check("add", add_model(), **ADD_INPUTS)


def four_outputs() -> onnx.ModelProto:
    net = Net()
    x = net.input("x", np.float32, (1, 2, 3))
    nodes = [net.node("Add", x, x), net.node("Exp", x), net.node("Cast", x, to=6)]
    return net.model(*nodes, net.node("Reshape", x, net.const([6], np.int64)))


@pytest.mark.parametrize("executor", [GRAPH, Executor("aot"), AOT_C], ids=repr)
def test_output_names_many(executor: Executor, tmp_path: Path) -> None:
    """TVM flattens nested tuples; the outputs of an ONNX model are a list from the start."""
    mod, _ = relay.frontend.from_onnx(four_outputs())
    names = [f"test_output_{c}" for c in "abcd"]
    archive = Exported(build(mod.with_attr("output_tensor_names", names), "m", executor), tmp_path)
    assert archive.main("m")["outputs"] == {
        "test_output_a": {"dtype": "float32", "size": 24},
        "test_output_b": {"dtype": "float32", "size": 24},
        "test_output_c": {"dtype": "int32", "size": 24},
        "test_output_d": {"dtype": "float32", "size": 24},
    }
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    archive.check("m", four_outputs(), x=x)


def test_template_files(tmp_path: Path) -> None:
    archive = Exported(build(conv_model(1), "mod1"), tmp_path)
    assert archive.has("templates/crt_config.h.template")
    assert archive.has("templates/platform.c.template")


def test_helpers_of_projects(tmp_path: Path) -> None:
    """mlf_extract_workspace_size_bytes sums over the modules, as TVM's does."""
    archive = Exported([build(conv_model(c), f"mod{c}") for c in (1, 3)], tmp_path)
    size = tvm.micro.testing.mlf_extract_workspace_size_bytes(archive.path)
    assert size == sum(archive.main(f"mod{c}")["workspace_size_bytes"] for c in (1, 3))


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_can_be_asked_for(version: int, tmp_path: Path) -> None:
    factory = build(add_model(), "default", GRAPH, params=ADD_PARAMS)
    path = tvm.micro.export_model_library_format(factory, tmp_path / "x.tar", version=version)
    archive = tvm.load(path)
    assert archive.version == version
    made = archive.module().run({n: ADD_INPUTS[n] for n in ("a", "b")})
    assert made["add_2"].tolist() == [[7, 18]]
