"""mlftool.load: archives of every version, in TVM's own shape, read and run on this computer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm_archives import (
    ADD,
    CONSTANT,
    GRAPH,
    KERNELS,
    P0,
    PREAMBLE,
    RELAY,
    X,
    Y,
    code,
    graph_archive,
    linked_archive,
    network_archive,
    operator_archive,
    packed_archive,
    struct_archive,
)

import mlftool
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, write_tar
from mlftool.mlf.archive import read, write
from mlftool.runtime.host import build_runner
from mlftool.runtime.load import LoadedArchive
from mlftool.runtime.runner import run_on_host

HEADER_FILE = "codegen/host/include/tvmgen_default.h"


def loaded(bundle: Bundle, path: Path) -> LoadedArchive:
    write_tar(bundle, path / "a.tar")
    return mlftool.load(path / "a.tar")


def changed(bundle: Bundle, **members: bytes) -> Bundle:
    return Bundle({**bundle.files, **members})


@pytest.mark.parametrize("version", range(1, 8))
def test_graph_archives_of_every_version(version: int, tmp_path: Path) -> None:
    """One-byte registries up to version 5, names and metadata as each version had them."""
    archive = loaded(graph_archive(version), tmp_path)
    assert archive.version == version
    assert archive.metadata["version"] == version
    assert archive.modules == ("default",)
    module = archive.module()
    assert [(t.name, t.dtype.name, t.shape) for t in module.inputs] == [("x", "float32", (1, 4))]
    assert [(t.name, t.shape) for t in module.outputs] == [("output", (1, 4))]
    np.testing.assert_array_equal(module.params["p0"], P0, strict=True)
    assert module.graph is not None
    assert module.graph["arg_nodes"] == [0, 1]
    assert module.relay == RELAY
    assert list(module.sources) == [code(3, 0), code(3, 1)]
    for x in (X, -X, X * 3):
        y = np.maximum(x + P0, 0) * np.float32(2)
        np.testing.assert_array_equal(module.run({"x": x})["output"], y, strict=True)


def test_graphs_with_linked_parameters(tmp_path: Path) -> None:
    module = loaded(linked_archive(), tmp_path).module()
    assert ([t.name for t in module.inputs], module.params) == (["x"], {})
    for x in (X, -X):
        np.testing.assert_array_equal(module.run({"x": x})["output"], np.maximum(x + P0, 0) * 2)


def test_modules_for_devices_are_refused(tmp_path: Path) -> None:
    header = struct_archive().files[HEADER_FILE].decode()
    header += "struct tvmgen_default_devices {\n  void* ethos_u;\n};\n"
    bundle = changed(struct_archive(), **{HEADER_FILE: header.encode()})
    with pytest.raises(MlfError, match="runs on ethos_u, which needs a driver"):
        loaded(bundle, tmp_path).module().run({"x": X})


@pytest.mark.parametrize(
    ("bundle", "output"),
    [
        (packed_archive(), "output0"),
        (packed_archive(5, with_metadata=False), "output"),
        (struct_archive(), "output"),
        (struct_archive(external_pools=True), "output"),
        (network_archive(1), "output"),
        (network_archive(4), "output"),
    ],
    ids=["packed", "packed_of_2021", "interface_c", "external_pools", "oldest", "old"],
)
def test_aot_archives(bundle: Bundle, output: str, tmp_path: Path) -> None:
    module = loaded(bundle, tmp_path).module("default")
    assert (module.name, module.executor, module.graph) == ("default", "aot", None)
    assert [(t.name, t.dtype.name, t.shape) for t in module.inputs] == [("x", "float32", (1, 4))]
    np.testing.assert_array_equal(module.run({"x": X})[output], Y, strict=True)
    np.testing.assert_array_equal(module.run({"x": -X})[output], np.maximum(P0 - X, 0) * 2)


@pytest.mark.parametrize("version", [4, 5, 6, 7])
def test_operator_archives(version: int, tmp_path: Path) -> None:
    archive = loaded(operator_archive(version), tmp_path)
    assert archive.modules == ("add",)
    a, b = np.array([1, 2, 100, -128], np.int8), np.array([3, -3, 100, 1], np.int8)
    result = archive.module().run({"A": a, "B": b})
    np.testing.assert_array_equal(result["C"], a + b, strict=True)


def test_outputs_of_operators_can_be_named(tmp_path: Path) -> None:
    """C, the last argument, is the input here: the kernel writes to A."""
    bundle = operator_archive(7)
    source = ADD.replace("((int8_t*)C)[i] =", "((int8_t*)A)[i] = -").replace("(((int8_t*)A)", "(C1")
    source = source.replace("(C1[i]", "(((int8_t*)C)[i]")
    bundle = changed(bundle, **{"codegen/host/src/lib1.c": source.encode()})
    module = loaded(bundle, tmp_path).module("add", outputs=["A"])
    assert [t.name for t in module.inputs] == ["B", "C"]
    b, c = np.array([1, 2, 3, 4], np.int8), np.array([5, 6, 7, 9], np.int8)
    np.testing.assert_array_equal(module.run({"C": c, "B": b})["A"], -(b + c))


@pytest.mark.parametrize("bundle", [graph_archive(5), struct_archive(), operator_archive(4)])
def test_tvms_archives_can_be_written_again(bundle: Bundle, tmp_path: Path) -> None:
    """As version 7, with our extras, and they run as before."""
    record = read(bundle)
    new = write(type(record)(7, record.modules, record.shared))
    module = loaded(new, tmp_path).module()
    feeds = {t.name: np.ones(t.shape, t.dtype) for t in module.inputs}
    before = loaded(bundle, tmp_path).module().run(feeds)
    for name, array in module.run(feeds).items():
        np.testing.assert_array_equal(array, before[name], strict=True)


def compile_object(source: str, folder: Path, *flags: str) -> bytes:
    (folder / "k.c").write_text(source)
    include = Path(__file__).parents[2] / "crt" / "include"
    subprocess.run(["cc", "-c", "-fPIC", f"-I{include}", "k.c", *flags], cwd=folder, check=True)
    return (folder / "k.o").read_bytes()


def with_object(data: bytes) -> Bundle:
    """The graph archive as an LLVM target gives it: kernels as an object file."""
    files = dict(graph_archive(7).files)
    del files[code(7, 1)]
    return Bundle({**files, code(7, 0, "o"): data})


def test_objects_for_this_machine_are_linked(tmp_path: Path) -> None:
    data = compile_object(PREAMBLE + KERNELS, tmp_path)
    module = loaded(with_object(data), tmp_path).module()
    np.testing.assert_array_equal(module.run({"x": X})["output"], Y)


def test_objects_for_a_fixed_address_run_as_programs_only(tmp_path: Path) -> None:
    source = PREAMBLE + KERNELS + "int a[9]; int *get(void) { return a; }\n"
    bundle = with_object(compile_object(source, tmp_path, "-fno-pie", "-fno-pic", "-O2"))
    module = loaded(bundle, tmp_path).module()
    with pytest.raises(MlfError, match=r"relocation R_.* recompile with -fPIC"):
        module.run({"x": X})
    program = build_runner(bundle, module.interface)
    (output,) = run_on_host(program, module.interface, [{"x": X}]).outputs
    np.testing.assert_array_equal(output["output"], Y)


def test_objects_may_call_through_pointers(tmp_path: Path) -> None:
    """As LLVM's do that were made for TVM's C++ runtime, which sets the pointers; so do we."""
    source = (
        PREAMBLE
        + """__attribute__((weak)) void *__TVMBackendParallelLaunch;
typedef int (*launch)(int (*)(int, TVMParallelGroupEnv *, void *), void *, int);
static int work(int id, TVMParallelGroupEnv *env, void *data) { return *(int *)data += 41 + id, 0; }
static int parallel(void) {
  int got = 0;
  return ((launch)__TVMBackendParallelLaunch)(work, &got, 4) == 0 && got == 41 ? 0 : -2;
}
"""
    )
    source += KERNELS.replace("  return 0;\n", "  return parallel();\n", 1)
    data = compile_object(source, tmp_path)
    module = loaded(with_object(data), tmp_path).module()
    np.testing.assert_array_equal(module.run({"x": X})["output"], Y)


def test_objects_for_others_are_refused(tmp_path: Path) -> None:
    arm = bytearray(compile_object(PREAMBLE + KERNELS, tmp_path))
    arm[4], arm[18] = 1, 40  # a 32-bit file for Arm
    whole = compile_object(PREAMBLE + KERNELS, tmp_path)
    for data, message in (
        (bytes(arm), "is compiled for armv7l"),
        (b"!<arch>\n", "is not an ELF"),
        (whole[:-1], f"ends after {len(whole) - 1} bytes, within its sections"),
    ):
        module = loaded(with_object(data), tmp_path).module()
        with pytest.raises(MlfError, match=message) as caught:
            module.run({"x": X})
        assert [p.code for p in caught.value.problems] == ["MLF0612"]
        assert caught.value.problems[0].path == code(7, 0, "o")


def test_sources_in_c_plus_plus(tmp_path: Path) -> None:
    """As some external code generators give them, one kernel to a file."""
    first, second = KERNELS.split("\n#ifdef", 1)
    files = {
        code(7, 1): (PREAMBLE + first).encode(),
        code(7, 2, "cc"): f"#include <vector>\n{PREAMBLE}\n#ifdef{second}".encode(),
    }
    module = loaded(changed(graph_archive(7), **files), tmp_path).module()
    np.testing.assert_array_equal(module.run({"x": X})["output"], Y)


@pytest.mark.parametrize(
    ("text", "needs", "library"),
    [
        ("#include <arm_nnfunctions.h>\n", "the header 'arm_nnfunctions.h'", "CMSIS-NN"),
        ("#include <tvm_ethosu_runtime.h>\n", "the header 'tvm_ethosu", "the Arm Ethos-U core"),
        ("#include <my_npu.h>\n", "the header 'my_npu.h'", "build the module in your own project"),
        (
            "int TVMEthosULaunch(void);\nint npu(void);\n"
            "int tvmgen_default_ethos_u_main_0(void) { return npu() + TVMEthosULaunch(); }\n",
            "the function npu, TVMEthosULaunch",
            "the Arm Ethos-U core driver",
        ),
    ],
)
def test_external_libraries_are_named(text: str, needs: str, library: str, tmp_path: Path) -> None:
    bundle = changed(struct_archive(), **{code(7, 2): text.encode()})
    archive = loaded(bundle, tmp_path)
    with pytest.raises(MlfError) as caught:
        archive.module().run({"x": X})
    (problem,) = caught.value.problems
    assert problem.code == "MLF0611"
    assert f"module 'default' needs {needs}" in problem.message
    assert library in problem.help


@pytest.mark.parametrize("make", [struct_archive, packed_archive, lambda: graph_archive(7)])
def test_a_file_of_the_module_that_is_missing_is_one_clear_line(
    make: Callable[[], Bundle], tmp_path: Path
) -> None:
    """Each in turn: a module that needs it says which function is gone, and whose it is."""
    bundle = make()
    (wanted,) = loaded(bundle, tmp_path).module().run({"x": X}).values()
    names = [n for n in bundle.files if n.startswith("codegen/host/src/")]
    missed = 0
    for name in names:
        files = {k: v for k, v in bundle.files.items() if k != name}
        try:
            (made,) = loaded(Bundle(files), tmp_path).module().run({"x": X}).values()
        except MlfError as error:
            (problem,) = error.problems
            assert "\n" not in problem.message
            assert "undefined symbol" not in problem.message
            if problem.code == "MLF0611":
                missed += "the archive lacks a file of codegen/host" in problem.help
        else:
            np.testing.assert_array_equal(made, wanted)
    assert missed > 0


def test_an_abort_ends_the_call_and_not_the_process(tmp_path: Path) -> None:
    source = "#include <tvm/runtime/crt/platform.h>\n" + PREAMBLE + KERNELS
    source = source.replace("  return 0;\n", "  TVMPlatformAbort((tvm_crt_error_t)0x503);\n", 1)
    bundle = changed(graph_archive(7), **{code(7, 1): source.encode()})
    module = loaded(bundle, tmp_path).module()
    for _ in range(2):
        with pytest.raises(MlfError, match="the graph executor returned 1283") as caught:
            module.run({"x": X})
        assert caught.value.exit_code == 1


def test_kernels_that_fail_are_errors(tmp_path: Path) -> None:
    source = (PREAMBLE + KERNELS).replace("  return 0;\n", "  return -7;\n", 1).encode()
    module = loaded(changed(graph_archive(7), **{code(7, 1): source}), tmp_path).module()
    with pytest.raises(MlfError, match="the graph executor returned -7"):
        module.run({"x": X})
    source = (PREAMBLE + CONSTANT + ADD).replace("  return 0;\n", "  return -9;\n").encode()
    bundle = changed(operator_archive(7), **{"codegen/host/src/lib1.c": source})
    with pytest.raises(MlfError, match="add returned -9"):
        loaded(bundle, tmp_path).module().run(dict.fromkeys("AB", np.zeros(4, np.int8)))


def test_inputs_are_checked(tmp_path: Path) -> None:
    module = loaded(graph_archive(7), tmp_path).module()
    for feeds, message in (
        ({}, "no array for tensor 'x'"),
        ({"x": X[:, :3]}, "wrong shape; got \\[1, 3\\]"),
        ({"x": X.astype(np.float64)}, "wrong type; got float64, expected float32"),
        ({"x": X, "p1": X}, "no input with this name; got 'p1'"),
    ):
        with pytest.raises(MlfError, match=message):
            module.run(feeds)
    np.testing.assert_array_equal(module.run({"x": X.reshape(2, 2)})["output"], Y)


def test_sizes_without_shapes_are_flat(tmp_path: Path) -> None:
    """Interface c, and a Relay text that says something else."""
    bundle = changed(struct_archive(), **{"src/default.relay": b"fn (%x: Tensor[(9)]) {}"})
    module = loaded(bundle, tmp_path).module()
    assert [t.shape for t in (*module.inputs, *module.outputs)] == [(4,), (4,)]
    np.testing.assert_array_equal(module.run({"x": X})["output"], Y.reshape(4))


GRAPH_FILE = "executor-config/graph/default.graph"
COPY = GRAPH.replace('"func_name": "tvmgen_default_fused_multiply"', '"func_name": "__copy"')
WEIGHT = RELAY.replace("float32])", "float32], %w: Tensor[(3, 3), int8])", 1)


@pytest.mark.parametrize(
    ("bundle", "message"),
    [
        (
            changed(packed_archive(5, False), **{"src/relay.txt": WEIGHT.encode()}),
            "Relay's main has 3 tensors; the C code does not read as many arguments",
        ),
        (
            changed(packed_archive(5, False), **{"src/relay.txt": b""}),
            "the module's tensors are unknown",
        ),
        (
            changed(struct_archive(), **{HEADER_FILE: b"\xff"}),
            "declares no struct tvmgen_",
        ),
        (changed(graph_archive(7), **{GRAPH_FILE: COPY.encode()}), "it copies between devices"),
    ],
)
def test_what_nothing_says_is_not_guessed(bundle: Bundle, message: str, tmp_path: Path) -> None:
    archive = loaded(bundle, tmp_path)
    with pytest.raises(MlfError, match=message) as caught:
        archive.module().run({"x": X})
    assert [p.code for p in caught.value.problems] == ["MLF0607"]


def graph_with(*changes: tuple[str, str]) -> Bundle:
    text = GRAPH
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return changed(graph_archive(7), **{GRAPH_FILE: text.encode()})


@pytest.mark.parametrize(
    ("bundle", "code_", "message"),
    [
        (graph_with(("[0, 1, 2, 3]", "[0, 1, 2, 9]")), "MLF0509", "got 9, expected an integer"),
        (graph_with(("[1, 4]", "[65536, 65536]")), "MLF0607", "takes 17179869184 bytes, over 2147"),
        (graph_with(("[1, 4]", "[-1, 4]")), "MLF0509", "got -1, expected an integer from 0"),
        (graph_with(("float32", "string")), "MLF0607", "'string' is not a supported tensor type"),
        (graph_with(("float32", "08")), "MLF0607", "'08' is not a supported tensor type"),
        (
            changed(linked_archive(), **{"executor-config/graph/graph.json": GRAPH.replace(
                '"float32"', '"flat32"', 2).replace('"flat32"', '"float32"', 1).encode()}),
            "MLF0607",
            "'flat32' is not a supported tensor type",
        ),
        (
            graph_with(("fused_multiply", "fused(); evil")),
            "MLF0607",
            "is not the name of a C function",
        ),
        (
            changed(graph_archive(7), **{"parameters/default.params": bytes(24)}),
            "MLF0508",
            "magic number",
        ),
        (
            changed(graph_archive(2), **{"parameters/default.params": b""}),
            "MLF0508",
            "claims 16 bytes at 0; 0 are left",
        ),
        (
            changed(operator_archive(7), **{"metadata.json": operator_archive(7).files[
                "metadata.json"].replace(b'"size_bytes": 4', b'"size_bytes": 5')}),
            "MLF0607",
            "argument 'A' says 5 bytes for int8 [4]",
        ),
        (
            changed(operator_archive(7), **{"metadata.json": operator_archive(7).files[
                "metadata.json"].replace(b'"add": [', b'"add; x": [')}),
            "MLF0607",
            "'add; x' is not the name of a C function",
        ),
    ],
)  # fmt: skip
def test_hostile_archives(bundle: Bundle, code_: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(MlfError) as caught:
        run_with_zeros(bundle, tmp_path)
    problem = caught.value.problems[0]
    assert (problem.code, message in problem.message) == (code_, True), problem


def run_with_zeros(bundle: Bundle, path: Path) -> None:
    module = loaded(bundle, path).module()
    module.run({t.name: np.zeros(t.shape, t.dtype) for t in module.inputs})


def test_c_metadata_that_lie_are_refused(tmp_path: Path) -> None:
    lies = (
        ("1L /* version*/", "2L /* version*/", "they have version 2"),
        ("1L /* num_inputs*/", "-1L /* num_inputs*/", "they name -1 tensors"),
        ("2L /* num_shape*/", "99L /* num_shape*/", "tensor 0 has rank 99"),
        ("1L, \n4L};", "1L, \n-4L};", "tensor 0 has shape \\[1, -4\\]"),
        ("{2, 32, 1}", "{2, 33, 1}", "type code 2 with 33 bits"),
        ("    return 0;\n};", "    return 3;\n};", "get_c_metadata returned 3"),
    )
    archive = packed_archive()
    for old, new, message in lies:
        source = archive.files[code(7, 1)].decode()
        assert old in source
        bundle = changed(archive, **{code(7, 1): source.replace(old, new).encode()})
        with pytest.raises(MlfError, match=message) as caught:
            loaded(bundle, tmp_path).module()
        assert [p.code for p in caught.value.problems] == ["MLF0607"]
