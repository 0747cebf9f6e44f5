"""What TVM's test_crt_aot.py and tvmc's test_mlf.py ask of generated code and of its reader."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from compat import ADD_PARAMS, AOT_C, GRAPH, Exported, add_model, build, conv_model
from onnx import helper

import mlftool as tvm
from mlftool import relay
from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.relay.backend import Executor
from mlftool.runtime import toolchain


def identity_like(*inputs: str) -> onnx.ModelProto:
    """The sum of inputs of these names."""
    infos = [helper.make_tensor_value_info(n, 1, [4]) for n in inputs]
    node = helper.make_node("Sum", list(inputs), ["out::put"])
    out = helper.make_tensor_value_info("out::put", 1, [4])
    graph = helper.make_graph([node], "g", infos, [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_error_c_interface_with_packed_api() -> None:
    text = (
        'Either need interface_api == "packed" (got: c) or unpacked-api == true (got: 0) when '
        "targeting c runtime"
    )
    with pytest.raises(MlfError, match=re.escape(text)):
        build(add_model(), "m", Executor("aot", {"interface-api": "c", "unpacked-api": False}))


def test_tensor_names_are_sanitised_in_the_header(tmp_path: Path) -> None:
    """TVM refuses two names that sanitise alike; ours are told apart by a number."""
    model = identity_like("input::-+0", "input:::+0", "class")
    archive = Exported(build(model, "default"), tmp_path)
    header = archive.text("codegen/host/include/tvmgen_default.h")
    assert re.findall(r"void \*?\s?\*?(\w+);", header) == [
        *("input____0", "input____0_1", "class_", "out__put")
    ]
    assert sorted(archive.main("default")["inputs"]) == ["class", "input::-+0", "input:::+0"]
    x = {n: np.full(4, k, np.float32) for k, n in enumerate(archive.main("default")["inputs"], 1)}
    archive.check("default", model, **x)


def test_header_names_and_sizes(tmp_path: Path) -> None:
    archive = Exported(build(add_model(), "mod_1", params=ADD_PARAMS), tmp_path)
    header = archive.text("codegen/host/include/tvmgen_mod_1.h")
    for expected in (
        "struct tvmgen_mod_1_inputs {",
        "struct tvmgen_mod_1_outputs {",
        "int32_t tvmgen_mod_1_run(",
        "#define TVMGEN_MOD_1_A_SIZE 2",
        "#define TVMGEN_MOD_1_B_SIZE 8",
        "#define TVMGEN_MOD_1_ADD_2_SIZE 8",
        "#define TVMGEN_MOD_1_WORKSPACE_SIZE 0",
    ):
        assert expected in header


def test_workspace_macro_is_the_metadata_figure(tmp_path: Path) -> None:
    archive = Exported(build(conv_model(1), "m"), tmp_path)
    size = archive.main("m")["workspace_size_bytes"]
    header = archive.text("codegen/host/include/tvmgen_m.h")
    assert f"#define TVMGEN_M_WORKSPACE_SIZE {size}" in header
    assert "global_workspace[TVMGEN_M_WORKSPACE_SIZE]" in archive.text("codegen/host/src/m_lib0.c")


def test_constants_are_aligned(tmp_path: Path) -> None:
    archive = Exported(build(conv_model(1), "m"), tmp_path)
    code = archive.text("codegen/host/src/m_lib1.c")
    arrays = re.findall(r"^.*static const \w+ \w+\[\d+\] = \{$", code, re.MULTILINE)
    assert len(arrays) == 2
    assert all("MLF_ALIGNED(16)" in line for line in arrays)


def test_several_models_in_one_program(tmp_path: Path) -> None:
    """Both modules call kernels of the same names; nothing else of them meets."""
    Exported([build(conv_model(1), "one"), build(conv_model(3), "two")], tmp_path)
    program = tmp_path / "main.c"
    program.write_text(
        '#include "tvmgen_one.h"\n#include "tvmgen_two.h"\n'
        "static float x[3 * 64 * 64], y[8 * 64 * 64];\n"
        "int main(void) {\n"
        "  struct tvmgen_one_inputs i1 = {x};\n  struct tvmgen_one_outputs o1 = {y};\n"
        "  struct tvmgen_two_inputs i2 = {x};\n  struct tvmgen_two_outputs o2 = {y};\n"
        "  return tvmgen_one_run(&i1, &o1) || tvmgen_two_run(&i2, &o2);\n}\n"
    )
    root = tmp_path / "extracted" / "codegen" / "host"
    sources = sorted(map(str, (root / "src").glob("*.c")))
    command = [*toolchain.find(toolchain.CC), "-std=c99", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{root / 'include'}", str(program), *sources, "-o", str(tmp_path / "p"), "-lm"]
    subprocess.run(command, check=True)
    assert subprocess.run([tmp_path / "p"]).returncode == 0


def test_calls_are_checked_and_functions_declared(tmp_path: Path) -> None:
    """Packed kernels may fail, so main looks at what they return; each has a prototype before."""
    packed = Executor("aot", {"interface-api": "packed", "unpacked-api": False})
    archive = Exported(build(conv_model(1), "m", packed), tmp_path)
    code = archive.text("codegen/host/src/m_lib2.c")
    called = re.findall(r"if \((tvmgen_m_\w+)\(values", code)
    assert len(called) == len(archive.functions("m")) == 2
    for name in called:
        prototype, definition = code.index(f"int {name}("), code.rindex(f"int {name}(")
        assert prototype < definition < code.index(f"if ({name}(values")
        assert code[prototype : code.index("\n", prototype)].endswith(";")


@pytest.mark.parametrize("executor", [AOT_C, Executor("aot")], ids=repr)
def test_names_of_inputs_are_kept_in_call_order(executor: Executor, tmp_path: Path) -> None:
    model = identity_like("zeta", "alpha", "mid")
    path = Exported(build(model, "m", executor), tmp_path).path
    module = tvm.load(path).module()
    assert [t.name for t in module.inputs] == ["zeta", "alpha", "mid"]
    assert [t.name for t in module.outputs] == ["out::put"]


def test_upper_case_module_names_are_refused() -> None:
    """In TVM they make sources that do not compile."""
    with pytest.raises(MlfError, match="lower-case"):
        build(add_model(), "MyModel", params=ADD_PARAMS)


def test_import_of_a_graph_archive(tmp_path: Path) -> None:
    """tvmc's TVMCPackage: type, executor, graph and parameters of an archive."""
    factory = build(add_model(), "default", GRAPH, params=ADD_PARAMS)
    loaded = tvm.load(Exported(factory, tmp_path).path)
    module = loaded.module()
    assert (loaded.version, loaded.modules) == (7, ("default",))
    assert module.executor == "graph"
    assert module.graph is not None
    assert [n["name"] for n in module.graph["nodes"]][:3] == ["a", "b", "p0"]
    assert module.params["p0"].tolist() == [[2, 4]]


def test_import_of_an_aot_archive(tmp_path: Path) -> None:
    module = tvm.load(Exported(build(add_model(), "default", params=ADD_PARAMS), tmp_path).path)
    assert module.module().executor == "aot"
    assert module.module().graph is None
    assert module.module().params == {}


def test_an_archive_runs_on_this_computer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """tvmc refuses to run an archive without a board; ours is compiled and run."""
    path = Exported(build(add_model(), "default", params=ADD_PARAMS), tmp_path).path
    a, b = np.array([[1, 2]], np.uint8), np.array([[3, 4]], np.float32)
    np.savez(tmp_path / "in.npz", a=a, b=b)
    out = tmp_path / "out.npz"
    assert main(["run", str(path), "--inputs", str(tmp_path / "in.npz"), "-o", str(out)]) == 0
    assert np.load(out)["add_2"].tolist() == [[[7, 18]]]
    assert "1 sample" in capsys.readouterr().out


def test_what_a_script_takes_out_of_a_factory() -> None:
    """Tutorials look at the code, and unpack a factory into graph, library and parameters."""
    mod, params = relay.frontend.from_onnx(conv_model(1))
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        factory = relay.build(mod, "c", executor=AOT_C, params=params)
    first = factory.get_lib().imported_modules[0]
    assert first.type_key == "c"
    assert "tvmgen_default___tvm_main__" in first.get_source()
    graph, lib, values = factory
    assert graph is None
    assert lib is factory.lib
    assert values == {} == factory.get_params()
    assert factory.libmod_name == "default"
    assert factory.executor_codegen_metadata["io_size_bytes"] == 147456
    assert set(factory.function_metadata) >= {"tvmgen_default_conv"}
