"""The pass: which nodes go together, what stays, and the calls of devices in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from offload import Loaded, samples
from shared import REPO

import mlftool
from mlftool.backend import run_model
from mlftool.backends import (
    Backend,
    BackendCode,
    Library,
    backends,
    register_backend,
    vendors,
    wanted,
)
from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module
from mlftool.describe import bundle
from mlftool.errors import MlfError
from mlftool.ir.graph import Graph, Node
from mlftool.module import Module
from mlftool.targets import Target


def network() -> onnx.ModelProto:
    """Two layers with a Sin between them, and a third one behind."""
    net, rng = Net(17), np.random.default_rng(1)
    value = net.input("x", np.float32, (1, 4))
    for k in range(3):
        value = net.node("MatMul", value, net.const(rng.normal(0, 1, (4, 4)), np.float32))
        value = net.node("Sin", value) if k == 0 else value
    return net.model(value)


def accepts(graph: Graph, node: Node, target: Target) -> tuple[Node, ...] | str:
    return (node,) if node.op == "Gemm" else "waves are not for it" if node.op == "Sin" else ""


def compile(part: Graph, target: Target) -> BackendCode:
    """y = W x of each layer, one behind the other; `fail` of the vendor decides what it returns."""
    names = [n.inputs[1] for n in part.nodes]
    arrays = {f"w{k}": np.ascontiguousarray(part.consts[n]) for k, n in enumerate(names)}
    lines = ["  float *at = (float *)(void *)workspace;", "  memcpy(at, in0, 16);"]
    for k, node in enumerate(part.nodes):
        turned = node.attrs.get("transB", 0)
        index = "4 * i + j" if turned else "4 * j + i"
        lines += [
            "  for (int i = 0; i < 4; i++) {",
            "    float sum = 0;",
            f"    for (int j = 0; j < 4; j++) sum += at[{4 * k} + j] * w{k}[{index}];",
            f"    at[{4 * k + 4} + i] = sum;",
            "  }",
        ]
    lines += [f"  memcpy(out0, at + {4 * len(names)}, 16);", "  return vendor_called(context);"]
    size = 16 * (len(names) + 1)
    includes = ("<string.h>", '"vendor.h"')
    return BackendCode("\n".join(lines), includes, "", arrays, size, headers={"vendor.h": HEADER})


HEADER = "int vendor_called(void *context);\n"
DRIVER = """
#include <stddef.h>
#include <stdint.h>
char journal[200];
int32_t length, fails_at = -1;
static int32_t noted(char event, void *context) {
  journal[length++] = context == NULL ? event : (char)(event + 'a' - 'A');
  return length - 1 == fails_at;
}
int vendor_called(void *context) { return noted('X', context); }
int32_t allocated;
static char memory[256];
void *TVMBackendAllocWorkspace(int type, int id, uint64_t bytes, int code, int bits) {
  (void)type, (void)id, (void)code, (void)bits;
  allocated++;
  return bytes <= sizeof memory ? memory : NULL;
}
int TVMBackendFreeWorkspace(int type, int id, void *at) {
  (void)type, (void)id;
  allocated--;
  return at != memory;
}
int32_t TVMDeviceNpu2Activate(void *context) { return noted('A', context); }
int32_t TVMDeviceNpu2Open(void *context) { return noted('O', context); }
int32_t TVMDeviceNpu2Close(void *context) { return noted('C', context); }
int32_t TVMDeviceNpu2Deactivate(void *context) { return noted('D', context); }
"""
NPU = Backend("npu", accepts, compile, "npu2", (Library("npu-driver", "1.2", "npu.example"),))


@pytest.fixture
def npu(request: pytest.FixtureRequest) -> Backend:
    return register_backend(replace(NPU, **getattr(request, "param", {})))


def made(*names: str, **options: Any) -> Module:
    return compile_module(ModuleSpec(network(), "m", backends=names, **options))


def loaded(module: Module, folder: Path) -> Loaded:
    driver = folder / "driver.c"
    driver.write_text(DRIVER)
    return Loaded(module, folder, [driver], [REPO / "crt/include", REPO / "crt/platform/host"])


def journal(library: Loaded) -> str:
    """What happened since the last call."""
    import ctypes

    length = library.number("length")
    text = (ctypes.c_char * 200).in_dll(library.library, "journal").raw[: length.value].decode()
    length.value = 0
    return text


PACKED = {"interface_api": "packed"}


@pytest.mark.parametrize(
    "form",
    [{}, {"executor": "vm"}, PACKED, {**PACKED, "unpacked_api": True}],
    ids=["aot", "vm", "packed", "packed_entry"],
)
def test_parts_run_between_the_hooks_of_their_device(
    form: dict[str, Any], npu: Backend, tmp_path: Path
) -> None:
    module = made("npu", **form)
    library = loaded(module, tmp_path)
    (inputs,) = samples(module, 1)
    status, got = library.run(inputs, [None])
    assert status == 0
    assert journal(library) == "A" + "OXC" * 3 + "D"
    want = run_model(network(), [inputs["x"]])[0]
    (output,) = got.values()
    np.testing.assert_allclose(output, want, rtol=1e-5, atol=1e-6)
    library.run(inputs, [1])
    assert journal(library) == "a" + "oxc" * 3 + "d"
    suffix = "_devices" if "interface_api" in form else ""
    header = bundle([module]).files[f"codegen/host/include/tvmgen_m{suffix}.h"]
    assert b"struct tvmgen_m_devices {\n  void *npu2;\n};" in header


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("at", "events"),
    [
        (0, "A"),  # what was never active is not deactivated
        (1, "AOD"),  # nor closed what was not opened
        (2, "AOXCD"),
        (3, "AOXCD"),
        (5, "AOXCOXCD"),
        (10, "A" + "OXC" * 3 + "D"),
    ],
)
def test_a_failure_closes_in_reverse(at: int, events: str, npu: Backend, tmp_path: Path) -> None:
    forms: list[dict[str, Any]] = [{}, {"executor": "vm"}, {"interface_api": "packed"}]
    for form in forms:
        folder = tmp_path / "-".join(form)
        folder.mkdir(exist_ok=True)
        library = loaded(made("npu", **form), folder)
        (inputs,) = samples(library.module, 1)
        library.number("fails_at").value = at
        assert library.run(inputs, [None])[0] == -1
        assert journal(library) == events
        library.number("fails_at").value = -1
        assert library.run(inputs, [None])[0] == 0


@pytest.mark.parametrize(("at", "events"), [(-1, "AOXCD"), (0, "A"), (1, "AOD"), (2, "AOXCD")])
def test_a_function_of_a_graph_has_the_device_for_itself(
    at: int, events: str, npu: Backend, tmp_path: Path
) -> None:
    """It is called by name, alone, so nobody else can activate the device."""
    module = made("npu", executor="graph", link_params=True)
    library = loaded(module, tmp_path)
    library.number("fails_at").value = at
    value = np.ones((1, 4), np.float32)
    arrays = [value, np.zeros_like(value)]
    for handle, seen in ((None, events), ([None], events), ([1], events.lower())):
        assert library.packed("tvmgen_m_npu_main_1", arrays, handle) == (0 if at < 0 else -1)
        assert journal(library) == seen
        assert library.number("allocated").value == 0


@pytest.mark.parametrize("npu", [{"merges": True}], indirect=True)
def test_neighbours_become_one_part(npu: Backend, tmp_path: Path) -> None:
    module = made("npu")
    assert module.report is not None
    assert [len(o.nodes) for o in module.report.offloaded] == [1, 2]
    library = loaded(module, tmp_path)
    (inputs,) = samples(module, 1)
    status, got = library.run(inputs, [None])
    assert (status, journal(library)) == (0, "A" + "OXC" * 2 + "D")
    want = run_model(network(), [inputs["x"]])[0]
    np.testing.assert_allclose(next(iter(got.values())), want, rtol=1e-5, atol=1e-6)


def test_the_report_and_the_archive_say_what_went_where(npu: Backend) -> None:
    module = made("npu")
    assert module.report is not None
    assert module.report.lines()[0] == "3 of 4 nodes are for npu"
    assert [dict(k.reasons) for k in module.report.kept] == [{"npu": "waves are not for it"}]
    files = bundle([module]).files
    metadata = json.loads(files["metadata.json"])["modules"]["m"]
    assert metadata["external_dependencies"] == [
        {"short_name": "npu-driver", "url": "npu.example", "url_type": "url", "version_spec": "1.2"}
    ]
    kernels = [f["function_name"] for f in metadata["memory"]["functions"]["operator_functions"]]
    assert "tvmgen_m_npu_main_2" in kernels
    about = json.loads(files["executor-config/aot/m.json"])
    assert about["backends"] == module.report.to_json()
    assert about["devices"] == ["npu2"]
    assert files["codegen/host/include/vendor.h"] == HEADER.encode()
    assert b"tvmgen_m_npu_main_0" in files["codegen/host/src/m_lib2.c"]
    header = files["codegen/host/include/tvmgen_m.h"].decode()
    assert "struct tvmgen_m_devices {\n  void *npu2;\n};" in header
    assert files == bundle([made("npu")]).files


def test_a_backend_that_takes_nothing_leaves_a_file(npu: Backend, tmp_path: Path) -> None:
    nothing = replace(npu, name="nothing", accepts=lambda *_: "")
    register_backend(nothing)
    module = made("nothing", "npu")
    assert "takes_nothing" in module.sources.files["codegen/host/src/m_lib2.c"]
    assert "npu_main_0" in module.sources.files["codegen/host/src/m_lib3.c"]
    assert loaded(module, tmp_path).run(samples(module, 1)[0], [None])[0] == 0


def test_pools_and_workspace_io_go_with_devices(npu: Backend, tmp_path: Path) -> None:
    """The workspace of a part is planned with all else, wherever that is."""
    module = made("npu", workspace_io=True)
    header = module.sources.header
    assert "tvmgen_m_run(struct tvmgen_m_devices *devices);" in header
    pooled = made("npu", pools=("fast=4KiB",))
    assert "struct tvmgen_m_workspace_pools *pools, struct tvmgen_m_devices *devices" in (
        pooled.sources.header
    )
    for k, each in enumerate((module, pooled)):
        folder = tmp_path / str(k)
        folder.mkdir()
        loaded(each, folder)


def answers(backend: Backend, **changes: Any) -> str:
    register_backend(replace(backend, **changes))
    with pytest.raises(MlfError) as caught:
        made("npu")
    assert caught.value.exit_code == 2
    text = str(caught.value)
    assert "\n" not in text
    return text


BAD_ACCEPTS: Sequence[tuple[Any, str]] = [
    (lambda g, n, t: 5, "accepts returned int; expected a tuple of nodes or text"),
    (lambda g, n, t: (), "accepts returned nodes of which this is not the last"),
    (lambda g, n, t: (g.nodes[0],), "accepts returned nodes of which this is not the last"),
    (lambda g, n, t: (n, n), "accepts returned a node twice, or one of another graph"),
    (lambda g, n, t: (g.nodes[0], n) if n is g.nodes[-1] else "", "does not need"),
    (lambda g, n, t: 1 / 0, "ZeroDivisionError: division by zero"),
]


@pytest.mark.parametrize(("accepts", "said"), BAD_ACCEPTS)
def test_a_wrong_answer_is_one_line(accepts: Any, said: str) -> None:
    assert said in answers(NPU, accepts=accepts)


BAD_CODE: Sequence[tuple[Any, str]] = [
    (None, "compile returned NoneType; expected an mlftool.backends.BackendCode"),
    (BackendCode(""), "the body that compile returned has no return"),
    (BackendCode("return 0;", workspace_bytes=-1), "workspace_bytes is -1"),
    (BackendCode("return 0;", constants={"for": np.zeros(1)}), "constant 'for'"),
    (BackendCode("return 0;", constants={"in3": np.zeros(1)}), "constant 'in3'"),
    (BackendCode("return 0;", constants={"w": [1]}), "constant 'w' is list"),  # type: ignore[dict-item]
    (BackendCode("return 0;", headers={"../x.h": ""}), "header '../x.h'"),
    (BackendCode("return 0;", objects=("x",)), "objects holds something else"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("code", "said"), BAD_CODE)
def test_wrong_code_is_one_line(code: Any, said: str) -> None:
    assert said in answers(NPU, compile=lambda part, target: code)


def test_a_header_has_one_content() -> None:
    def different(part: Graph, target: Target) -> BackendCode:
        return replace(compile(part, target), headers={"vendor.h": HEADER + part.name})

    assert "two contents" in answers(NPU, compile=different)


def test_names_that_are_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MlfError, match="did you mean 'cmsis-nn'"):
        wanted(("cmsis-n",))
    with pytest.raises(MlfError, match="has a backend 'cmsis-nn' already"):
        register_backend(replace(NPU, name="cmsis-nn"))
    with pytest.raises(MlfError, match="is int; expected an mlftool"):
        register_backend(5)  # type: ignore[arg-type]
    with pytest.raises(MlfError, match="has the name 'A b'"):
        register_backend(replace(NPU, name="A b"))
    with pytest.raises(MlfError, match="has the device '9'"):
        register_backend(replace(NPU, device="9"))
    with pytest.raises(MlfError, match="accepts is not a function"):
        register_backend(replace(NPU, accepts=None))
    register_backend(NPU)
    register_backend(replace(NPU, name="other", device="npu-2"))
    with pytest.raises(MlfError, match="have one name"):
        wanted(("npu", "other"))
    assert set(backends()) >= {"cmsis-nn", "npu"}


def test_a_backend_of_ours_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in `vendors`, and the command line, lists of targets and scripts know it."""
    (tmp_path / "seventh.py").write_text(FILE.replace('"own"', '"seventh"'))
    monkeypatch.setattr(vendors, "__path__", [*vendors.__path__, str(tmp_path)])
    onnx.save(network(), tmp_path / "m.onnx")
    asked = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tar")]
    for words in (["--backend", "seventh"], ["--target", "seventh, c -mcpu=cortex-m4"]):
        assert main([*asked, *words]) == 0
        assert capsys.readouterr().out.startswith("3 of 4 nodes are for seventh\n")
    assert mlftool.partition_for(mlftool.from_onnx(network())[0], "seventh").backends == (
        "seventh",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "defines no BACKEND"),
        ("BACKEND = 5", "BACKEND of b.py is int"),
        ("raise ValueError('no')", "the backend's file failed: ValueError: no"),
        ("import", "the backend's file failed: SyntaxError"),
    ],
)
def test_files_that_are_no_backends(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text(text)
    with pytest.raises(MlfError, match=said):
        wanted(("b",), [tmp_path / "b.py"])
    with pytest.raises(MlfError, match="No such file"):
        wanted(("b",), [tmp_path / "none.py"])
    assert [p.name for p in tmp_path.iterdir()] == ["b.py"]


FILE = """
from mlftool.backends import Backend, BackendCode
def accepts(graph, node, target):
    return (node,) if node.op == "Gemm" else ""
def compile(part, target):
    return BackendCode("return 0;")
BACKEND = Backend("own", accepts, compile)
"""


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.py").write_text(FILE)
    onnx.save(network(), tmp_path / "m.onnx")
    model, out = str(tmp_path / "m.onnx"), str(tmp_path / "m.tar")
    asked = ["compile", model, "-o", out, "--backend", "own"]
    asked += ["--backend-file", str(tmp_path / "own.py")]
    assert main(asked) == 0
    assert capsys.readouterr().out.startswith("3 of 4 nodes are for own\n")
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["backends"] == ["own"]
    for wrong, said in [
        (["--backend", "none"], "no backend with this name; got 'none'"),
        (["--backend", "cmsis-nn", "--target", "llvm"], "backends with a target of kind llvm"),
        (["--target", "cmsis-nn -keys=x,c"], "'cmsis-nn' has no attribute '-keys=x"),
        (["--target", "ethos-n,c"], "a generator that mlftool does not have"),
    ]:
        assert main(["compile", model, "-o", out, *wrong]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "core"),
    [
        ("cmsis-nn,c", "host"),
        ("cmsis-nn -mcpu=cortex-m55, c", "cortex-m55"),
        ("cmsis-nn, c -mcpu=cortex-m4", "cortex-m4"),
        ("cmsis-nn,cortex-m7", "cortex-m7"),
    ],
)
def test_tvms_spelling(target: str, core: str) -> None:
    module = compile_module(ModuleSpec(network(), "m", target))
    assert module.program.target.name == core
    assert module.spec.backends == ("cmsis-nn",)
    assert module.report is not None


def test_scripts() -> None:
    mod, _ = mlftool.from_onnx(network())
    aot = mlftool.Executor("aot", {"interface-api": "c"})
    from mlftool.relay.op.contrib.cmsisnn import partition_for_cmsisnn

    given = partition_for_cmsisnn(mod, mcpu="cortex-m55")
    factory = mlftool.build(given, "cortex-m4", executor=aot)
    assert factory.compiled.spec.backends == ("cmsis-nn",)
    factory = mlftool.build(mod, "cmsis-nn,c -mcpu=cortex-m4", executor=aot)
    assert factory.compiled.spec.backends == ("cmsis-nn",)
    register_backend(NPU)
    factory = mlftool.build(mlftool.partition_for(mod, "npu"), executor=aot)
    assert "npu_main_0" in factory.lib.get_source()
    with pytest.raises(MlfError, match="no option 'debug'"):
        partition_for_cmsisnn(mod, debug=1)
    graph = mlftool.build(mlftool.partition_for(mod, "npu"))
    assert "npu_main_0" in graph.get_graph_json()
